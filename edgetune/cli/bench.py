"""``edgetune bench DIR``."""

from __future__ import annotations

from pathlib import Path

import click

from edgetune.cli.options import BOARD
from edgetune.cli.output import Output, output_options


@click.command("bench")
@click.argument("package", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--board", type=BOARD, help="Board to run on; the one that the package was made for by default.")
@output_options
def command(output: Output, package: Path, board: str | None) -> None:
    """Measure the package in DIR on the board, as a whole and layer by layer."""
    from edgetune import api
    from edgetune.cli.progress import show_progress

    with show_progress(output, f"bench {package}") as events:
        report = api.bench(package, board, events)
    output.result(report.to_json(), title=f"bench {package}")
