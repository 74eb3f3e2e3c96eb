"""A folder per running machine, for its console and SSH files: private, and removed with it even if we are killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_LOCK = "alive"


class RunFolder:
    """A new folder in `parent`. Whoever makes the next one removes those whose makers were killed."""

    def __init__(self, parent: Path) -> None:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        turn = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(turn, fcntl.LOCK_EX)  # nobody takes a folder that has no lock yet for a dead one
            _sweep(parent)
            self.path = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
            self._lock = (self.path / _LOCK).open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        finally:
            os.close(turn)

    def remove(self) -> None:
        """Remove it. May be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _sweep(parent: Path) -> None:
    for folder in parent.glob("run-*"):
        with contextlib.suppress(OSError), (folder / _LOCK).open("w") as lock:  # its maker may not have got that far
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
