"""Lock of a debug probe: one run at a time uses it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable

from edgetune.boards.lock import LOCK_TIMEOUT_S, TimingLock, lock_path
from edgetune.events import Event
from edgetune.target.target import Probe


def probe_lock(
    probe: Probe, timeout_s: float = LOCK_TIMEOUT_S, on_event: Callable[[Event], None] = lambda _: None
) -> TimingLock:
    """Return the lock of this user for a probe: what has the same command is the same probe.

    Raises BoardUnavailable where the file of the lock cannot be opened.
    """
    digest = hashlib.sha256("\0".join(probe.command).encode()).hexdigest()[:16]
    path = lock_path().with_name(f"edgetune-probe-{os.getuid()}-{digest}.lock")
    return TimingLock(path, timeout_s, on_event)
