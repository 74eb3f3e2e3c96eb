"""Time accounting of a measuring session: seconds per phase, candidates per status, and the account of each board."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

PHASES = ("lower", "emit", "pack", "compile", "queue", "lock", "process", "load", "check", "time")


@dataclass
class BoardAccount:
    """Numbers of one board: seconds measuring, waiting for builders or for the search, and counts of its events.

    `free_since` is a time of `time.monotonic`, None while the board is not free. `quarantined` is the reason, empty
    while the board is used. `refused` counts refused sets of samples by reason, `trust` counts the graded ones by
    grade.
    """

    candidates: int = 0
    busy_s: float = 0.0
    builders_s: float = 0.0
    search_s: float = 0.0
    recovering_s: float = 0.0
    lost: int = 0
    recovered: int = 0
    quarantined: str = ""
    refused: Counter[str] = field(default_factory=Counter)
    trust: Counter[str] = field(default_factory=Counter)
    free_since: float | None = None

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values, seconds rounded to milliseconds."""
        return {
            "candidates": self.candidates,
            "busy_s": round(self.busy_s, 3),
            "waiting_s": round(self.builders_s + self.search_s, 3),
            "recovering_s": round(self.recovering_s, 3),
            "lost": self.lost,
            "recovered": self.recovered,
            "quarantined": self.quarantined,
            "refused": dict(sorted(self.refused.items())),
            "trust": dict(sorted(self.trust.items())),
        }


class Accounting:
    """Sums seconds per phase and counts candidates per status; `wall` counts from the first candidate submitted."""

    def __init__(self) -> None:
        self.boards: defaultdict[str, BoardAccount] = defaultdict(BoardAccount)
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._statuses: Counter[str] = Counter()
        self._reference_s = 0.0
        self._since: float | None = None
        self._active_s = 0.0
        self._building = False

    def start(self) -> None:
        """Start the clock: candidates are in progress."""
        if self._since is None:
            self._since = time.monotonic()
            if self._active_s == 0.0:  # before the first candidate, no board waited for one
                for account in self.boards.values():
                    if account.free_since is not None:
                        account.free_since = self._since

    def mark(self, *, building: bool) -> None:
        """Note whether candidates are being built from now on: free boards wait for the build, else for the search."""
        now = time.monotonic()
        for account in self.boards.values():
            if account.free_since is not None:
                waited = max(0.0, now - account.free_since)
                account.free_since = max(now, account.free_since)
                if self._building:
                    account.builders_s += waited
                else:
                    account.search_s += waited
        self._building = building

    def stop(self) -> None:
        """Stop the clock until `start`: no candidate is in progress."""
        if self._since is not None:
            self._active_s += time.monotonic() - self._since
            self._since = None

    def add(self, status: str, seconds: dict[str, float]) -> None:
        """Count one finished candidate."""
        self._statuses[status] += 1
        for phase, value in seconds.items():
            self._seconds[phase] += value

    def add_reference(self, seconds: float) -> None:
        """Count the seconds to make one kernel's test vectors."""
        self._reference_s += seconds

    def summary(self, workers: int) -> dict[str, object]:
        """Return JSON values: candidates by status, seconds by phase, rate per minute, load of builders and boards.

        `builders_busy` and `runner_busy` are fractions of the wall time; the one near 1 limits the rate, and
        `bottleneck` says so in a phrase. `boards` has `BoardAccount.to_json` by name.
        """
        wall = self._active_s + (time.monotonic() - self._since if self._since is not None else 0.0)
        building = sum(self._seconds[phase] for phase in ("lower", "emit", "pack", "compile"))
        running = sum(self._seconds[phase] for phase in ("process", "load", "check", "time"))
        verified = self._statuses["ok"] + self._statuses["refused_noisy"]
        return {
            "candidates": dict(sorted(self._statuses.items())),
            "seconds": {phase: round(self._seconds[phase], 3) for phase in PHASES},
            "reference_s": round(self._reference_s, 3),
            "wall_s": round(wall, 3),
            "verified_per_minute": round(verified * 60 / wall, 1) if wall > 0 else 0.0,
            "builders_busy": round(building / (wall * workers), 3) if wall > 0 else 0.0,
            "runner_busy": round(running / wall / max(1, len(self.boards)), 3) if wall > 0 else 0.0,
            "boards": {name: account.to_json() for name, account in sorted(self.boards.items())},
            "bottleneck": bottleneck(list(self.boards.values())),
        }


def bottleneck(accounts: Sequence[BoardAccount]) -> str:
    """Name what takes most of the boards' time: the boards, waiting for builders or for the search; "" for no time."""
    totals: Mapping[str, float] = {
        "boards": sum(account.busy_s + account.recovering_s for account in accounts),
        "builders": sum(account.builders_s for account in accounts),
        "search": sum(account.search_s for account in accounts),
    }
    whole = sum(totals.values())
    if whole <= 0:
        return ""
    name = max(totals, key=lambda key: totals[key])
    share = f"{100 * totals[name] / whole:.0f} %"
    if name == "boards":
        return f"boards: they were busy for {share} of their time"
    return f"{name}: boards waited for {'it' if name == 'search' else 'them'} {share} of their time"
