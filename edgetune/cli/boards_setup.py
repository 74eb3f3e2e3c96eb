"""``edgetune boards setup NAME``: prepares a board for its first measurement."""

from __future__ import annotations

import click

from edgetune.cli.options import BOARD
from edgetune.cli.output import Output, output_options


@click.command("setup")
@click.argument("board", type=BOARD)
@output_options
def command(output: Output, /, board: str) -> None:
    """Prepare BOARD, so that the first measurement comes soon.

    An emulated machine: its image is built from Debian packages into the cache. A board with an address: login is
    checked and the agent is compiled and tried there once, leaving nothing. A counting emulator: what is missing is
    said.
    """
    from edgetune.boards.setup import prepare
    from edgetune.cli.findings import show_table
    from edgetune.cli.progress import show_progress
    from edgetune.config.boards_file import load_board

    resolved = load_board(board)
    with show_progress(output, f"setup {board}") as events:
        findings = list(prepare(resolved, events))
    show_table(output, findings, title=f"boards setup {board}")
