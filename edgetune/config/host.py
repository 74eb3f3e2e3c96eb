"""Names of this host and of this run, as records, nights and locks in a shared database call them."""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime
from functools import cache

MOST_CHARACTERS = 255

RUN = "EDGETUNE_RUN"
"""Variable that names a run, such as the night and cell; child processes take over the name of their parent's run."""
RUN_ENDS = "EDGETUNE_RUN_ENDS"
"""Variable that says when this run probably ends, in UTC, such as 2026-11-24T23:40Z; unset where nobody knows."""


def host_name() -> str:
    """Name of this host in the database: `EDGETUNE_HOST`, or else its own."""
    return (os.environ.get("EDGETUNE_HOST") or socket.gethostname())[:MOST_CHARACTERS]


def run_name() -> str:
    """Name of this run: `EDGETUNE_RUN`, or else when it began and in which process, the same at each call."""
    return (os.environ.get(RUN) or _own_run(os.getpid()))[:MOST_CHARACTERS]


@cache
def _own_run(process: int) -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {process}"
