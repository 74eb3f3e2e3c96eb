"""Progress of one task during tuning: its records, its rounds, the traces tried, and what to learn next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from edgetune.records import Record
from edgetune.records.ranking import ranked
from edgetune.search.scheduler import Round
from edgetune.search.task import TuneTask

FIXED_ROUND = 0
"""Round number of the default schedule; the search counts from 1."""


LEARNED_RECORDS = 96
"""Records of a task's earlier runs that train the cost model, at most: half the fastest, half the newest."""


class TaskProgress:
    """Starts from the records of earlier runs, some of which are to be measured `again`, and grows with each result."""

    def __init__(
        self, task: TuneTask, fixed_trace: str, records: Iterable[Record], again: Sequence[Record] = ()
    ) -> None:
        self.task = task
        self.fixed_trace = fixed_trace
        self.tried: set[str] = set()
        self.records = 0
        self.rounds = 0
        self.failures = 0
        self.empty = 0
        self.exhausted = False
        self.excluded = False
        self.owed = False
        """Whether it may use trials beyond those of the budget: see `edgetune.search.budget.missing_shares`."""
        self.fixed_candidate: str | None = None
        self.unlearned: list[Record] = []
        self._ordered: list[Record] | None = None
        self._valid: dict[str, Record] = {}
        self._noisy: dict[str, Record] = {}
        self.again = list(again)
        """Records to measure again: their candidates count as tried, but nothing is learned from them as they are."""
        owed = {record.id for record in again}
        for record in records:
            self._meet(record)
            self.records += 1
            if record.id not in owed:
                self._take(record)

    @property
    def is_open(self) -> bool:
        """Whether more may be proposed."""
        return not self.exhausted and not self.excluded

    def add(self, record: Record, *, more: bool = True) -> None:
        """Adds a new record: one `more`, or one that replaces another."""
        self._meet(record)
        self.records += more
        self._take(record)

    def _meet(self, record: Record) -> None:
        self.tried.add(record.trace)
        self.rounds = max(self.rounds, record.round)
        if record.trace == self.fixed_trace:
            self.fixed_candidate = record.candidate

    def _take(self, record: Record) -> None:
        self.unlearned.append(record)
        self._ordered = None
        if record.status == "ok":
            self._valid[record.candidate] = record
        elif record.median_ns is not None:
            self._noisy[record.candidate] = record

    def add_duplicate(self, trace: str, candidate: str | None) -> None:
        """Notes that a trace leads to a program that was measured already."""
        self.tried.add(trace)
        if trace == self.fixed_trace:
            self.fixed_candidate = candidate

    def replace(self, record: Record) -> None:
        """Replaces the record of the same candidate by one with better samples, or removes it because it failed."""
        self._ordered = None
        if record.status == "ok":
            self._valid[record.candidate] = record
        else:
            self._valid.pop(record.candidate, None)

    def fastest(self, limit: int | None = None) -> list[Record]:
        """Valid records of allowed algorithms within the task's scratch limit, fastest first, in the store's order."""
        if self._ordered is None:
            self._ordered = ranked(record for record in self._valid.values() if self.task.allows(record))
        return self._ordered[:limit]

    @property
    def best_ns(self) -> float | None:
        """The best time, None while there is no valid one."""
        fastest = self.fastest(1)
        return fastest[0].median_ns if fastest else None

    @property
    def fixed_ns(self) -> float | None:
        """The time of the default schedule, even if noisy; None when it failed or was not measured."""
        candidate = self.fixed_candidate or ""
        record = self._valid.get(candidate) or self._noisy.get(candidate)
        return record.median_ns if record else None

    @property
    def needs_fixed(self) -> bool:
        """Whether the default schedule is still to be measured."""
        return self.fixed_trace not in self.tried


def rounds_of(index: int, records: Iterable[Record]) -> list[tuple[int, Round]]:
    """The finished rounds of task number `index`, derived from its records, each with the id of its last record."""
    searched = sorted((record for record in records if record.round > FIXED_ROUND), key=lambda record: record.round)
    result = []
    for _, members in groupby(searched, key=lambda record: record.round):
        group = list(members)
        times = [record.median_ns for record in group if record.status == "ok" and record.median_ns is not None]
        result.append((max(record.id for record in group), Round(index, min(times, default=None))))
    return result


def worth_learning(records: list[Record]) -> list[Record]:
    """The records of a task that teach the cost model most, at most `LEARNED_RECORDS`."""
    if len(records) <= LEARNED_RECORDS:
        return records
    newest = records[-LEARNED_RECORDS // 2 :]
    valid = [record for record in records[: -LEARNED_RECORDS // 2] if record.status == "ok"]
    valid.sort(key=lambda record: record.median_ns or 0.0)
    return valid[: LEARNED_RECORDS // 2] + newest
