"""``edgetune boards shell NAME [-- COMMAND]``: opens a shell on a board, or runs a command there."""

from __future__ import annotations

import click

from edgetune.cli.options import BOARD
from edgetune.cli.output import Output, output_options
from edgetune.cli.stderr import given_back


@click.command("shell")
@click.argument("board", type=BOARD)
@click.argument("words", metavar="[-- COMMAND]", nargs=-1, type=click.UNPROCESSED)
@output_options
def command(output: Output, /, board: str, words: tuple[str, ...]) -> None:
    """Open a shell on BOARD with the system's ssh, or run COMMAND there; an emulated machine is started for it.

    The exit code is that of the shell. With --json, the command line is printed instead of run. That is not possible
    for an emulated machine, which runs only while its shell is open.
    """
    from edgetune.pipeline.boards import board_for_shell

    access = board_for_shell(board)
    if output.as_json:
        output.result({"command": access.shell_command(words)})
        return
    with given_back():
        code = access.enter(words, output.note)
    raise click.exceptions.Exit(code)
