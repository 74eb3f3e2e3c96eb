"""The measuring line: batches of orders wait in a queue, one thread measures them, each result is stored at once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from edgetune.interrupts import held
from edgetune.tuning.measuring import Measurement, Measurer, Order
from edgetune.tuning.records import Record, RecordKey, RecordStore
from edgetune.tuning.records.ranking import SEARCHED, searched_ns

Result = TypeVar("Result")


@dataclass(frozen=True)
class Batch:
    """Orders of one round of one task (of many tasks in round 0); `seed` goes into the records."""

    task: int | None
    round: int
    orders: tuple[Order, ...]
    seed: int
    best_ns: Mapping[str, float]


class MeasuringLine:
    """Measures batches in the order of submission and keeps the caller's thread free.

    A record is durable before the next candidate's result is taken, and the start of each timing is logged before.
    """

    def __init__(self, measurer: Measurer, store: RecordStore) -> None:
        self._measurer = measurer
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="edgetune-measure")
        self._news: queue.SimpleQueue[Measurement] = queue.SimpleQueue()
        self._came = threading.Event()
        self._stopped = self._cancelled = False

    def submit(self, batch: Batch) -> Future[list[Measurement]]:
        """Queue a batch; the future has its measurements in the order of the orders, records with their ids."""
        return self._thread.submit(self._measure, batch)

    def compare(self, groups: Sequence[Sequence[Record]], sweeps: int) -> Future[list[Record]]:
        """Time groups of records again, group after group, and store the better samples; the future has them."""
        return self._thread.submit(self._compare, groups, sweeps)

    def wait(
        self,
        future: Future[Result],
        on_news: Callable[[Measurement], None],
        on_tick: Callable[[], None],
        tick: float = 0.25,
    ) -> Result:
        """The result of a future of any thread; until then calls `on_news` per measurement, and `on_tick` often."""
        future.add_done_callback(lambda _: self._came.set())
        while not future.done():
            self._came.wait(tick)
            self.tell_rest(on_news)
            on_tick()
        self.tell_rest(on_news)
        return future.result()

    def tell_rest(self, on_news: Callable[[Measurement], None]) -> None:
        """Call `on_news` for measurements that nobody waited for; Ctrl-C comes between two of them, never within."""
        self._came.clear()
        while not self._news.empty():
            with held():
                on_news(self._news.get())

    def stop(self) -> None:
        """End what is being measured and drop what waits; nothing can be submitted for measuring after it."""
        self._stopped = True
        self._measurer.cancel()

    def cancel(self) -> None:
        """End what is being measured now; a comparison begins no further group."""
        self._cancelled = True
        self._measurer.cancel()

    def close(self) -> None:
        """Close the measurer and end its thread, after what it does now."""
        closing = self._thread.submit(self._measurer.close)
        self._thread.shutdown(wait=True)
        closing.result()

    def _measure(self, batch: Batch) -> list[Measurement]:
        place = {order: index for index, order in enumerate(batch.orders)}
        results: list[Measurement] = []
        if self._stopped:
            return results
        for measurement in self._measurer.measure(batch.orders, batch.best_ns, self._log_start):
            stored = measurement
            if measurement.record is not None:
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

    def _firsts(self, results: list[Measurement]) -> list[Measurement]:
        """Give the record of orders that are one program to the first of them, whichever was built first."""
        first: dict[tuple[str, str], int] = {}
        for index, result in enumerate(results):
            if result.candidate is None:
                continue
            before = first.setdefault((result.order.workload, result.candidate), index)
            record = result.record
            if before == index or record is None or record.status == "lower_failed":
                continue
            if results[before].record is None:
                renamed = replace(record, trace=results[before].order.trace)
                self._store.refine(renamed)
                results[before] = replace(results[before], record=renamed, more=result.more)
                results[index] = replace(result, record=None)
        return results

    def _log_start(self, key: RecordKey, candidate: str) -> None:
        self._store.log_start(key, candidate)

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
        """Store a record with better samples, or that its candidate failed after all."""
        if record.status != "ok":
            return self._store.add_again(record)[0]
        searched = {SEARCHED: searched_ns(before)}
        refined = replace(record, environment={**record.environment, **searched})
        self._store.refine(refined)
        return refined
