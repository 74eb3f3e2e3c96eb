"""Commands of ``nightly`` that read: ``status``, ``log``, ``report`` and ``doctor``."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from edgetune.cli.nightly_farm import CELL, FARM, FILE, NIGHT, opened
from edgetune.cli.output import Output, output_options


def row_of(cell: dict[str, Any]) -> dict[str, object]:
    """What stands in a table for people."""
    ratio = cell["ratio"]
    change = "-" if ratio is None else f"{100 * (ratio - 1):+.2f} %"
    return {
        "cell": cell["cell"],
        "verdict": cell["verdict"],
        "nights": cell["nights"],
        "change": change,
        "cost": cell["new"],
        "unit": cell["unit"],
        "reason": "; ".join(filter(None, (cell["reason"], *cell["worse"], cell["cause"]))),
    }


@click.command("status")
@FILE
@output_options
def status(output: Output, /, path: Path) -> None:
    """Show the last night; ends with an error code where it began more than 26 hours ago."""
    from edgetune.errors import NightFault
    from edgetune.farm.open_nights import overdue
    from edgetune.farm.report import report

    with opened(path) as (farm, store):
        past = store.nights(farm.name)
        late = overdue(past, datetime.now(UTC))
        if past:
            found = report(farm, store, past[-1])
            rows = [row_of(cell.model_dump()) for cell in found.cells]
            over = "finished" if past[-1].finished_utc else "not finished"
            title = f"night {past[-1].night} of {farm.name}, {over}"
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
    """Print the log of CELL, such as ds_cnn@host: the events of its search and all that its programs wrote."""
    from edgetune.farm import nights
    from edgetune.farm.cell_log import parts_of_log

    with opened(path) as (farm, store):
        for text in parts_of_log(farm, store, nights.night_called(farm, store, night), cell, follow=follow):
            if output.as_json:
                output.result({"log": text})
            else:
                for line in text.splitlines():
                    output.line(line)
            sys.stdout.flush()


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
