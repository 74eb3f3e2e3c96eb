"""Repeated measurement: chooses the records to measure again, and the finalists to compare at the end of a search.

A record is measured again when it says little about its candidate under today's conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from edgetune.records import Record
from edgetune.records.history import statuses
from edgetune.records.ranking import GRADES, passes, sweeps
from edgetune.search.progress import TaskProgress

TRIES = 2
"""How often a candidate that crashes or hangs is tried, each time in another run."""

MOST_FAILURES = 4
"""Crashed candidates of a task that one run tries again, at most: a hang costs its whole deadline."""

WORTH = 1.5
"""A noisy candidate slower than this multiple of the best time is not measured again."""

_FATAL = ("crashed", "timeout")
_SETTLED = ("ok", "wrong_result", "build_failed", "lower_failed")


def to_remeasure(
    records: Sequence[Record], ended: str | None, scratch_limit: int, min_trust: str = GRADES[-1]
) -> list[Record]:
    """The records of one task to measure again, the most promising first.

    Over scratch: when `scratch_limit` (bytes) now allows what the candidate needs. Refused as noisy, or crashed or
    hung once: only in a later run, that is when a run ended (at `ended`, a time in UTC, None if none did) after the
    record was made; resuming a killed run does not count as a later run. Correct, but graded below `min_trust`: always.
    Each is measured once in a run.
    """
    doubted = below(records, min_trust)
    names = {record.candidate for record in doubted}
    settled = {record.candidate for record in records if record.status in _SETTLED and record not in doubted}
    doubted = [record for record in _one_each(doubted) if record.candidate not in settled]
    settled |= names
    trusted = [record for record in records if record.status == "ok" and record.candidate not in names]
    best = min((record.median_ns for record in trusted if record.median_ns), default=None)
    opened = _one_each(record for record in records if record.candidate not in settled)
    before = [record for record in opened if ended is not None and record.created_utc <= ended]
    noisy = [record for record in before if record.status == "refused_noisy" and _is_worth_it(record, best)]
    fitting = [record for record in opened if record.status == "over_scratch" and record.scratch_bytes <= scratch_limit]
    failed = [record for record in before if record.status in _FATAL and _tries(record, records) < TRIES]
    for timed in (doubted, noisy):
        timed.sort(key=lambda record: (record.median_ns or 0.0, record.candidate))
    return doubted + noisy + fitting + failed[:MOST_FAILURES]


def below(records: Iterable[Record], min_trust: str) -> list[Record]:
    """The correct records graded below `min_trust`; they do not count for the budget either."""
    return [record for record in records if record.status == "ok" and not passes(record, min_trust)]


def _one_each(records: Iterable[Record]) -> list[Record]:
    """The newest record of each candidate, which may have one per board."""
    return list(
        {record.candidate: record for record in sorted(records, key=lambda record: record.created_utc)}.values()
    )


def _is_worth_it(record: Record, best: float | None) -> bool:
    return best is None or record.median_ns is None or record.median_ns <= WORTH * best


def _tries(record: Record, records: Iterable[Record]) -> int:
    same = [other for other in records if other.candidate == record.candidate]
    return sum(status in _FATAL for other in same for status in statuses(other))


def contenders(tasks: Sequence[TaskProgress], each: int, total: int) -> list[list[Record]]:
    """Groups of finalists to compare, one group per task, tasks with the largest weighted time first.

    A finalist is among the `each` fastest, and its confidence interval reaches below the upper end of the fastest
    one's. A task with one finalist, or whose finalists were all compared before or are exact, needs no comparison. The
    groups hold at most `total` records.
    """
    groups = []
    for progress in tasks:
        fastest = progress.fastest(max(each, 0))
        if not fastest:
            continue
        limit = fastest[0].ci_high_ns or 0.0
        rivals = [record for record in fastest if (record.ci_low_ns or 0.0) <= limit]
        exact = all(record.ci_low_ns == record.ci_high_ns for record in rivals)
        if len(rivals) > 1 and not exact and not all(map(sweeps, rivals)):
            groups.append((-progress.task.kernel.weight * (progress.best_ns or 0.0), rivals))
    chosen, left = [], total
    for _, rivals in sorted(groups, key=lambda group: group[0]):
        if len(rivals) <= left:
            chosen.append(rivals)
            left -= len(rivals)
    return chosen
