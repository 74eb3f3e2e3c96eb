"""``edgetune boards remove NAME``: removes a board from boards.yaml."""

from __future__ import annotations

import click

from edgetune.cli.output import Output, output_options


@click.command("remove")
@click.argument("name")
@output_options
def command(output: Output, /, name: str) -> None:
    """Remove the board NAME from boards.yaml; comments there and the records of the board stay."""
    from edgetune.config.boards_remove import remove_board

    path = remove_board(name)
    if output.as_json:
        output.result({"board": name, "file": path})
    elif output.verbosity >= 0:
        output.line(f"removed {name} from {path}; its records stay")
