"""Tuning loop: chooses a task, proposes programs, has them measured, trains the cost model, until the budget is used.

Two rounds overlap: while one is measured on its core, the next is searched on another core. To keep a search
repeatable, results affect decisions in the order of the rounds, not in the order of their arrival.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TypeVar

from edgetune.errors import BoardLost, BoardUnavailable, KernelFailed
from edgetune.events import Event
from edgetune.records import Record, RecordStore
from edgetune.search.budget import TrialBudget, missing_shares
from edgetune.search.cost_model import CostModel
from edgetune.search.measure_queue import Batch, MeasureQueue
from edgetune.search.measuring import Measurer, MeasureRequest, RequestResult
from edgetune.search.options import TuneOptions
from edgetune.search.outcome import TaskOutcome, TuneOutcome
from edgetune.search.progress import FIXED_ROUND, TaskProgress, rounds_of, worth_learning
from edgetune.search.remeasure import below, contenders, to_remeasure
from edgetune.search.reporting import Reporter
from edgetune.search.scheduler import Round, curves, next_task, stalled
from edgetune.search.search import AlgorithmsSearch, SearchSpace, told_as_failure
from edgetune.search.seeds import derive_seed
from edgetune.search.task import TuneTask

DEPTH = 2
"""Rounds in progress at the same time."""

PLAYOFF_SWEEPS = 3
PLAYOFF_SECONDS = 1.0
"""Expected cost of one finalist in the comparison, building included."""

MOST_FAILURES = 3

TIMED = ("ok", "refused_noisy")
"""Statuses of candidates whose time the cost model learns from."""

Result = TypeVar("Result")
Events = Callable[[Event], None]


@dataclass
class SearchParts:
    """What the loop takes from other packages: the space and the default schedule of a task, and the measurer.

    `other_forms` are the spaces of the other algorithms of a task's kernel, which get a part of the trials.
    `entering` is called with the workload and the round before TVM searches, and with None after. From it the
    supervisor learns which task crashed the process.
    """

    measurer: Measurer
    space: Callable[[TuneTask], SearchSpace]
    fixed_trace: Callable[[TuneTask], str]
    other_forms: Callable[[TuneTask], Sequence[SearchSpace]] = field(default=lambda _task: ())
    entering: Callable[[str | None, int], None] = field(default=lambda _workload, _round: None)


class TuningLoop:
    """One run of the search over some tasks; call `run` once."""

    def __init__(
        self, tasks: Sequence[TuneTask], rooms: SearchParts, store: RecordStore, options: TuneOptions, events: Events
    ) -> None:
        self._rooms = rooms
        self._store = store
        self._options = options
        self._model = CostModel(options.seed)
        self._searches: dict[int, AlgorithmsSearch] = {}
        self._keys = [rooms.measurer.key(task.workload) for task in tasks]
        # The order must not depend on which of a round's candidates was measured first.
        stored = [sorted(store.all(key), key=lambda record: (record.round, record.candidate)) for key in self._keys]
        self._tasks = [
            TaskProgress(
                task,
                self._fixed_trace(task, records),
                records,
                to_remeasure(
                    [record for record in records if record.form in options.forms],
                    store.last_end(key),
                    task.scratch_limit,
                    options.min_trust,
                ),
            )
            for task, key, records in zip(tasks, self._keys, stored, strict=True)
        ]
        for progress in self._tasks:
            progress.excluded = progress.task.workload in options.excluded
        finished = sorted((item for index, part in enumerate(stored) for item in rounds_of(index, part)), key=_place)
        self._history: list[Round] = [item for _, item in finished]
        doubted = [record for part in stored for record in below(part, options.min_trust)]
        self._doubted = {(record.workload, record.trace) for record in doubted}
        used = sum(map(len, stored)) - len(doubted)
        ended = [
            progress.excluded or store.last_end(key) is not None
            for progress, key in zip(self._tasks, self._keys, strict=True)
        ]
        lacking = missing_shares(options.trials, [len(part) for part in stored], ended)
        for index in lacking:
            self._tasks[index].owed = True
        extra = max(used + sum(lacking.values()) - (options.trials or 0), 0) if lacking else 0
        self._budget = TrialBudget(options.trials, options.seconds, used=used, extra=extra)
        self._line = MeasureQueue(rooms.measurer, store)
        self._searcher = ThreadPoolExecutor(1, thread_name_prefix="edgetune-search")
        self._report = Reporter(self._tasks, self._budget, events)
        self._batch = self._batch_size()

    def run(self) -> TuneOutcome:
        """Search until the budget is used, every task is exhausted, or the user interrupts."""
        interrupted, ended = False, ""
        try:
            self._report.round(None)
            self._report.shares()
            self._fixed_schedules()
            self._again()
            self._rounds()
            self._compare_finalists()
            self._store.log_ends(self._keys)
            if self._tasks and all(task.exhausted for task in self._tasks) and self._budget.room(0) != 0:
                self._report.warn("the search ended before its budget: no candidate is left to measure")
        except KeyboardInterrupt:
            interrupted = True
            self._report.warn("interrupted: ending what is being measured")
        except BoardUnavailable as error:
            self._line.tell_rest(self._report.measurement)
            if not self._may_end_with(error):
                raise
            ended = error.message
            self._report.warn(ended)
        finally:
            self._line.stop()
            self._searcher.shutdown(wait=True, cancel_futures=True)
            self._line.close()
            self._line.tell_rest(self._report.measurement)
        outcome = replace(self._outcome(), interrupted=interrupted, ended=ended)
        self._report.send("summary", **outcome.to_json())
        return outcome

    # --- rounds -------------------------------------------------------------------------------------------------

    def _fixed_schedules(self) -> None:
        """Round 0: measures the default schedule of every task, so that tuning never makes anything slower."""
        missing = [progress for progress in self._tasks if progress.fixed_trace and progress.needs_fixed]
        missing.sort(key=lambda progress: (not progress.owed, -progress.task.facts.weight * progress.task.facts.flops))
        orders: list[MeasureRequest] = []
        for progress in missing:
            if self._budget.room(len(orders), owed=progress.owed) != 0:
                orders.append(MeasureRequest(progress.task.workload, progress.fixed_trace))
        if orders:
            with self._report.phase("default schedules"):
                batch = Batch(None, FIXED_ROUND, tuple(orders), self._options.seed, self._best_ns())
                self._absorb(batch, self._line.submit(batch))

    def _again(self) -> None:
        """Measures again what earlier records leave open. This uses budget only where the earlier record used none."""
        orders = tuple(
            MeasureRequest(record.workload, record.trace, again=True)
            for progress in self._tasks
            for record in progress.again
            if not progress.excluded
        )
        orders = orders[: self._budget.room(0)]
        if orders:
            with self._report.phase("measured again"):
                batch = Batch(None, FIXED_ROUND, orders, self._options.seed, self._best_ns())
                self._absorb(batch, self._line.submit(batch))

    def _rounds(self) -> None:
        under_way: deque[tuple[Batch, Future[list[RequestResult]]]] = deque()
        with self._report.phase("search"):
            while True:
                batch = self._next_batch([batch for batch, _ in under_way])
                if batch is not None:
                    under_way.append((batch, self._line.submit(batch)))
                if not under_way:
                    return
                if batch is None or len(under_way) >= DEPTH:
                    self._absorb(*under_way.popleft())

    def _next_batch(self, under_way: Sequence[Batch]) -> Batch | None:
        """The next round's measure requests; None without budget, or when a running round must end first."""
        busy = {batch.task for batch in under_way}
        while True:
            in_flight = sum(len(batch.orders) for batch in under_way)
            rooms = [self._budget.room(in_flight, owed=task.owed) for task in self._tasks]
            if self._all_stalled():
                return None
            opened = [index for index, task in enumerate(self._tasks) if task.is_open and rooms[index] != 0]
            free = [index for index in opened if index not in busy] or opened
            index = next_task(
                [progress.task.facts for progress in self._tasks],
                self._history,
                available=free,
                seed=self._options.seed,
                parameters=self._options.scheduling,
            )
            if index is None:
                return None
            batch = self._propose(index, min(rooms[index] or self._batch, self._batch))
            if batch is not None:
                return batch

    def _propose(self, index: int, count: int) -> Batch | None:
        progress = self._tasks[index]
        workload = progress.task.workload
        number = progress.rounds + 1
        try:
            traces = self._in_search(lambda: self._search(index, count, number))
        except KernelFailed as error:
            progress.failures += 1
            progress.exhausted = progress.failures >= MOST_FAILURES
            self._report.warn(f"a round of {progress.task.name} was lost: {error.message}")
            progress.rounds = number
            return None
        if not traces:
            progress.empty += 1
            progress.exhausted = progress.empty >= self._options.empty_rounds
            progress.rounds = number
            return None
        progress.empty = 0
        progress.rounds = number
        progress.tried.update(traces)
        orders = tuple(MeasureRequest(workload, trace) for trace in traces)
        return Batch(index, number, orders, self._options.seed, self._best_ns())

    def _absorb(self, batch: Batch, future: Future[list[RequestResult]]) -> None:
        """Wait for a batch, and add its results to the history, the budget and the next decisions."""
        started = monotonic()
        results = self._await(future)
        self._report.spent("waiting", monotonic() - started)
        places = {progress.task.workload: progress for progress in self._tasks}
        times = []
        for result in results:
            progress = places[result.order.workload]
            if result.record is None:
                progress.add_duplicate(result.order.trace, result.candidate)
                continue
            progress.add(result.record, more=result.more)
            counts = result.more or (
                result.order.again and (result.order.workload, result.order.trace) in self._doubted
            )
            self._budget.used += counts
            if result.record.status == "ok" and result.record.median_ns is not None:
                times.append(result.record.median_ns)
        index = batch.task
        if index is not None and results:
            self._history.append(Round(index, min(times, default=None)))
            self._in_search(lambda: self._learn_round(index, batch.round))
        self._report.round(None if batch.task is None else self._tasks[batch.task])

    # --- what runs in the search thread -------------------------------------------------------------------------

    @contextmanager
    def _inside(self, workload: str, number: int) -> Iterator[None]:
        """Report to the supervisor that TVM works on a task now."""
        self._rooms.entering(workload, number)
        try:
            yield
        finally:
            self._rooms.entering(None, number)

    def _search(self, index: int, count: int, number: int) -> list[str]:
        progress = self._tasks[index]
        workload = progress.task.workload
        with self._inside(workload, number):
            if index not in self._searches:
                seed = derive_seed(self._options.seed, "salt", self._options.salts.get(workload, 0))
                with told_as_failure("make the search space"):
                    spaces = (self._rooms.space(progress.task), *self._rooms.other_forms(progress.task))
                    self._searches[index] = AlgorithmsSearch(workload, spaces, self._model, seed, self._options.search)
                progress.unlearned = worth_learning(progress.unlearned)
            self._learn(index)
            self._model.fit()
            return self._searches[index].propose(count, number, progress.tried)

    def _learn(self, index: int) -> None:
        progress = self._tasks[index]
        self._searches[index].learn(
            [(record.trace, record.median_ns if record.status in TIMED else None) for record in progress.unlearned]
        )
        progress.unlearned = []

    def _learn_round(self, index: int, number: int) -> None:
        if index in self._searches:
            with self._inside(self._tasks[index].task.workload, number):
                self._learn(index)

    # --- the end ------------------------------------------------------------------------------------------------

    def _compare_finalists(self) -> None:
        """Time the fastest of each task again, side by side: the best of many noisy times is partly luck."""
        started, seconds = monotonic(), self._budget.seconds_for_finalists()
        most = self._report.measured * self._budget.reserve if seconds is None else seconds / PLAYOFF_SECONDS
        groups = contenders(self._tasks, self._options.playoff, int(most))
        if not groups or not self._report.measured:
            return
        with self._report.phase("playoff"):
            ends = None if seconds is None else started + 1.5 * max(seconds, PLAYOFF_SECONDS)
            future = self._line.compare(groups, PLAYOFF_SWEEPS)
            places = {progress.task.workload: progress for progress in self._tasks}
            for record in self._await(future, ends):
                places[record.workload].replace(record)
                if record.status != "ok":
                    name = places[record.workload].task.name
                    self._report.warn(f"a fast candidate of {name} is excluded ({record.status}): {record.reason}")
            self._report.spent("playoff", monotonic() - started)

    def _may_end_with(self, error: BoardUnavailable) -> bool:
        """Whether a package can still be made after the loss of all boards."""
        return self._report.measured > 0 or (isinstance(error, BoardLost) and self._store.count(self._keys) > 0)

    def _outcome(self) -> TuneOutcome:
        summary = self._rooms.measurer.summary()
        boards = summary.get("boards")
        tasks = [
            TaskOutcome(
                workload=progress.task.workload,
                name=progress.task.name,
                weight=progress.task.kernel.weight,
                best=self._best_of(progress.task),
                fixed_ns=progress.fixed_ns,
                records=self._store.count([self._rooms.measurer.key(progress.task.workload)]),
                rounds=progress.rounds,
                ending="excluded" if progress.excluded else "exhausted" if progress.exhausted else "budget",
            )
            for progress in self._tasks
        ]
        return TuneOutcome(
            tasks=tuple(tasks),
            records=sum(task.records for task in tasks),
            measured=self._report.measured,
            failed=dict(self._report.failed),
            duplicates=self._report.duplicates,
            elapsed=self._budget.elapsed,
            seconds=dict(self._report.seconds),
            warnings=tuple(self._report.warnings),
            boards=boards if isinstance(boards, dict) else {},
            bottleneck=str(summary.get("bottleneck", "")),
            programs=sum((search.counts for search in self._searches.values()), Counter()),
        )

    def _best_of(self, task: TuneTask) -> Record | None:
        """The fastest of the store within the task's scratch limit; after an interrupt the store knows more."""
        key = self._rooms.measurer.key(task.workload)
        return next(
            iter(self._store.best(key, 1, self._options.min_trust, task.scratch_limit, self._options.forms)), None
        )

    # --- helpers ------------------------------------------------------------------------------------------------

    def _in_search(self, work: Callable[[], Result]) -> Result:
        started = monotonic()
        result = self._await(self._searcher.submit(work))
        self._report.spent("search", monotonic() - started)
        return result

    def _await(self, future: Future[Result], ends: float | None = None) -> Result:
        def tick() -> None:
            if self._budget.out_of_time() if ends is None else monotonic() > ends:
                self._line.cancel()

        return self._line.wait(future, self._report.measurement, tick)

    def _fixed_trace(self, task: TuneTask, records: Sequence[Record]) -> str:
        """The default schedule; empty for an excluded task without a record, because making its schedule crashed."""
        if task.workload in self._options.excluded and not records:
            return ""
        with self._inside(task.workload, FIXED_ROUND):
            return self._rooms.fixed_trace(task)

    def _best_ns(self) -> dict[str, float]:
        return {item.task.workload: item.best_ns for item in self._tasks if item.best_ns is not None}

    def _all_stalled(self) -> bool:
        if not self._options.early_stopping:
            return False
        progress = curves(len(self._tasks), self._history)
        return all(
            task.exhausted or task.excluded or stalled(curve, self._options.scheduling)
            for task, curve in zip(self._tasks, progress, strict=True)
        )

    def _batch_size(self) -> int:
        """Reduces the batch size when the budget is small for so many tasks: four rounds of each should fit."""
        options = self._options
        expected = options.trials if options.trials is not None else options.seconds
        if expected is None:
            return options.batch
        return max(min(int(expected / (4 * max(len(self._tasks), 1))), options.batch), options.smallest_batch)


def _place(item: tuple[int, Round]) -> int:
    return item[0]
