"""With exact times and a budget in trials, nothing depends on how long things take or in which order they end."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from edgetune.records import Record, RecordStore
from edgetune.search.loop import SearchParts, TuningLoop
from edgetune.search.measuring import MeasureRequest, RequestResult, Starting
from edgetune.search.options import TuneOptions
from edgetune.search.outcome import TuneOutcome
from edgetune.search.task import tasks_of
from tests.search.test_loop import SMALL, FakeMeasurer, all_records, fixed_trace, kernels, space_of

TWINS = 40
"""So many programs there are of a kernel: many traces are the same one."""


class Restless(FakeMeasurer):
    """Several builders and boards: results come in any order after any time, and of twins either may be the first."""

    def __init__(self, luck: int, known: set[str]) -> None:
        super().__init__()
        self.luck = random.Random(luck)  # noqa: S311
        self.batches: list[tuple[MeasureRequest, ...]] = []
        self.known = known

    def measure(
        self, orders: Sequence[MeasureRequest], best_ns: Mapping[str, float], starting: Starting
    ) -> Iterator[RequestResult]:
        del best_ns
        self.batches.append(tuple(orders))
        for order in self.luck.sample(orders, len(orders)):
            time.sleep(self.luck.choice([0.0, 0.0, 0.05]))
            program = int(hashlib.sha256(order.trace.encode()).hexdigest(), 16) % TWINS
            candidate = hashlib.sha256(f"{order.workload}{program}".encode()).hexdigest()
            if candidate in self.known:
                yield RequestResult(order, candidate, None)
                continue
            self.known.add(candidate)
            starting(self.key(order.workload), candidate)
            board = f"twin-{self.luck.randrange(3)}"
            yield RequestResult(order, candidate, replace(self.record(order, candidate), board=board))


def run(path: Path, luck: int, trials: Sequence[int]) -> tuple[TuneOutcome, list[tuple[MeasureRequest, ...]]]:
    batches: list[tuple[MeasureRequest, ...]] = []
    known: set[str] = set()
    for budget in trials:
        measurer = Restless(luck, known)
        with RecordStore.open(path) as store:
            options = TuneOptions(trials=budget, seed=5, search=SMALL, smallest_batch=6)
            outcome = TuningLoop(
                tasks_of(kernels(), {}), SearchParts(measurer, space_of, fixed_trace), store, options, lambda _: None
            ).run()
        batches += measurer.batches
    return outcome, batches


def plain(record: Record | None) -> Record | None:
    """Without what says when and where."""
    return None if record is None else replace(record, id=0, created_utc="2026-01-01T00:00:00Z", board="any")


@pytest.mark.long
@pytest.mark.parametrize("trials", [[48], [24, 48]])
def test_two_runs_order_the_same_and_end_the_same(tmp_path: Path, trials: list[int]) -> None:
    runs = [run(tmp_path / str(luck), luck, trials) for luck in (1, 2)]
    assert runs[0][1] == runs[1][1]
    best = [[plain(task.best) for task in outcome.tasks] for outcome, _ in runs]
    assert best[0] == best[1]
    stored = [sorted(map(str, map(plain, all_records(tmp_path / str(luck))))) for luck in (1, 2)]
    assert stored[0] == stored[1]
    assert len(stored[0]) == trials[-1]
    assert runs[0][0].duplicates == runs[1][0].duplicates > 0
    marks = ["playoff" in record.environment for record in all_records(tmp_path / "1")]
    assert any(marks) or len(trials) > 1  # the finalists of a short run are too few to be sure of a comparison
