"""The measuring line on its own: what it stores, and what it no longer begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from edgetune.records import Record, RecordStore
from edgetune.search.measure_queue import Batch, MeasureQueue
from edgetune.search.measuring import MeasureRequest, RequestResult, Starting
from tests.search.test_loop import FakeMeasurer
from tests.search.test_remeasure import record


class Interrupted(FakeMeasurer):
    """Is stopped while it compares the first group, before the first sweep is whole."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: list[list[Record]] = []
        self.press: Callable[[], None] = lambda: None

    def time_again(self, records: Sequence[Record], sweeps: int) -> Iterator[Record]:
        del sweeps
        self.groups.append(list(records))
        self.press()
        yield from ()


@pytest.mark.parametrize("how", ["stop", "cancel"])
def test_an_interrupted_comparison_begins_no_further_group(tmp_path: Path, how: str) -> None:
    measurer = Interrupted()
    with RecordStore.open(tmp_path / "db") as store, closing(MeasureQueue(measurer, store)) as line:
        measurer.press = getattr(line, how)
        groups = [[record(0), record(1)], [record(2), record(3)]]
        assert line.compare(groups, 3).result() == []
        assert measurer.groups == groups[:1]


class Given(FakeMeasurer):
    """Gives the records it was made with, one for each order."""

    def __init__(self, given: Sequence[Record]) -> None:
        super().__init__()
        self.given = given

    def measure(
        self, orders: Sequence[MeasureRequest], best_ns: Mapping[str, float], starting: Starting
    ) -> Iterator[RequestResult]:
        del best_ns, starting
        for order, one in zip(orders, self.given, strict=True):
            yield RequestResult(order, one.candidate, replace(one, trace=order.trace))


def test_a_candidate_that_the_store_has_is_not_one_record_more(tmp_path: Path) -> None:
    """Another process may have measured it meanwhile."""
    known, new = record(0), record(1)
    with RecordStore.open(tmp_path / "db") as store:
        store.add(known)
        with closing(MeasureQueue(Given([known, new]), store)) as line:
            orders = tuple(MeasureRequest(known.workload, f"[{number}]") for number in range(2))
            found = line.submit(Batch(0, 1, orders, 0, {})).result()
        assert [one.more for one in found] == [False, True]
        assert store.count([known.key]) == 2
