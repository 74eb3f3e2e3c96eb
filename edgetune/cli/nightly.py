"""``edgetune nightly``: nights of a farm."""

from __future__ import annotations

import getpass
import os
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetune.cli import nightly_reading
from edgetune.cli.nightly_farm import CELL, FARM, FILE, NIGHT, opened
from edgetune.cli.nightly_reading import row_of
from edgetune.cli.output import Output, output_options
from edgetune.cli.stderr import give_back

if TYPE_CHECKING:
    from edgetune.farm.engine import Engine
    from edgetune.farm.farm_file import Farm
    from edgetune.farm.night_store import Night, NightStore


@click.group("nightly")
def command() -> None:
    """Tune, verify and compare every model of a farm file on every board, night after night."""


for _reads in (nightly_reading.status, nightly_reading.log, nightly_reading.report_, nightly_reading.doctor):
    command.add_command(_reads)


def _engine(farm: Farm, store: NightStore, output: Output) -> Engine:
    """The engine of a farm; a process that it starts anew writes to the stderr that this command was started with."""
    from edgetune.farm.engine import engine_of
    from edgetune.farm.host_process import before_restart

    before_restart.append(give_back)
    return engine_of(farm, store, output.note)


@command.command("plan")
@FILE
@output_options
def plan(output: Output, /, path: Path) -> None:
    """Show the cells of the next night in their order, their minutes in earlier nights, and what will not fit."""
    from edgetune.farm import nights
    from edgetune.farm.farm_file import load_farm
    from edgetune.farm.night_store import NightStore
    from edgetune.records.database import database_exists

    farm = load_farm(path)
    with ExitStack() as stack:
        store = stack.enter_context(NightStore.open(farm.db, create=False)) if database_exists(farm.db) else None
        planned = nights.plan(farm, store, datetime.now(UTC))
    rows = [
        {
            "cell": item.cell.name,
            "kind": item.cell.kind,
            "does": "search, verify, compare" if item.cell.searches else "build, verify, compare",
            "minutes": item.minutes,
            "gate minutes": item.gate_minutes,
            "fits": item.fits,
        }
        for item in planned
    ]
    output.result(rows, title=f"plan of {farm.name}")


@command.command("run")
@FILE
@click.option("--now", is_flag=True, help="Run a night by day as well, without a window.")
@click.option("--if-window", is_flag=True, help="End without an error where no window is open, as a timer needs it.")
@output_options
def run(output: Output, /, path: Path, *, now: bool, if_window: bool) -> None:
    """Run the night of FARM, or go on with it; the page is written after each cell.

    Ctrl-C, SIGTERM and any death of this process lose nothing: the same command goes on. It ends with an error code
    where a cell is slower or larger than the accepted package.
    """
    from edgetune.config.stack import check_stack
    from edgetune.errors import Interrupted, NightChanged, NightFault, UsageError
    from edgetune.farm import nights
    from edgetune.farm.cells import cells_of
    from edgetune.farm.noise import too_noisy
    from edgetune.farm.notification import notify
    from edgetune.farm.page import page_folder, write_page
    from edgetune.farm.page.document import headline
    from edgetune.farm.report import report
    from edgetune.target.tool_process import require_path

    if now and if_window:
        raise UsageError("--now runs a night without a window, and --if-window none without one: give one of them")
    check_stack()
    require_path(os.environ)
    with opened(path, create=True) as (farm, store):
        shown: set[int] = set()
        told: set[int] = set()
        for said in too_noisy(farm, store, [cell.board for cell in cells_of(farm)]):
            output.note(said)

        def on_verdict(night: Night) -> None:
            page = write_page(farm, store, night)
            if night.id not in shown:
                shown.add(night.id)
                output.note(f"night {night.night}: {page}")
            for row in store.cells(night):
                if row.verdict is not None and row.id not in told:
                    told.add(row.id)
                    reason = f" ({row.verdict.reason})" if row.verdict.reason else ""
                    output.note(f"{row.cell.name}: {row.verdict.verdict}{reason}")

        def on_end(night: Night) -> None:
            on_verdict(night)
            if fault := notify(farm, store, night, headline(report(farm, store, night))):
                write_page(farm, store, night)
                output.note(f"nobody was notified of night {night.night} ({fault}): correct `notify`")

        try:
            engine = _engine(farm, store, output)
            night = nights.run(farm, store, engine, on_verdict, on_end, by_day=now, say=output.note)
        except nights.ByDay as error:
            if not if_window:
                raise
            output.note(error.message)
            return
        except KeyboardInterrupt:
            raise Interrupted("interrupted; what was measured is kept, and the same command continues") from None
        fault = notify(farm, store, night, headline(report(farm, store, night)))
        found = report(farm, store, night)
        rows = [row_of(cell, found.timezone) for cell in found.cells]
        page = write_page(farm, store, night) if fault else page_folder(farm, night) / "index.html"
        output.result(found.model_dump(mode="json") if output.as_json else rows, title=f"night {night.night}: {page}")
        if found.alarms:
            names = ", ".join(cell.cell for cell in found.alarms)
            unheard = f"; nobody was notified: {fault}" if fault else ""
            raise NightChanged(f"night {night.night} found {names} slower or larger: {page} tells more{unheard}")
        if fault:
            raise NightFault(f"night {night.night} is over, but nobody was notified of it ({fault}): correct `notify`")


@command.command("work")
@FILE
@output_options
def work(output: Output, /, path: Path) -> None:
    """Run cells of the nights that other hosts begin, until this process is ended.

    FARM needs `engine: procrastinate`. SIGTERM, Ctrl-C and any death of this process lose nothing: cells go on at
    another host, or here when it starts again.
    """
    from edgetune.config.stack import check_stack
    from edgetune.errors import Interrupted
    from edgetune.target.tool_process import require_path

    check_stack()
    require_path(os.environ)
    with opened(path, create=True) as (farm, store):
        try:
            _engine(farm, store, output).serve()
        except KeyboardInterrupt:
            raise Interrupted("interrupted; cells without a verdict go on at another host, or here later") from None


@command.command("accept")
@CELL
@click.option("--because", required=True, metavar="TEXT", help="Why this package is right; kept with your name.")
@FARM
@NIGHT
@output_options
def accept(output: Output, /, cell: str, because: str, path: Path, night: str | None) -> None:
    """Accept the package that CELL got in a night: from now on nights compare with it."""
    from edgetune.farm import nights
    from edgetune.farm.engine import check_libraries
    from edgetune.farm.page import page_folder, write_page

    with opened(path) as (farm, store):
        chosen = nights.night_called(farm, store, night)
        if page := (page_folder(farm, chosen) / "index.html").exists():
            check_libraries()
        nights.accept(farm, store, chosen, nights.cell_called(store.cells(chosen), cell), because)
        if page:
            write_page(farm, store, chosen)
    output.note(f"{cell}: the package of night {chosen.night} is accepted")


@command.command("rerun")
@CELL
@FARM
@NIGHT
@output_options
def rerun(output: Output, /, cell: str, path: Path, night: str | None) -> None:
    """Forget the verdict of CELL, so that `run` measures it again in the same night."""
    from edgetune.farm import nights
    from edgetune.farm.engine import engine_of

    with opened(path) as (farm, store):
        chosen = nights.night_called(farm, store, night)
        nights.rerun(farm, engine_of(farm, store), chosen, nights.cell_called(store.cells(chosen), cell))
    output.note(f"{cell}: `edgetune nightly run --now {path}` measures it again in night {chosen.night}")


@command.command("cancel")
@CELL
@FARM
@output_options
def cancel(output: Output, /, cell: str, path: Path) -> None:
    """Cancel CELL in the last night; where it runs, it ends within seconds."""
    from edgetune.errors import UsageError
    from edgetune.farm import nights

    with opened(path) as (farm, store):
        chosen = nights.night_called(farm, store, None)
        row = nights.cell_called(store.cells(chosen), cell)
        if not store.cancel(row.id, f"cancelled by {getpass.getuser()}"):
            raise UsageError(f"{cell} has its verdict already: `edgetune nightly rerun {cell}` forgets it")
    output.note(f"{cell}: cancelled in night {chosen.night}")


@command.command("drain")
@click.argument("name", metavar="HOST|BOARD")
@FARM
@click.option("--off", is_flag=True, help="Give it back to the nights.")
@output_options
def drain(output: Output, /, name: str, path: Path, *, off: bool) -> None:
    """Take a host or board out of the nights at once; what runs there ends within seconds, and loses nothing."""
    from edgetune.errors import UsageError
    from edgetune.farm import drains
    from edgetune.farm.nights import drainable
    from edgetune.yaml_reader.nearest import nearest

    with opened(path, create=True) as (farm, store):
        if off:
            if not drains.undrain(store.database, name):
                known = nearest(name, list(drains.drains(store.database)))
                raise UsageError(f"'{name}' is not drained: {known}")
            output.note(f"{name}: back in the nights")
            return
        if name not in (names := drainable(farm, store)):
            raise UsageError(f"'{name}' is no board of the farm and no host that worked for it: {nearest(name, names)}")
        drains.drain(store.database, name)
    output.note(f"{name}: drained; `edgetune nightly drain --off {name}` gives it back")


@command.command("notify")
@FILE
@output_options
def notify_(output: Output, /, path: Path) -> None:
    """Run the command of `notify` in FARM with the text on standard input, such as a failed service's last lines."""
    from edgetune.errors import NightFault, UsageError
    from edgetune.farm.farm_file import load_farm
    from edgetune.farm.notification import call

    farm = load_farm(path)
    if farm.content.notify is None:
        raise UsageError(f"{path} has no 'notify': write a command as a list, such as [mail, -s, edgetune, me@host]")
    if fault := call(farm, sys.stdin.read(), ""):
        raise NightFault(f"nobody was notified ({fault}): correct `notify`")
    output.note("notified")


@command.command("prune")
@FILE
@click.option("--dry-run", is_flag=True, help="Only count.")
@output_options
def prune(output: Output, /, path: Path, *, dry_run: bool) -> None:
    """Delete samples and logs of nights that are over a month old; medians and the archive stay for ever."""
    from dataclasses import asdict

    from edgetune.farm.retention import prune as prune_nights

    with opened(path) as (farm, store):
        found = prune_nights(farm, store, datetime.now(UTC), dry_run=dry_run)
    if output.as_json:
        output.result(asdict(found))
    else:
        words = "would be deleted" if dry_run else "deleted"
        output.line(
            f"samples of {found.verdicts} verdicts and logs of {found.folders} nights {words}: {found.bytes} bytes"
        )
