"""``edgetune boards check NAME``: checks a board and the way to it, and shows the findings in a table."""

from __future__ import annotations

import click

from edgetune.cli.options import BOARD
from edgetune.cli.output import Output, output_options


@click.command("check")
@click.argument("board", type=BOARD)
@output_options
def command(output: Output, /, board: str) -> None:
    """Tell in a table what is wrong with BOARD (all boards, if it is a target's name), and how to mend it.

    The compiler on this side is tried with a small program, which runs natively or under the emulator. Then each
    board: way to it, host key, login, architecture, folder, governor, clock, temperature, load, lock. No
    setting is changed there; a folder is made, a small script tried in it, and both are removed, as are files of our
    runs that died. The exit code is that of the first fault that keeps the board from measuring.
    """
    from edgetune.boards.check import check
    from edgetune.cli.findings import show_table
    from edgetune.config.boards_file import load_board

    show_table(output, check(load_board(board)), title=f"boards check {board}")
