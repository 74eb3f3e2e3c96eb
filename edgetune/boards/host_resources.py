"""What this machine gives the boards of a session: a folder, its cores, its lock, and a callback for events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgetune.boards.cores import CoreSplit
from edgetune.boards.lock import LOCK_TIMEOUT_S
from edgetune.events import Event

OnEvent = Callable[[Event], None]


@dataclass(frozen=True)
class HostResources:
    """`folder` takes the boards' own files; `split` divides the cores into those that build and those that measure.

    `lock_file` locks this machine (None: the usual one). `lock_timeout_s` limits the wait for a board that another run
    uses.
    """

    folder: Path
    split: CoreSplit
    lock_file: Path | None = None
    lock_timeout_s: float = LOCK_TIMEOUT_S
    on_event: OnEvent = lambda _: None
