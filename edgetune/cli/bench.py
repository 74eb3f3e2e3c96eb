"""``edgetune bench DIR``: times a package as a whole and layer by layer."""

from __future__ import annotations

from pathlib import Path

import click

from edgetune.cli.options import BOARD
from edgetune.cli.output import Output, output_options


@click.command("bench")
@click.argument("package", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--board", type=BOARD, help="Board to run on (default: this machine, under an emulator if needed).")
@output_options
def command(output: Output, package: Path, board: str | None) -> None:
    """Measure the package in DIR, as a whole and layer by layer.

    With --board, the board runs the package if it has an address or is an emulated machine. Otherwise it runs here;
    times under an emulator are marked, because they say nothing about a real core. edgetune waits for a search that
    times on the same board or on this machine. The median comes with its confidence interval and its trust grade.
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
        clock = facts.pop("clock_us")
        if clock:
            whole = sum(layer.median_us for layer in report.layers)
            read = f"takes {clock:.3f} us to read, which is subtracted from each layer"
            facts["clock"] = f"{read}; the layers add up to {whole:.2f} us"
    output.result(facts, title=f"bench {package}")
