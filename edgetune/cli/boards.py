"""``edgetune boards list|add|remove|check|trust|shell|setup``: the group of commands for boards."""

from __future__ import annotations

import click

from edgetune.cli.verbs import VerbGroup

# Verb -> first line of its help; the module is edgetune.cli.boards_<verb>.
VERBS = {
    "list": "List the kinds of boards, and those that have an address.",
    "add": "Give a board a name and an address.",
    "remove": "Forget the name and the address of a board.",
    "check": "Tell in a table what is wrong with a board, and how to mend it.",
    "trust": "Show the host key of a board, and remember it.",
    "shell": "Open a shell on a board.",
    "setup": "Prepare a board: the image of an emulated one, the agent on a real one.",
}


@click.group("boards", cls=VerbGroup, verbs=VERBS, prefix="edgetune.cli.boards_")
def command() -> None:
    """List, add, remove, check, trust, enter and set up boards."""
