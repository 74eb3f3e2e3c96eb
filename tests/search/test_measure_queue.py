"""The measuring line on its own: what it stores, and what it no longer begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgetune.config.database_location import Branch
from edgetune.records import Record, RecordStore
from edgetune.records.branches import take_snapshot
from edgetune.records.history import earlier_of
from edgetune.records.ranking import MARK, SEARCHED
from edgetune.search.measure_queue import Batch, MeasureQueue
from edgetune.search.measuring import MeasureRequest, RequestResult, Starting
from tests.postgresql_server import Place
from tests.search.test_loop import FakeMeasurer, timed
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


class Meanwhile(FakeMeasurer):
    """Measures `results`; another process stores something before this one has stored the last of them."""

    def __init__(self, other: Callable[[], object], results: Sequence[RequestResult] = ()) -> None:
        super().__init__()
        self.other = other
        self.results = results

    def measure(
        self, orders: Sequence[MeasureRequest], best_ns: Mapping[str, float], starting: Starting
    ) -> Iterator[RequestResult]:
        del orders, best_ns, starting
        yield from self.results
        self.other()

    def time_again(self, records: Sequence[Record], sweeps: int) -> Iterator[Record]:
        self.other()
        for one in records:
            changes: dict[str, Any] = timed((900.0,) * sweeps)
            yield replace(one, environment={**one.environment, MARK: sweeps}, **changes)


def note(stored: Record) -> Record:
    return replace(stored, environment={**stored.environment, "noted": 1})


def test_what_another_process_stores_during_a_comparison_is_not_lost(place: Place) -> None:
    with RecordStore.open(place("db")) as store, RecordStore.open(place("db")) as other:
        for number in range(3):
            store.add(record(number))
        read = store.all(record(0).key)

        def meanwhile() -> None:
            other.refine(read[0], note)
            other.add_again(record(1, median=1500.0))
            other.add_again(record(2, status="crashed", reason="signal 11"))

        with closing(MeasureQueue(Meanwhile(meanwhile), store)) as line:
            found = line.compare([read], 3).result()
        assert store.all(read[0].key) == found
    assert [one.environment.get(MARK) for one in found] == [3, 3, None]
    assert [one.median_ns for one in found] == [900.0, 900.0, None]
    assert [one.environment.get(SEARCHED) for one in found] == [1000.0, 1500.0, None]
    assert found[0].environment["noted"] == 1
    assert [item["median_ns"] for item in earlier_of(found[1])] == [1000.0]
    assert found[2].status == "crashed"


def test_what_another_process_stores_before_a_record_is_renamed_is_not_lost(place: Place) -> None:
    one = record(0)
    with RecordStore.open(place("db")) as store, RecordStore.open(place("db")) as other:
        orders = tuple(MeasureRequest(one.workload, f"[{number}]") for number in range(2))
        results = [
            RequestResult(orders[1], one.candidate, replace(one, trace=orders[1].trace)),
            RequestResult(orders[0], one.candidate, None),
        ]
        with closing(MeasureQueue(Meanwhile(lambda: other.refine(one, note), results), store)) as line:
            line.submit(Batch(0, 1, orders, 0, {})).result()
        (found,) = store.all(one.key)
    assert (found.trace, found.environment.get("noted")) == (orders[0].trace, 1)


def test_a_search_in_a_branch_takes_over_what_another_one_has_measured_since(place: Place) -> None:
    known = record(0, target_fingerprint="fake", toolchain="cc", trace='["theirs"]', round=9)
    order = MeasureRequest(known.workload, '["mine"]')
    with RecordStore.open(place("db")) as store:
        with store.database.writing() as connection:
            take_snapshot(store.database, connection, "night")
        store.add(known)
        own = RecordStore(store.database, Branch("night", "m", (known.board,)))
        measurer = Meanwhile(lambda: None, [RequestResult(order, known.candidate, None)])
        with closing(MeasureQueue(measurer, own)) as line:
            first = line.submit(Batch(0, 1, (order,), 5, {})).result()
            second = line.submit(Batch(0, 2, (order,), 5, {})).result()
        (found,) = own.all(known.key)
    assert first[0].record is not None
    assert (first[0].record, first[0].more) == (found, True)
    assert (found.trace, found.round, found.seed, found.median_ns) == (order.trace, 1, 5, known.median_ns)
    assert second[0].record is None, "then it is a candidate like any other that was measured"
