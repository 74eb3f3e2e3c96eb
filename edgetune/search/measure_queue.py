"""Measurement queue: one thread measures batches of requests in their order and stores each result at once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from edgetune.interrupts import held
from edgetune.records import Record, RecordStore
from edgetune.records.ranking import SEARCHED, searched_ns
from edgetune.search.measuring import Measurer, MeasureRequest, RequestResult

Result = TypeVar("Result")
_TICK_S = 0.25


@dataclass(frozen=True)
class Batch:
    """Measure requests of one round of one task (of many tasks in round 0); `seed` goes into the records."""

    task: int | None
    round: int
    orders: tuple[MeasureRequest, ...]
    seed: int
    best_ns: Mapping[str, float]


class MeasureQueue:
    """Measures batches in the order of submission, in a thread of its own.

    A record is durable before the next candidate's result is accepted, and the start of each timing is logged before
    it.
    """

    def __init__(self, measurer: Measurer, store: RecordStore) -> None:
        self._measurer = measurer
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="edgetune-measure")
        self._news: queue.SimpleQueue[RequestResult] = queue.SimpleQueue()
        self._came = threading.Event()
        self._stopped = self._cancelled = False

    def submit(self, batch: Batch) -> Future[list[RequestResult]]:
        """Queue a batch; the future returns its results in the order of the requests, records with their ids."""
        return self._thread.submit(self._measure, batch)

    def compare(self, groups: Sequence[Sequence[Record]], sweeps: int) -> Future[list[Record]]:
        """Time groups of records again, one after the other, and store the better samples; the future returns them."""
        return self._thread.submit(self._compare, groups, sweeps)

    def wait(
        self, future: Future[Result], on_news: Callable[[RequestResult], None], on_tick: Callable[[], None]
    ) -> Result:
        """The result of a future of any thread; until then call `on_news` per measurement and `on_tick` often."""
        future.add_done_callback(lambda _: self._came.set())
        while not future.done():
            self._came.wait(_TICK_S)
            self.tell_rest(on_news)
            on_tick()
        self.tell_rest(on_news)
        return future.result()

    def tell_rest(self, on_news: Callable[[RequestResult], None]) -> None:
        """Call `on_news` for measurements not reported yet; Ctrl-C takes effect between two calls, never within one."""
        self._came.clear()
        while not self._news.empty():
            with held():
                on_news(self._news.get())

    def stop(self) -> None:
        """End the current measurement and drop the waiting ones; no measurement can be submitted after it."""
        self._stopped = True
        self._measurer.cancel()

    def cancel(self) -> None:
        """End the current measurement; a comparison starts no further group."""
        self._cancelled = True
        self._measurer.cancel()

    def close(self) -> None:
        """Close the measurer and end its thread, after its current work."""
        closing = self._thread.submit(self._measurer.close)
        self._thread.shutdown(wait=True)
        closing.result()

    def _measure(self, batch: Batch) -> list[RequestResult]:
        place = {order: index for index, order in enumerate(batch.orders)}
        results: list[RequestResult] = []
        if self._stopped:
            return results
        for measurement in self._measurer.measure(batch.orders, batch.best_ns, self._store.log_start):
            stored = measurement
            if measurement.record is None and measurement.candidate is not None:
                key, as_own = self._measurer.key(measurement.order.workload), partial(_as_own, batch, measurement.order)
                stored = replace(measurement, record=self._store.take_over(key, measurement.candidate, as_own))
            elif measurement.record is not None:
                record = replace(measurement.record, round=batch.round, seed=batch.seed)
                if measurement.order.again:
                    record, more = self._store.add_again(record)
                else:
                    number, more = self._store.add_new(record)
                    record = replace(record, id=number)
                stored = replace(measurement, record=record, more=more)
            results.append(stored)
            self._news.put(stored)
            self._came.set()
        results.sort(key=lambda measurement: place[measurement.order])
        return self._firsts(results)

    def _firsts(self, results: list[RequestResult]) -> list[RequestResult]:
        """Where several requests give one program, give the record to the first of them, whichever was built first."""
        first: dict[tuple[str, str], int] = {}
        for index, result in enumerate(results):
            if result.candidate is None:
                continue
            before = first.setdefault((result.order.workload, result.candidate), index)
            record = result.record
            if before == index or record is None or record.status == "lower_failed":
                continue
            if results[before].record is None:
                renamed = self._store.refine(record, partial(_renamed, trace=results[before].order.trace))
                results[before] = replace(results[before], record=renamed, more=result.more)
                results[index] = replace(result, record=None)
        return results

    def _compare(self, groups: Sequence[Sequence[Record]], sweeps: int) -> list[Record]:
        results: list[Record] = []
        self._cancelled = False
        for group in groups:
            if self._stopped or self._cancelled:
                return results
            before = {record.candidate: record for record in group}
            for record in self._measurer.time_again(group, sweeps):
                if self._stopped:
                    return results
                results.append(self._refine(before[record.candidate], record))
        return results

    def _refine(self, before: Record, record: Record) -> Record:
        """Store a record with better samples, or the late failure of its candidate."""
        if record.status != "ok":
            return self._store.add_again(record)[0]
        return self._store.refine(record, partial(_retimed, before=before, again=record))


def _as_own(batch: Batch, order: MeasureRequest, record: Record) -> Record:
    """A record that another search made, as this one would have made it."""
    return replace(record, trace=order.trace, round=batch.round, seed=batch.seed)


def _renamed(stored: Record, trace: str) -> Record:
    return replace(stored, trace=trace)


def _retimed(stored: Record, before: Record, again: Record) -> Record:
    """`stored` with the samples of `again`, which was `before` when its timing began, and what that timing told.

    Another process may have stored something since then: its history and notes stay, and so does a failure.
    """
    if stored.status != "ok":
        return stored
    told = {name: value for name, value in again.environment.items() if before.environment.get(name) != value}
    return replace(
        stored,
        samples_ns=again.samples_ns,
        median_ns=again.median_ns,
        ci_low_ns=again.ci_low_ns,
        ci_high_ns=again.ci_high_ns,
        measure_seconds=again.measure_seconds,
        environment={**stored.environment, **told, SEARCHED: searched_ns(stored)},
    )
