"""``edgetune boards check NAME``: checks a board and the way to it, and shows the findings in a table."""

from __future__ import annotations

import click

from edgetune.cli.options import BOARD
from edgetune.cli.output import Output, output_options


@click.command("check")
@click.argument("board", type=BOARD)
@output_options
def command(output: Output, /, board: str) -> None:
    """Check BOARD (all its boards if it is a target's name) and print a table of faults and fixes.

    First the compiler on this machine builds a small program, which runs here or under the emulator. Then the checks
    of each board follow: connection, host key, login, architecture, folder, governor, clock, temperature, load, lock.
    No setting of the board changes. edgetune makes a folder there, runs a small script in it and removes both, as well
    as files of earlier runs that died. The exit code is that of the first fault that prevents measuring.
    """
    from edgetune.cli.findings import show_table
    from edgetune.pipeline.boards import check, load_board

    show_table(output, check(load_board(board, ask=True)), title=f"boards check {board}")
