"""Event counters: count statuses, refusals and board events of all processes of a run, and add them to the outcome."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from edgetune.events import Event
from edgetune.search.outcome import TuneOutcome

REFUSALS = ("refused_noisy", "over_scratch")
"""Statuses of candidates that ran correctly, or would have, but were refused."""

MOST_KINDS = 1000
"""How many kinds of board events an outcome lists; events of further kinds are only counted."""

_COUNTED_ONLY = ("noisy",)


class EventCounters:
    """Receives every event of a run, from all its processes; `again` counts measurements that made no new record."""

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self.again = 0
        self._refused: Counter[str] = Counter()
        self._kinds: dict[tuple[str, str, str], str] = {}
        self._times: Counter[tuple[str, str, str]] = Counter()
        self._counts: Counter[tuple[str, str]] = Counter()

    def take(self, event: Event) -> None:
        """Count one event."""
        data = event.data
        if event.kind == "candidate":
            status = str(data.get("status"))
            self.statuses[status] += 1
            self.again += bool(data.get("again")) and not data.get("more")
            if status in REFUSALS:
                self._refused[without_numbers(str(data.get("reason", ""))) or status] += 1
        elif event.kind == "board":
            board, what = str(data.get("board", "")), str(data.get("what", ""))
            self._counts[board, what] += 1
            detail = str(data.get("detail", ""))
            kind = (board, what, without_numbers(detail))
            if what not in _COUNTED_ONLY and (kind in self._kinds or len(self._kinds) < MOST_KINDS):
                self._kinds[kind] = detail
                self._times[kind] += 1

    @property
    def failed(self) -> dict[str, int]:
        """The number of candidates of each status that is not "ok"."""
        return {status: count for status, count in self.statuses.items() if status != "ok"}

    def complete(self, outcome: TuneOutcome) -> TuneOutcome:
        """The outcome with the counts of refusals by reason, and with the events of the boards."""
        counts: dict[str, dict[str, int]] = {}
        for (board, what), count in sorted(self._counts.items()):
            counts.setdefault(board, {})[what] = count
        return replace(
            outcome,
            refused=dict(sorted(self._refused.items())),
            board_counts=counts,
            board_events=tuple(
                {"board": kind[0], "what": kind[1], "times": self._times[kind], "detail": detail}
                for kind, detail in self._kinds.items()
            ),
        )


def without_numbers(reason: str) -> str:
    """The kind of a reason: numbers become N, so that equal causes count together."""
    return re.sub(r"\d+(?:[.,]\d+)*", "N", reason)
