"""Search reports: turns what happens in the loop into events and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic

from edgetune.events import Event, EventKind
from edgetune.search.budget import TrialBudget
from edgetune.search.measuring import RequestResult
from edgetune.search.progress import TaskProgress


class Reporter:
    """Counts measurements of this run and reports them to the listener; one thread calls it."""

    def __init__(self, tasks: Sequence[TaskProgress], budget: TrialBudget, events: Callable[[Event], None]) -> None:
        self.measured = 0
        self.duplicates = 0
        self.failed: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}
        self.warnings: list[str] = []
        self._tasks = tasks
        self._names = {progress.task.workload: progress.task.name for progress in tasks}
        self._budget = budget
        self._events = events

    def send(self, kind: EventKind, **data: object) -> None:
        """Send one event to the listener."""
        self._events(Event(kind, data))

    def warn(self, message: str) -> None:
        """Report a problem that does not end the search, and keep it for the outcome."""
        self.warnings.append(message)
        self.send("warning", message=message)

    def shares(self) -> None:
        """Report that the search uses more trials than the budget, if it does."""
        if self._budget.extra:
            count = sum(task.owed for task in self._tasks)
            kernels = f"{count} kernel{'s' if count > 1 else ''}"
            self.warn(f"{kernels} without a search get their share: {self._budget.extra} more trials")

    def spent(self, name: str, seconds: float) -> None:
        """Add to the time of one kind of work."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def measurement(self, result: RequestResult) -> None:
        """Count and report the result of one candidate."""
        for name, seconds in result.seconds.items():
            self.spent(name, seconds)
        record = result.record
        if record is None:
            self.duplicates += 1
            return
        self.measured += 1
        if record.status != "ok":
            self.failed[record.status] += 1
        self.send(
            "candidate",
            task=self._names[record.workload],
            status=record.status,
            us=None if record.median_ns is None else record.median_ns / 1000,
            candidate=record.candidate,
            round=record.round,
            again=result.order.again,
            more=result.more,
            reason=record.reason,
        )

    def round(self, progress: TaskProgress | None) -> None:
        """Report the state of the search after a round, of one task or of all."""
        for task in self._tasks if progress is None else [progress]:
            self.send(
                "task",
                task=task.task.name,
                best_us=None if task.best_ns is None else task.best_ns / 1000,
                weight=task.task.kernel.weight,
                trials=task.records,
            )
        budget = self._budget
        pace = self.measured / budget.elapsed if budget.elapsed > 0 else None
        best = None if progress is None or progress.best_ns is None else progress.best_ns / 1000
        self.send(
            "round",
            task=None if progress is None else progress.task.name,
            best_us=best,
            trials=budget.used,
            records=sum(task.records for task in self._tasks),
            budget_trials=budget.limit,
            elapsed_s=budget.elapsed,
            budget_s=budget.seconds,
            end_to_end_us=self._end_to_end(),
            eta_s=budget.remaining_seconds(pace),
        )

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Report the start of a phase, and its duration when it ends."""
        started = monotonic()
        self.send("phase", name=name)
        try:
            yield
        finally:
            self.send("phase", name=name, seconds=monotonic() - started)

    def _end_to_end(self) -> float | None:
        total = 0.0
        for progress in self._tasks:
            if progress.best_ns is None:
                return None
            total += progress.task.kernel.weight * progress.best_ns / 1000
        return total
