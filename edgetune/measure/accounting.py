"""Where the time of a measuring session went."""

from __future__ import annotations

import time
from collections import Counter, defaultdict

PHASES = ("lower", "emit", "pack", "compile", "queue", "lock", "load", "check", "time")


class Accounting:
    """Adds up seconds per phase and candidates per status; `wall` counts from the first candidate submitted."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._statuses: Counter[str] = Counter()
        self._reference_s = 0.0
        self._since: float | None = None
        self._active_s = 0.0

    def start(self) -> None:
        """Candidates are under way: the clock runs."""
        if self._since is None:
            self._since = time.monotonic()

    def stop(self) -> None:
        """Nothing is under way: the clock stands still until `start`."""
        if self._since is not None:
            self._active_s += time.monotonic() - self._since
            self._since = None

    def add(self, status: str, seconds: dict[str, float]) -> None:
        """Count one candidate that is done."""
        self._statuses[status] += 1
        for phase, value in seconds.items():
            self._seconds[phase] += value

    def add_reference(self, seconds: float) -> None:
        """Count the making of one kernel's test vectors."""
        self._reference_s += seconds

    def summary(self, workers: int) -> dict[str, object]:
        """Return JSON values: candidates by status, seconds by phase, pace per minute, load of builders and runner.

        `builders_busy` and `runner_busy` are fractions of the wall time; the one near 1 is what to speed up.
        """
        wall = self._active_s + (time.monotonic() - self._since if self._since is not None else 0.0)
        building = sum(self._seconds[phase] for phase in ("lower", "emit", "pack", "compile"))
        running = sum(self._seconds[phase] for phase in ("load", "check", "time"))
        verified = self._statuses["ok"] + self._statuses["refused_noisy"]
        return {
            "candidates": dict(sorted(self._statuses.items())),
            "seconds": {phase: round(self._seconds[phase], 3) for phase in PHASES},
            "reference_s": round(self._reference_s, 3),
            "wall_s": round(wall, 3),
            "verified_per_minute": round(verified * 60 / wall, 1) if wall > 0 else 0.0,
            "builders_busy": round(building / (wall * workers), 3) if wall > 0 else 0.0,
            "runner_busy": round(running / wall, 3) if wall > 0 else 0.0,
        }
