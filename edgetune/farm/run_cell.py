"""Runs one cell of a night, in a process of its own: search, build, verify, compare, verdict.

It may be killed at any moment. The next attempt repeats no measurement of the search, and only the present attempt
writes a verdict.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from edgetune import api
from edgetune.boards.lock import TimingLock
from edgetune.config.database_location import Branch
from edgetune.config.host import host_name
from edgetune.config.naming import package_name
from edgetune.config.settings import Settings
from edgetune.errors import (
    BoardBusy,
    BoardLost,
    DatabaseError,
    EdgetuneError,
    Interrupted,
    NightFault,
    ToolchainMissing,
    ToolHung,
)
from edgetune.events import Event
from edgetune.farm import archive, comparing
from edgetune.farm.acceptances import because_of
from edgetune.farm.bench import Bench, turns
from edgetune.farm.causes.rebuilding import Rebuilding
from edgetune.farm.cell_settings import CellSettings
from edgetune.farm.cells import Cell
from edgetune.farm.comparing import Versions
from edgetune.farm.farm_file import Farm, saved_farm
from edgetune.farm.health.board_health import INFRASTRUCTURE, BoardHealth
from edgetune.farm.health.checking import health_of
from edgetune.farm.health.tonights_canary import TonightsCanary
from edgetune.farm.host_process import Freezes
from edgetune.farm.lost_boards import pass_search
from edgetune.farm.night_store import NEVER, Accepted, Night, NightCell, NightStore, Verdict
from edgetune.ipc.child_process import die_with_parent
from edgetune.package.manifest import read_manifest
from edgetune.pipeline.boards import accesses, elsewhere, load_board
from edgetune.pipeline.on_board import at_board
from edgetune.records.record import utc_now
from edgetune.target.target import with_cpu
from edgetune.verify import starts
from edgetune.verify.probed import execution_place
from edgetune.verify.toolchain import PackageToolchain

Answer = TypeVar("Answer")
_NEW, _OLD, _CANARY = "new", "old", "canary"
_NIGHTS = 14
_LEAST_MINUTES = 1.0
FROZEN_S = 20.0
"""A process that did not run for so long was frozen. Compilers and self-tests have a minute and more; links to boards
have less time, but a lost board is tried again anyway."""


def folder_of(farm: Farm, night: str, cell: Cell) -> Path:
    """Folder of a cell's package and log in one night."""
    return farm.folder / "work" / night / cell.name


def log_of(farm: Farm, night: str, cell: Cell) -> Path:
    """The log of a cell in one night."""
    return folder_of(farm, night, cell) / "log"


def measure(
    farm: Farm, store: NightStore, night: Night, row: NightCell, health: BoardHealth
) -> tuple[Verdict, dict[str, Any] | None]:
    """Return the verdict on a cell, and the columns of the package that is accepted with it, if one is.

    Raises NightFault where the night lost what its searches read, and what the search, the board and the gate raise.
    """
    cell = row.cell
    store.need_snapshot(night)
    folder = folder_of(farm, night.night, cell) / _NEW
    folder.mkdir(parents=True, exist_ok=True)
    old, lost = _accepted(farm, store, cell, folder.with_name(_OLD))
    settings = replace(_settings(farm, cell, old, folder), branch=branch_of(night, cell))
    _print(Event("phase", {"name": f"attempt {row.attempt} on host {host_name()}", "clock": settings.target.clock}))
    with _within(search_seconds(farm, store, night, row), lambda: _out_of_time(store, row)):
        _write_package(cell, settings)
    package = folder / archive.PACKAGE
    report = api.verify(package, cell.board, settings.model, _print)
    exact = comparing.exact_facts(read_manifest(package), report)
    if old is None or old[1].facts.get("interface") != exact["interface"]:  # the model may be that of before again
        old, lost = _accepted(farm, store, cell, folder.with_name(_OLD), exact["interface"])

    def judged(bench: Bench) -> tuple[Verdict, bool]:
        bench.build(folder)
        rebuilding = Rebuilding(settings, farm.archive, _print)
        canary = TonightsCanary.of(health, farm.archive, folder.with_name(_CANARY))
        versions = Versions(folder, exact, old, lost, rebuilding, _past(farm, store, night, cell), canary)
        return comparing.verdict_of(bench, versions, night.limit, len(store.cells(night)))

    begun = time.monotonic()
    verdict, accept = _at(cell, judged)
    minutes = (time.monotonic() - begun) / 60
    verdict = replace(verdict, facts={**verdict.facts, "gate_minutes": minutes})
    if verdict.verdict == "same" and not verdict.facts.get("worse"):
        return verdict, None  # what is worse may be accepted in the morning
    verdict = Verdict(verdict.verdict, verdict.reason, archive.keep(farm.archive, folder), verdict.facts)
    archive.keep_model(farm.archive, Path(str(settings.model)), exact["model"])  # `accept` may come by day
    if not accept:
        return verdict, None
    return verdict, acceptance(farm, night.night, cell, verdict, because_of(verdict.reason))


def _settings(farm: Farm, cell: Cell, old: tuple[Path, Accepted] | None, folder: Path) -> Settings:
    """What the night began with. A package is called as the accepted one, so that names make no difference."""
    called = str(read_manifest(old[0] / archive.PACKAGE)["prefix"]) if old else ""
    name = called if package_name(called) == called else ""  # an earlier version may have allowed it
    if cell.begun_with is None and cell.model not in farm.models:
        raise NightFault(f"{farm.path} has no model '{cell.model}' any more: add it again")
    began = cell.begun_with or CellSettings.stated(farm, cell.model)
    return began.to_settings(farm, cell.model, cell.board, name, folder)


def branch_of(night: Night, cell: Cell) -> Branch:
    """The records that a search reads: those of before the night and its own, which its twins build from."""
    return Branch(night.snapshot, f"{cell.model} {cell.kind}", (cell.board,))


def _write_package(cell: Cell, settings: Settings) -> None:
    """Write the package of a cell. Raises BoardLost and Interrupted where its search ended before its budget.

    What such a search leaves is no result of the night: it would be accepted, or be an alarm, for want of time.
    """
    if not cell.searches:
        api.build(settings, events=_print)
        return
    found = api.tune(settings, events=_print)
    if found.interrupted:
        raise Interrupted("the search was interrupted: the next attempt goes on")
    if found.search.ended:
        raise BoardLost(found.search.ended)


def search_seconds(farm: Farm, store: NightStore, night: Night, row: NightCell) -> float | None:
    """Seconds that a cell may search: what is left of the window without the gate of its board's cells that wait.

    It is never less than the search took in its last night, or a minute. None where the end of the window alone bounds
    it: then no gate is known that needs time.
    """
    if night.ends_utc is None or not row.cell.searches:
        return None
    minutes = store.minutes(farm.name)
    waiting = [other.cell for other in store.cells(night) if other.verdict is None]
    owed = sum(minutes.get(cell.name, NEVER).gate for cell in waiting if cell.board == row.cell.board)
    if not owed:
        return None
    took = minutes.get(row.cell.name, NEVER)
    left = (datetime.fromisoformat(night.ends_utc) - datetime.now(UTC)) / timedelta(minutes=1)
    return 60.0 * max(_LEAST_MINUTES, took.all - took.gate, left - owed)


@contextmanager
def _within(seconds: float | None, out_of_time: Callable[[], None]) -> Iterator[None]:
    """Call `out_of_time` in another thread where the block takes longer."""
    if seconds is None:
        yield
        return
    timer = threading.Timer(seconds, out_of_time)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _out_of_time(store: NightStore, row: NightCell) -> None:
    """Give up a cell that still searches when its board's cells need the rest; its worker ends this process then."""
    if not store.is_present(row.id, row.attempt):
        return
    heir = pass_search(store, row)
    said = "its search was not over when the cells of its board needed the rest of the window for their comparisons"
    reason = f"{said}: it goes on in the next night, as the first one{heir}"
    store.judge(row.id, row.attempt, Verdict("not measured", reason, facts={"error": "OutOfTime"}))


def acceptance(
    farm: Farm, night: str, cell: Cell, verdict: Verdict, because: str, by: str = "edgetune"
) -> dict[str, Any]:
    """Columns of an accepted package: tonight's of a cell."""
    return {
        "farm": farm.name,
        "cell": cell.name,
        "settings": cell.settings,
        "night": night,
        "package": verdict.package,
        "facts": dict(verdict.facts.get("exact", {})),
        "by": by,
        "because": because,
    }


def _past(farm: Farm, store: NightStore, night: Night, cell: Cell) -> Sequence[Mapping[str, Any]]:
    """Facts and package of the cell's last `_NIGHTS` verdicts before this night that measured it, oldest first."""
    before = [other for other in store.nights(farm.name) if other.id < night.id]
    rows = (row for other in reversed(before) for row in store.cells(other) if row.cell.name == cell.name)
    found = (row.verdict for row in rows if row.verdict and row.verdict.facts.get("new"))
    return [{**verdict.facts, "package": verdict.package} for verdict in islice(found, _NIGHTS)][::-1]


def _accepted(
    farm: Farm, store: NightStore, cell: Cell, folder: Path, interface: object = None
) -> tuple[tuple[Path, Accepted] | None, str]:
    """The accepted package (`NightStore.accepted`) in `folder`; None and why it is lost, "" where there was none."""
    found = store.accepted(farm.name, cell, interface)
    if found is None:
        return None, ""
    shutil.rmtree(folder, ignore_errors=True)
    if lost := archive.restore(farm.archive, found.package, folder):
        return None, lost
    return (folder, found), ""


def _at(cell: Cell, use: Callable[[Bench], Answer]) -> Answer:
    """Call `use` with the place where the cell's packages are timed, while nobody else times there."""
    resolved = load_board(cell.board)
    target, boards = with_cpu(resolved.target), accesses(resolved)
    if elsewhere(boards):
        return at_board(boards, _print, lambda place, cores: use(Bench(place, target, cores, restart=place.restart)))
    tools = PackageToolchain.of_board(target)
    if any(access.carrier.counts for access in boards):
        return use(Bench(starts.counting_here(tools), target, counts=True))
    with turns(TimingLock(on_event=_print)) as between:
        return use(Bench(execution_place(tools), target, between_turns=between))


def _print(event: Event) -> None:
    sys.stderr.write(json.dumps({"utc": utc_now(), **event.to_json()}, default=str) + "\n")
    sys.stderr.flush()


def _again_if_frozen(freezes: Freezes, reason: str) -> None:
    """End this attempt where the process was frozen: what failed then says nothing, and the engine tries again."""
    if (seconds := freezes.longest()) > FROZEN_S:
        sys.exit(f"this process was frozen for {seconds:.0f} s, which may be the reason: {reason}")


def main() -> None:
    """Run the cell that the command line names: parent, saved farm, night, cell, attempt."""
    parent, path, name, number, attempt = sys.argv[1:6]
    die_with_parent(int(parent))
    freezes = Freezes()
    farm = saved_farm(Path(path))
    with NightStore.open(farm.db, create=True) as store:
        night = next((night for night in store.nights(farm.name) if night.night == name), None)
        row = next((row for row in store.cells(night) if row.id == int(number)), None) if night else None
        if night is None or row is None:
            raise NightFault(f"night {name} of farm {farm.name} has no cell {number}: it was deleted meanwhile")
        row = replace(row, attempt=int(attempt))
        os.chdir(folder_of(farm, name, row.cell))
        accept, health = None, None
        try:
            health = health_of(farm, store, night, row, _at, _print)
            if health.fault:
                _again_if_frozen(freezes, health.fault)
                heir = pass_search(store, row) if store.is_present(row.id, int(attempt)) else ""
                said = f"{INFRASTRUCTURE}{health.fault}{heir}"
                verdict = Verdict("not measured", said, facts={"error": "BoardUnfit"})
            else:
                verdict, accept = measure(farm, store, night, row, health)
        except (DatabaseError, Interrupted):
            raise  # no fault of the cell: the engine tries again
        except BoardLost as error:
            sys.stderr.write(f"{error.message}\n")
            sys.exit(BoardLost.exit_code)  # the engine tries again, behind the others
        except (
            ToolchainMissing,
            ToolHung,
        ) as error:  # of this host: another one may reach the board
            _again_if_frozen(freezes, error.message)
            heir = pass_search(store, row) if store.is_present(row.id, int(attempt)) else ""
            said = f"{INFRASTRUCTURE}host {host_name()}: {error.message}{heir}"
            verdict = Verdict("not measured", said, facts={"error": type(error).__name__})
        except EdgetuneError as error:
            _again_if_frozen(freezes, error.message)
            said = f"busy: {error.message}" if isinstance(error, BoardBusy) else error.message
            verdict = Verdict("not measured", said, facts={"error": type(error).__name__})
        if health is not None:
            verdict = replace(verdict, facts={**verdict.facts, "health": health.to_json()})
        if not store.judge(row.id, int(attempt), verdict, accept):
            sys.stderr.write(f"attempt {attempt} is not the present one any more: its verdict is not written\n")
            return
        for folder in folder_of(farm, name, row.cell).iterdir():  # the archive has what is worth keeping
            if folder.is_dir():
                shutil.rmtree(folder, ignore_errors=True)
