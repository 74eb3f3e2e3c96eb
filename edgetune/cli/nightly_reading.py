"""Commands of ``nightly`` that read: ``status``, ``log``, ``report`` and ``doctor``."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from edgetune.cli.nightly_farm import CELL, FARM, FILE, NIGHT, opened
from edgetune.cli.output import Output, output_options

if TYPE_CHECKING:
    from edgetune.farm.report import CellReport

_UNITS = {"time": "us", "instructions": "k instructions"}
"""Unit of the times in a log, by what the board's clock counts."""


def row_of(cell: CellReport, timezone: str | None) -> dict[str, object]:
    """What stands in a table for people, with times in the farm's time zone."""
    from edgetune.farm.calendar import clock_time

    change = "-" if cell.ratio is None else f"{100 * (cell.ratio - 1):+.2f} %"
    since = cell.running_since_utc
    runs = f"on host {cell.host} since {clock_time(since, timezone)}" if since else ""
    return {
        "cell": cell.cell,
        "verdict": cell.verdict,
        "nights": cell.nights,
        "change": change,
        "cost": cell.new,
        "unit": cell.unit,
        "reason": "; ".join(filter(None, (runs, cell.reason, *cell.worse, cell.cause))),
    }


@click.command("status")
@FILE
@output_options
def status(output: Output, /, path: Path) -> None:
    """Show the last night; ends with an error code where it began more than 26 hours ago."""
    from edgetune.errors import NightFault
    from edgetune.farm.calendar import clock_time
    from edgetune.farm.open_nights import overdue
    from edgetune.farm.report import report

    with opened(path) as (farm, store):
        past = store.nights(farm.name)
        late = overdue(past, datetime.now(UTC), farm.content.timezone)
        if past:
            found = report(farm, store, past[-1])
            rows = [row_of(cell, found.timezone) for cell in found.cells]
            begun, ended = found.begun_utc, found.finished_utc
            over = f"finished {clock_time(ended, found.timezone)}" if ended else "not finished"
            title = f"night {found.night} of {farm.name}, begun {clock_time(begun, found.timezone)}, {over}"
            output.result(found.model_dump(mode="json") if output.as_json else rows, title=title)
        if late:
            raise NightFault(f"{late}: see the timer, or run `edgetune nightly run --now {path}`")


@click.command("log")
@CELL
@FARM
@NIGHT
@click.option("-f", "--follow", is_flag=True, help="Go on until the cell has a verdict.")
@output_options
def log(output: Output, /, cell: str, path: Path, night: str | None, *, follow: bool) -> None:
    """Print the log of CELL, such as ds_cnn@host: the events of its search and all that its programs wrote.

    Each event is a line with its time in the farm's time zone; --json gives each as it is, as one JSON value a line.
    """
    from edgetune.farm import nights
    from edgetune.farm.cell_log import lines_of_log

    with opened(path) as (farm, store):
        chosen = nights.night_called(farm, store, night)
        unit = "us"
        for line in lines_of_log(farm, store, chosen, cell, follow=follow):
            event = event_of(line)
            if output.as_json:
                output.result(event or {"event": "stderr", "message": line})
            elif event is None:
                output.line(line)
            else:
                unit = _UNITS.get(str(event.get("clock")), unit)
                output.line(line_of(event, farm.content.timezone, unit))
            sys.stdout.flush()


def event_of(line: str) -> dict[str, Any] | None:
    """The event that a line of a log holds, None where a program wrote the line."""
    from edgetune.events import EventKind

    try:
        found = json.loads(line)
        if not isinstance(found, dict) or found.get("event") not in get_args(EventKind):
            return None
        datetime.fromisoformat(found.get("utc", "1970-01-01"))
    except (ValueError, TypeError):
        return None
    return found


def line_of(event: dict[str, Any], timezone: str | None, unit: str) -> str:
    """An event as a line for people: its time, where the log has it, and what `tune` shows of it."""
    from edgetune.cli.failure import one_line
    from edgetune.cli.progress import plain_line
    from edgetune.events import Event
    from edgetune.farm.calendar import clock_time

    data = {key: value for key, value in event.items() if key not in ("event", "utc")}
    said = one_line(plain_line(Event(event["event"], data), unit))
    return f"{clock_time(event['utc'], timezone)}  {said}" if "utc" in event else said


@click.command("report")
@FILE
@NIGHT
@click.option("--open", "show", is_flag=True, help="Open the page in a browser.")
@output_options
def report_(output: Output, /, path: Path, night: str | None, *, show: bool) -> None:
    """Write the page of a night again and print where it is."""
    from edgetune.farm import nights
    from edgetune.farm.engine import check_libraries
    from edgetune.farm.page import write_page

    check_libraries()
    with opened(path) as (farm, store):
        page = write_page(farm, store, nights.night_called(farm, store, night))
    if output.as_json:
        output.result({"page": page})
    else:
        output.line(str(page))
    if show:
        click.launch(page.as_uri())


@click.command("doctor")
@FILE
@output_options
def doctor(output: Output, /, path: Path) -> None:
    """Check the database of FARM, its archive, locks, drains, and how old the last night is."""
    from edgetune.cli.findings import show_findings
    from edgetune.farm.doctor import findings
    from edgetune.farm.farm_file import load_farm

    found = findings(load_farm(path), datetime.now(UTC))
    show_findings(output, sorted(found, key=lambda finding: (finding.ok, not finding.required)))
