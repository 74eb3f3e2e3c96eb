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
    """Measure the package in DIR, as a whole and layer by layer."""
    from edgetune import api

    report = api.bench(package, board)
    output.result(report.to_json(), title=f"bench {package}")
