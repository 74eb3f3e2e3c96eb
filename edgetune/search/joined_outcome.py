"""Joined outcome: what several searches of one run report together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from edgetune.search.counters import EventCounters
from edgetune.search.outcome import TuneOutcome


def joined(outcomes: Sequence[TuneOutcome], counters: EventCounters) -> TuneOutcome:
    """The outcome of one run whose searches ended with `outcomes`, one or more; `counters` took the events of all.

    Tasks, their times, and how the run ended are those of the last search. Counts, times of work and accounts of
    boards are sums. Records are those of all tasks; searches may share a task. `bottleneck` is that of the longest.
    """
    last = outcomes[-1]
    records = {task.workload: task.records for outcome in outcomes for task in outcome.tasks}
    return replace(
        counters.complete(last),
        records=sum(records.values()),
        measured=sum(outcome.measured for outcome in outcomes),
        failed=counters.failed,
        duplicates=sum(outcome.duplicates for outcome in outcomes),
        elapsed=sum(outcome.elapsed for outcome in outcomes),
        seconds=_sum([outcome.seconds for outcome in outcomes]),
        warnings=tuple(dict.fromkeys(warning for outcome in outcomes for warning in outcome.warnings)),
        boards=_sum([outcome.boards for outcome in outcomes]),
        bottleneck=max(outcomes, key=lambda outcome: outcome.elapsed).bottleneck,
        programs=_sum([outcome.programs for outcome in outcomes]),
    )


def _sum(accounts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Accounts of the same form, added: numbers by name, at any depth; of texts, the last that is not empty."""
    names = dict.fromkeys(name for account in accounts for name in account)
    return {name: _added([account[name] for account in accounts if name in account]) for name in names}


def _added(values: Sequence[Any]) -> Any:
    if isinstance(values[0], Mapping):
        return _sum(values)
    if isinstance(values[0], str):
        return next((text for text in reversed(values) if text), "")
    return sum(values)
