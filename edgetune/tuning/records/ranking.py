"""Which of a kernel's correct records is the fastest, when some were timed better than others.

A play-off times a few contenders again, side by side. Their new medians decide among them, and are no longer the
luckiest of many: a candidate outside the play-off beats them only if it was faster in the search as well, where
all were timed alike. Among those that tie within their noise, the time that can be trusted more wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from edgetune.tuning.records.record import Fact

MARK = "playoff"
"""Key in a record's environment: how often its candidate was timed side by side with its rivals."""

SEARCHED = "searched_ns"
"""Key in the environment of a record that was in a play-off: its median (nanoseconds) before that."""

GRADES = ("A", "B", "C", "D")
"""How far a time can be trusted, the best first; a record without a grade counts as the last."""

_AS_WELL = 1.02  # shares that differ by a smaller factor are as good as each other


class Timed(Protocol):
    """What ranking reads of a correct record."""

    @property
    def candidate(self) -> str: ...  # noqa: D102
    @property
    def board(self) -> str: ...  # noqa: D102
    @property
    def median_ns(self) -> float | None: ...  # noqa: D102
    @property
    def ci_low_ns(self) -> float | None: ...  # noqa: D102
    @property
    def ci_high_ns(self) -> float | None: ...  # noqa: D102
    @property
    def environment(self) -> Mapping[str, Fact]: ...  # noqa: D102


@dataclass(frozen=True)
class Standing:
    """A row of the database, as much of it as ranking reads."""

    id: int
    candidate: str
    board: str
    median_ns: float | None
    ci_low_ns: float | None
    ci_high_ns: float | None
    environment: Mapping[str, Fact]


T = TypeVar("T", bound=Timed)


def ranked(records: Iterable[T]) -> list[T]:
    """Correct records of one kernel, the fastest first; equal ones by candidate and board.

    Those that beat the play-off, then those that were in it, then the others.
    """
    timed = [record for record in records if record.median_ns]
    compared = [record for record in timed if sweeps(record)]
    leader = min(compared, key=lambda record: (record.median_ns or 0.0, record.candidate), default=None)

    def place(record: T) -> tuple[int, float, str, str]:
        median = record.median_ns or 0.0
        beats = leader is not None and median < searched_ns(leader)
        group = 1 if leader is None or sweeps(record) else 0 if beats else 2
        return group, median, record.candidate, record.board

    ordered = sorted(timed, key=place)
    if ordered:
        winner = min(_tied(ordered), key=lambda record: (grade(record), place(record)))
        ordered.remove(winner)
        ordered.insert(0, winner)
    return ordered


def for_threads(records: Sequence[T], threads: int, share: Callable[[T], float]) -> list[T]:
    """`records`, ranked by times on one thread, so that what several `threads` are expected to run fastest comes first.

    `share` tells which part of its time on one thread a record takes on all, 1 / threads or more; it is asked as seldom
    as possible. Records that can be shared as well as the first keep their order: what was compared side by side says
    more of these.
    """
    if threads == 1:
        return list(records)
    shares: dict[str, float] = {}
    fastest, best = float("inf"), 1.0
    for record in records:
        if searched_ns(record) / threads >= fastest:
            continue
        found = shares[record.candidate] = share(record)
        if searched_ns(record) * found < fastest:
            fastest, best = searched_ns(record) * found, found
    return sorted(records, key=lambda record: shares.get(record.candidate, float("inf")) > best * _AS_WELL)


def for_streams(records: Sequence[T], waited_ns: Callable[[T], float]) -> list[T]:
    """`records`, ranked by times with weights in a cache, so that what should be the fastest without them comes first.

    `waited_ns` tells for how many nanoseconds a record will wait for its weights. Records that wait as long as the
    first keep their order: what was compared side by side says more of these.
    """
    if not records:
        return []
    waits = {record.candidate: waited_ns(record) for record in records}
    best = min(records, key=lambda record: searched_ns(record) + waits[record.candidate])
    return sorted(records, key=lambda record: waits[record.candidate] != waits[best.candidate])


def sweeps(record: Timed) -> int:
    """How often a candidate was timed in a play-off; 0 for text that an import brought."""
    told = record.environment.get(MARK)
    return told if isinstance(told, int) and not isinstance(told, bool) and told > 0 else 0


def searched_ns(record: Timed) -> float:
    """The median of the search, in nanoseconds, whatever a play-off gave later."""
    told = record.environment.get(SEARCHED)
    known = isinstance(told, int | float) and not isinstance(told, bool) and told > 0
    return float(told) if known and told is not None else record.median_ns or 1.0


def grade(record: Timed) -> str:
    """How far the time can be trusted, A to D."""
    told = record.environment.get("trust")
    return told if isinstance(told, str) and told in GRADES else GRADES[-1]


def passes(record: Timed, min_trust: str) -> bool:
    """Whether the time is graded `min_trust` or better."""
    return grade(record) <= min_trust


def _tied(ordered: list[T]) -> list[T]:
    """Those whose confidence interval reaches the first one's, timed the same way as it was."""
    first = ordered[0]
    high = first.ci_high_ns if first.ci_high_ns is not None else first.median_ns or 0.0
    return [
        record
        for record in ordered
        if record is first
        or (bool(sweeps(record)) == bool(sweeps(first)) and record.ci_low_ns is not None and record.ci_low_ns <= high)
    ]
