"""``edgetune explain DIR KERNEL``: shows why a kernel is in a package."""

from __future__ import annotations

from pathlib import Path

import click

from edgetune.cli.output import Output, output_options


@click.command("explain")
@click.argument("package", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("kernel")
@output_options
def command(output: Output, package: Path, kernel: str) -> None:
    """Show the record, board, time and schedule of KERNEL in the package DIR, and why it won."""
    from edgetune import api

    output.result(api.explain(package, kernel).to_json(), title=kernel)
