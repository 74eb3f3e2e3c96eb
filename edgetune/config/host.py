"""Name of this host, as records, nights and locks in a database that several hosts share call it."""

from __future__ import annotations

import os
import socket

MOST_CHARACTERS = 255


def host_name() -> str:
    """Name of this host in the database: `EDGETUNE_HOST`, or else its own."""
    return (os.environ.get("EDGETUNE_HOST") or socket.gethostname())[:MOST_CHARACTERS]
