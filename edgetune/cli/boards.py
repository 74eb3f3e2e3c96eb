"""``edgetune boards list|add|remove|check|trust|shell|setup``: the group of commands for boards."""

from __future__ import annotations

import click

from edgetune.cli.verbs import VerbGroup

# Verb -> first line of its help; the module is edgetune.cli.boards_<verb>.
VERBS = {
    "list": "List the kinds of boards, and those that have an address.",
    "add": "Add a board: its name, kind and address.",
    "remove": "Remove a board from boards.yaml.",
    "check": "Check a board; print a table of faults and fixes.",
    "trust": "Show the host key of a board and trust it.",
    "shell": "Open a shell on a board.",
    "setup": "Prepare a board: build the image of an emulated one, try the agent on a real one.",
}


@click.group("boards", cls=VerbGroup, verbs=VERBS, prefix="edgetune.cli.boards_")
def command() -> None:
    """List, add, remove, check, trust and set up boards, and open shells on them."""
