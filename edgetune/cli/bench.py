"""``edgetune bench DIR``: times a package as a whole and layer by layer."""

from __future__ import annotations

from pathlib import Path

import click

from edgetune.cli.options import BOARD
from edgetune.cli.output import Output, output_options


@click.command("bench")
@click.argument("package", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--board", type=BOARD, help="Board to run on; this machine by default, under an emulator if need be.")
@output_options
def command(output: Output, package: Path, board: str | None) -> None:
    """Measure the package in DIR, as a whole and layer by layer.

    With --board, a board with an address or an emulated machine runs it itself. Otherwise it runs here; times under an
    emulator are marked as such, for they say nothing about a real core. A search that times on the same board or on
    this machine is waited for. The median comes with the interval that encloses it and with its trust, as in records.
    """
    from edgetune import api
    from edgetune.cli.progress import show_progress

    with show_progress(output, f"bench {package}") as events:
        report = api.bench(package, board, events)
    facts = report.to_json()
    if not output.as_json:  # the thousand samples are only for programs
        facts["samples"] = f"{len(report.samples_us)}, of which {report.outliers} are outliers"
        for name in ("samples_us", "outliers"):
            del facts[name]
    output.result(facts, title=f"bench {package}")
