"""Record ranking: orders a kernel's correct records by speed, although some were timed better than others.

A comparison of finalists times a few records again, side by side. Their new medians decide among them, and are no
longer biased as the luckiest of many. A candidate outside the comparison wins only if it was also faster than its
winner in the search, where all were timed alike. Among records that tie within their noise, the time of the better
grade wins.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from edgetune.records.record import Fact

MARK = "playoff"
"""Key in a record's environment: how often its candidate was timed in a comparison of finalists."""

SEARCHED = "searched_ns"
"""Key in the environment of a compared finalist: its median (nanoseconds) before the comparison."""

GRADES = ("A", "B", "C", "D")
"""How far a time can be trusted, the best first; a record without a grade counts as the last."""

_AS_WELL = 1.02  # shares that differ by a smaller factor count as equal


class Timed(Protocol):
    """The fields of a correct record that ranking reads."""

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


class Standing(NamedTuple):
    """The columns of a database row that ranking reads; of the environment at least what ranking reads of it."""

    id: int
    candidate: str
    board: str
    median_ns: float | None
    ci_low_ns: float | None
    ci_high_ns: float | None
    environment: Mapping[str, Fact]


T = TypeVar("T", bound=Timed)

_COMPARED = re.compile(rf'"(?:{MARK}|{SEARCHED})": ')
_TRUST = re.compile(r'"trust": "([A-D])"')


def read_environment(text: str) -> Mapping[str, Fact]:
    """What ranking reads of a record's environment, from its JSON text as rows have it (`schema.to_row`).

    Most records were never compared, and reading all of their text takes most of the time of a ranking. Quotation marks
    inside of a value are escaped, so what is found is a key.
    """
    if _COMPARED.search(text):
        facts: dict[str, Fact] = json.loads(text)
        return facts
    found = _TRUST.search(text)
    return {"trust": found[1]} if found else {}


def ranked(records: Iterable[T]) -> list[T]:
    """Correct records of one kernel, the fastest first; equal ones by candidate and board.

    First those that beat the comparison of finalists, then those that took part in it, then the others.
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


def for_package(
    records: Sequence[T], threads: int, share: Callable[[T], float], waited_ns: Callable[[T], float]
) -> list[T]:
    """`records`, ranked by their own times, reordered so that the expected fastest in a package comes first.

    `share` returns the part of its one-thread time that a record takes on `threads`, 1 / threads or more; it is called
    as rarely as possible. `waited_ns` returns how many nanoseconds the record waits for weights from memory. Records
    that are no worse in either value than the expected fastest keep their order: a side-by-side comparison is better
    evidence.
    """
    found: dict[str, tuple[float, float]] = {}
    fastest, best = float("inf"), (1.0, 0.0)
    for record in records:
        waited = waited_ns(record)
        if searched_ns(record) / threads + waited >= fastest:
            continue
        found[record.candidate] = share(record), waited
        expected = searched_ns(record) * found[record.candidate][0] + waited
        if expected < fastest:
            fastest, best = expected, found[record.candidate]

    def is_worse(record: T) -> bool:
        shared, waited = found.get(record.candidate, (float("inf"), float("inf")))
        return shared > best[0] * _AS_WELL or waited > best[1]

    return sorted(records, key=is_worse)


def sweeps(record: Timed) -> int:
    """How often a candidate was timed in a comparison of finalists; 0 where an imported record holds another value."""
    told = record.environment.get(MARK)
    return told if isinstance(told, int) and not isinstance(told, bool) and told > 0 else 0


def searched_ns(record: Timed) -> float:
    """The median of the search, in nanoseconds, whatever a later comparison of finalists measured."""
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
    """The records whose confidence interval reaches that of the first, and that were timed the same way."""
    first = ordered[0]
    high = first.ci_high_ns if first.ci_high_ns is not None else first.median_ns or 0.0
    return [
        record
        for record in ordered
        if record is first
        or (bool(sweeps(record)) == bool(sweeps(first)) and record.ci_low_ns is not None and record.ci_low_ns <= high)
    ]
