"""This machine as a board: candidates run in the runner process, on the measuring core."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from pathlib import Path

from edgetune.boards.cores import CoreSplit
from edgetune.boards.environment import Reading, read_environment
from edgetune.boards.local.runner import RunnerProcess
from edgetune.boards.lock import LOCK_TIMEOUT_S, TimingLock
from edgetune.boards.protocol import RunRequest, RunResult
from edgetune.events import Event
from edgetune.target.target import Target


class LocalBoard:
    """The host, as its target describes it."""

    def __init__(
        self,
        target: Target,
        folder: Path,
        split: CoreSplit,
        *,
        lock_file: Path | None = None,
        lock_timeout_s: float = LOCK_TIMEOUT_S,
        on_event: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self.name = target.name
        self.facts: Mapping[str, Reading] = {
            "emulated": 0,
            "clock": "time",
            "machine": platform.machine(),
            "kernel": platform.release(),
            "libc": " ".join(platform.libc_ver()).strip(),
        }
        self._core = max(split.measuring)
        self._lock = TimingLock(lock_file, lock_timeout_s, on_event)
        cores = None if split.shared else split.measuring
        self._runner = RunnerProcess(folder, target.compiler.cc, cores, on_event)

    @property
    def round_trip_s(self) -> float:
        """Always 0: it is this machine."""
        return 0.0

    def reserve(self) -> None:
        """Take the timing lock of this machine."""
        self._lock.acquire()

    def put(self, path: Path) -> str:
        """Return the path itself: files are already on this machine."""
        return str(path)

    def begin(self, request: RunRequest) -> None:
        """Hand the candidate to the runner."""
        self._runner.begin(request)

    def fileno(self) -> int:
        """Descriptor of the runner's answers."""
        return self._runner.fileno()

    def collect(self, timeout_s: float = 0.0) -> RunResult | None:
        """Return the runner's result if it is there within `timeout_s`."""
        return self._runner.collect(timeout_s)

    def health(self) -> dict[str, Reading]:
        """Read the measuring core's state from /proc and /sys."""
        return read_environment(self._core)

    def recover(self) -> None:
        """Start the runner again."""
        self._runner.recover()

    def release(self) -> None:
        """Release the timing lock."""
        self._lock.release()

    def close(self) -> None:
        """End the runner, release the lock."""
        self._runner.close()
        self._lock.close()
