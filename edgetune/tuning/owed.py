"""Which recorded candidates are measured again: those whose record says little about them under today's conditions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from edgetune.tuning.records import Record
from edgetune.tuning.records.history import statuses
from edgetune.tuning.records.ranking import GRADES, passes

TRIES = 2
"""How often a candidate that crashes or hangs is tried, in as many runs."""

MOST_FAILURES = 4
"""Candidates of a task that are tried again after a crash in one run: a hang costs its whole deadline."""

WORTH = 1.5
"""A noisy candidate that took longer than this times the best is left as it is."""

_FATAL = ("crashed", "timeout")
_SETTLED = ("ok", "wrong_result", "build_failed", "lower_failed")


def owed(records: Sequence[Record], ended: str | None, scratch_limit: int, min_trust: str = GRADES[-1]) -> list[Record]:
    """The records of one task to measure again, the most promising first.

    Over scratch: when `scratch_limit` (bytes) now allows what the candidate needs. Refused as noisy, and crashed or
    hung once: in a later run, that is when a run ended (at `ended`, a time in UTC, None if none did) after the
    record was made; a run that was killed and goes on is no later run. Correct, but graded below `min_trust`: always.
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
    """The correct records that are not trusted enough; they do not count for the budget either."""
    return [record for record in records if record.status == "ok" and not passes(record, min_trust)]


def _one_each(records: Iterable[Record]) -> list[Record]:
    """The newest record of each candidate: several boards may each have one."""
    return list(
        {record.candidate: record for record in sorted(records, key=lambda record: record.created_utc)}.values()
    )


def _is_worth_it(record: Record, best: float | None) -> bool:
    return best is None or record.median_ns is None or record.median_ns <= WORTH * best


def _tries(record: Record, records: Iterable[Record]) -> int:
    same = [other for other in records if other.candidate == record.candidate]
    return sum(status in _FATAL for other in same for status in statuses(other))
