"""This machine as a board: candidates run in the runner process, on the measuring core."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path

from edgetune.boards.environment import Reading, read_environment
from edgetune.boards.host_resources import HostResources
from edgetune.boards.local.runner import RunnerProcess
from edgetune.boards.lock import TimingLock
from edgetune.boards.protocol import RunRequest, RunResult
from edgetune.target.target import Target


class LocalBoard:
    """The host, as its target describes it."""

    round_trip_s = 0.0  # it is this machine

    def __init__(self, target: Target, host: HostResources) -> None:
        self.name = target.name
        self.facts: Mapping[str, Reading] = {
            "emulated": 0,
            "clock": "time",
            "machine": platform.machine(),
            "kernel": platform.release(),
            "libc": " ".join(platform.libc_ver()).strip(),
        }
        self._core = max(host.split.measuring)
        self._lock = TimingLock(host.lock_file, host.lock_timeout_s, host.on_event)
        cores = None if host.split.shared else host.split.measuring
        self._runner = RunnerProcess(host.folder, target.compiler.cc, cores, host.on_event)

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
