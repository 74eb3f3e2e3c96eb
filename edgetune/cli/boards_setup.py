"""``edgetune boards setup NAME``: prepares a board for its first measurement."""

from __future__ import annotations

import click

from edgetune.cli.options import BOARD
from edgetune.cli.output import Output, output_options


@click.command("setup")
@click.argument("board", type=BOARD)
@output_options
def command(output: Output, /, board: str) -> None:
    """Prepare BOARD for its first measurement.

    For an emulated machine, edgetune builds the image from Debian packages in the cache folder. For a board with an
    address, it checks the login, compiles the agent, runs it there once and removes it. For an emulator that counts
    instructions, it reports missing programs.
    """
    from edgetune.boards.setup import prepare
    from edgetune.cli.findings import show_table
    from edgetune.cli.progress import show_progress
    from edgetune.pipeline.backends import start_words
    from edgetune.pipeline.boards import accesses, load_board
    from edgetune.target.target import with_cpu

    resolved = load_board(board)
    boards = accesses(resolved)
    with show_progress(output, f"setup {board}") as events:
        findings = list(prepare(with_cpu(resolved.target), boards, events, start_words))
    show_table(output, findings, title=f"boards setup {board}")
