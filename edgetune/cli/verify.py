"""``edgetune verify DIR``."""

from __future__ import annotations

from pathlib import Path

import click

from edgetune.cli.options import BOARD
from edgetune.cli.output import Output, output_options


@click.command("verify")
@click.argument("package", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--board", type=BOARD, help="Board to run on; the one that the package was made for by default.")
@output_options
def command(output: Output, package: Path, board: str | None) -> None:
    """Compile the package in DIR, run its self-test natively or under the emulator, and compare with the reference."""
    from edgetune import api

    report = api.verify(package, board)
    output.result(report.to_json(), title=f"verify {package}")
