"""What others are told who find a board taken."""

from __future__ import annotations

import getpass
import os
import socket

_LENGTH = 60


def owner() -> str:
    """Return who we are, in at most 60 characters: user (or his number, where he has no name), machine, process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # in a container, often
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()} process {os.getpid()}"[:_LENGTH]
