"""What is known of one task while it is tuned: its records, its rounds, what was tried, and what to learn next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from edgetune.tuning.records import Record
from edgetune.tuning.records.ranking import ranked
from edgetune.tuning.scheduler import Round
from edgetune.tuning.task import TuneTask

FIXED_ROUND = 0
"""The round of the fixed schedule; the search counts from 1."""


LEARNED_RECORDS = 96
"""How many records of earlier runs a task teaches the cost model at most: half the fastest, half the newest."""


class TaskProgress:
    """Starts from the records of earlier runs, some of which are to be measured `again`, and grows by each result."""

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
        self.fixed_candidate: str | None = None
        self.unlearned: list[Record] = []
        self._ordered: list[Record] | None = None
        self._valid: dict[str, Record] = {}
        self._noisy: dict[str, Record] = {}
        self.again = list(again)
        """Records to measure again: known to have been tried, but nothing is learned from them as they are."""
        owed = {record.id for record in again}
        for record in records:
            self._meet(record)
            self.records += 1
            if record.id not in owed:
                self._take(record)

    def add(self, record: Record, *, more: bool = True) -> None:
        """Takes in a record just made, one `more` or one in the place of another."""
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
        """Takes in that a trace leads to a program that was measured already."""
        self.tried.add(trace)
        if trace == self.fixed_trace:
            self.fixed_candidate = candidate

    def replace(self, record: Record) -> None:
        """Puts better samples in the place of those of the same candidate, or takes it out because it failed."""
        self._ordered = None
        if record.status == "ok":
            self._valid[record.candidate] = record
        else:
            self._valid.pop(record.candidate, None)

    def fastest(self, limit: int | None = None) -> list[Record]:
        """Valid records of allowed forms that fit the task's scratch limit, fastest first; the store's order."""
        if self._ordered is None:
            self._ordered = ranked(record for record in self._valid.values() if self.task.allows(record))
        return self._ordered[:limit]

    @property
    def best_ns(self) -> float | None:
        """The best time, None while nothing is valid."""
        fastest = self.fastest(1)
        return fastest[0].median_ns if fastest else None

    @property
    def fixed_ns(self) -> float | None:
        """The time of the fixed schedule, be it noisy; None when it failed or was not measured."""
        candidate = self.fixed_candidate or ""
        record = self._valid.get(candidate) or self._noisy.get(candidate)
        return record.median_ns if record else None

    @property
    def needs_fixed(self) -> bool:
        """Whether the fixed schedule is still to be measured."""
        return self.fixed_trace not in self.tried


def rounds_of(index: int, records: Iterable[Record]) -> list[tuple[int, Round]]:
    """The finished rounds that records of task number `index` tell of, each with the id of its last record."""
    searched = sorted((record for record in records if record.round > FIXED_ROUND), key=lambda record: record.round)
    result = []
    for _, members in groupby(searched, key=lambda record: record.round):
        group = list(members)
        times = [record.median_ns for record in group if record.status == "ok" and record.median_ns is not None]
        result.append((max(record.id for record in group), Round(index, min(times, default=None))))
    return result


def worth_learning(records: list[Record]) -> list[Record]:
    """Those of a task's records that teach the cost model most, `LEARNED_RECORDS` at most."""
    if len(records) <= LEARNED_RECORDS:
        return records
    newest = records[-LEARNED_RECORDS // 2 :]
    valid = [record for record in records[: -LEARNED_RECORDS // 2] if record.status == "ok"]
    valid.sort(key=lambda record: record.median_ns or 0.0)
    return valid[: LEARNED_RECORDS // 2] + newest
