"""Fleet: the boards of a session share one queue of built candidates, and the session survives the loss of some boards.

Also compares sibling boards: a board that is faster or slower than its siblings, by more than noise, is flagged.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log

from edgetune.boards.environment import Reading
from edgetune.boards.options import MeasuringOptions
from edgetune.boards.protocol import Board
from edgetune.boards.statistics import Summary
from edgetune.errors import BoardFull, BoardLost, BoardUnavailable, HostUnknown, ProtocolViolation
from edgetune.events import Event
from edgetune.ipc.queue import SelectableQueue
from edgetune.measure.accounting import Accounting
from edgetune.measure.attempt import AttemptResult, Job
from edgetune.measure.board_worker import BoardWorker, Done
from edgetune.measure.canary import Canary

_LEAST_DIFFERENCE = 0.02
_DEVIATIONS = 3.0
_LEAST_CANARIES = 3
_LEAST_SHARED = 3


@dataclass
class _Board:
    canary: float | None = None
    noise: float = 0.0
    canaries: int = 0
    shared: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    flagged: bool = False


class Twins:
    """Compares sibling boards. Each method returns new flags: the board's name and a sentence, once per board."""

    def __init__(self) -> None:
        self._boards: defaultdict[str, _Board] = defaultdict(_Board)
        self._times: defaultdict[str, dict[str, float]] = defaultdict(dict)

    def canary(self, name: str, median: float, noise: float, count: int) -> list[tuple[str, str]]:
        """Add a board's canary: the median of `count` times, and their relative standard deviation."""
        board = self._boards[name]
        board.canary, board.noise, board.canaries = log(median), noise, count
        told = {
            key: one.canary
            for key, one in self._boards.items()
            if one.canary is not None and one.canaries >= _LEAST_CANARIES
        }
        if len(told) < 2:  # noqa: PLR2004  one board has no sibling
            return []
        noisiest = max(self._boards[key].noise for key in told)
        limit = max(_LEAST_DIFFERENCE, _DEVIATIONS * noisiest)
        flags = []
        for key, value in told.items():
            gaps = [value - other for twin, other in told.items() if twin != key]
            differing = [gap for gap in gaps if abs(gap) > limit]
            if 2 * len(differing) > len(gaps) and (len(gaps) > 1 or gaps[0] > 0):  # of two boards, flag the slower one
                flags += self._flag(key, statistics.median(differing), limit, "canary")
        return flags

    def candidate(self, name: str, candidate: str, summary: Summary) -> list[tuple[str, str]]:
        """Add the time of a candidate; some candidates are timed on several boards."""
        times = self._times[candidate]
        flags: list[tuple[str, str]] = []
        for twin, other in times.items():
            if twin == name:
                continue
            offset = log(summary.median) - other
            noise = max(_LEAST_DIFFERENCE, _DEVIATIONS / 2 * summary.relative_width)
            for key, value in ((name, offset), (twin, -offset)):
                shared = self._boards[key].shared[name if key == twin else twin]
                shared.append(value)
                same = all((one > 0) == (value > 0) and abs(one) > noise for one in shared)
                if len(shared) >= _LEAST_SHARED and same and value > 0:
                    flags += self._flag(key, statistics.median(shared), noise, "candidates that both have timed")
        times[name] = log(summary.median)
        return flags

    def _flag(self, name: str, difference: float, limit: float, what: str) -> list[tuple[str, str]]:
        board = self._boards[name]
        if board.flagged or abs(difference) <= limit:
            return []
        board.flagged = True
        change = 100 * abs(exp(difference) - 1)
        kind = "slower" if difference > 0 else "faster"
        than = f"it is {change:.1f} % {kind} than its siblings, by the {what}"
        return [(name, f"{than}: its times cannot be compared with theirs")]


MOST_LOSSES = 2
"""Number of boards that may be lost with a candidate before the candidate is blamed."""
MOST_IDLE_LOSSES = 3
MOST_FRUITLESS = 8
"""Consecutive losses before a board is given up: without a candidate in progress, and with one."""

_LOST = (BoardLost, ProtocolViolation)
_LOST_LATER = (*_LOST, HostUnknown, BoardFull)  # a board that worked before may work again


@dataclass(frozen=True)
class CandidateResult:
    """A finished candidate: `taken` is None when its boards were lost; `reason` then says how.

    `peaks` are the limits of the board's core as a record's environment has them, empty where they are not known.
    """

    work: Job
    board: Board
    taken: AttemptResult | None
    reason: str = ""
    peaks: Mapping[str, Reading] = field(default_factory=dict)


class Fleet:
    """Use from one thread; the boards have their own threads. `on_start` gets each candidate before its first attempt.

    Boards that are `remote` are reserved at once, and given time to cool; `reserve_s` limits the time to reserve one.
    """

    def __init__(
        self,
        boards: Sequence[Board],
        options: MeasuringOptions,
        accounting: Accounting,
        *,
        canary: Callable[[], Canary | None],
        on_start: Callable[[Job], None],
        on_event: Callable[[Event], None],
        reserve_s: float,
        remote: bool = False,
    ) -> None:
        self._news: SelectableQueue[Done] = SelectableQueue()
        self._accounting = accounting
        self._on_start = on_start
        self._on_event = on_event
        self._recovery_s = options.recovery_s
        self._twins = Twins()
        self._queue: deque[Job] = deque()
        self._sticky: dict[str, BoardWorker] = {}
        self._reasons: dict[str, BoardUnavailable] = {}
        self._broke: Exception | None = None
        self.lanes = [
            BoardWorker(
                board,
                options,
                self._news,
                canary=canary,
                on_event=on_event,
                reserve_s=reserve_s,
                remote=remote,
            )
            for board in boards
        ]
        now = time.monotonic()
        for lane in self.lanes:
            accounting.boards[lane.name].free_since = None if remote else now
            if remote:
                lane.open()

    @property
    def waiting(self) -> int:
        """Number of candidates that no board has yet."""
        return len(self._queue)

    @property
    def outstanding(self) -> int:
        """Number of candidates that are not finished."""
        return len(self._queue) + sum(lane.work is not None for lane in self.lanes)

    @property
    def stuck(self) -> bool:
        """Whether no board accepts candidates now: all boards are being recovered, or are given up."""
        return all(lane.state in {"recovering", "quarantined"} for lane in self.lanes)

    def fileno(self) -> int:
        """Descriptor that becomes readable when `advance` has something to do."""
        return self._news.fileno()

    def offer(self, work: Job) -> None:
        """Queue a candidate."""
        self._queue.append(work)

    def drop(self) -> list[Job]:
        """Remove the candidates that no board has, and return them."""
        dropped = list(self._queue)
        self._queue.clear()
        return dropped

    def advance(self, *, hold: bool = False) -> list[CandidateResult]:
        """Collect the boards' results, give free boards new candidates; return the finished candidates.

        Raises the error of the last board when no board is left, or the error of a board's thread, once there is
        nothing more to return; with `hold`, a later call without `hold` raises it.
        """
        finished: list[CandidateResult] = []
        for done in self._news.take():
            if done.lane.current(done):
                finished += self._take(done)
        now = time.monotonic()
        for lane in self.lanes:
            if step := lane.overdue(now):
                finished += self._late(lane, step)
        if self._broke is None:
            self._dispatch()
        if finished or hold:
            return finished
        if self._broke is not None:
            raise self._broke
        if all(lane.state == "quarantined" for lane in self.lanes):
            raise self._ended()
        return []

    def close(self) -> None:
        """End the boards and their threads."""
        for lane in self.lanes:
            lane.close()
        for lane in self.lanes:
            lane.join()
        self._news.close()

    def _take(self, done: Done) -> list[CandidateResult]:
        lane, account = done.lane, self._accounting.boards[done.lane.name]
        if done.broke is not None:
            self._broke = self._broke or done.broke
            return []
        account.free_since = done.ended
        if lane.state == "recovering":
            account.recovering_s += done.ended - lane.since
            if done.lost is not None:
                self._quarantine(lane, done.lost)
            else:
                account.recovered += 1
                lane.tell("recovered", f"it answers again after {done.ended - lane.since:.1f} s")
                lane.state = "idle"
            return []
        account.busy_s += done.ended - lane.since
        work, lane.work, lane.state = lane.work, None, "idle"
        finished: list[CandidateResult] = []
        if work is not None and done.taken is not None:
            finished.append(self._through(lane, work, done.taken))
        elif work is not None and done.lost is not None:
            finished += self._again(lane, work, done.lost)
        if done.lost is not None:
            self._lost(lane, done.lost)
        return finished

    def _late(self, lane: BoardWorker, step: str) -> list[CandidateResult]:
        """Handle a board's thread that hangs: it is replaced by another thread, which tries to recover the board."""
        account = self._accounting.boards[lane.name]
        now = time.monotonic()
        if lane.state == "recovering":
            account.recovering_s += now - lane.since
            account.free_since = now
            self._quarantine(
                lane,
                BoardLost(f"board '{lane.name}' did not recover within {self._recovery_s:g} s: check it"),
            )
            return []
        account.busy_s += now - lane.since
        account.free_since = now
        error = BoardLost(f"board '{lane.name}' did not end its step '{step}' in time: check it")
        work, lane.work = lane.work, None
        finished = self._again(lane, work, error) if work is not None else []
        self._lost(lane, error)
        return finished

    def _through(self, lane: BoardWorker, work: Job, taken: AttemptResult) -> CandidateResult:
        account = self._accounting.boards[lane.name]
        lane.fruitless = 0
        account.candidates += 1
        if taken.trust is not None:
            account.trust[taken.trust.grade] += 1
        if taken.refusal:
            account.refused[taken.refusal] += 1
            lane.tell("noisy", f"samples of a candidate are refused: {taken.reason}")
        if len(self.lanes) > 1:
            self._compare(lane, work, taken)
        return CandidateResult(work, lane.board, taken, peaks=lane.watch.peaks)

    def _compare(self, lane: BoardWorker, work: Job, taken: AttemptResult) -> None:
        flags: list[tuple[str, str]] = []
        trend = lane.watch.trend
        if lane.watch.canaries and (median := trend.median) is not None:
            flags += self._twins.canary(lane.name, median, trend.noise, lane.watch.canaries)
        if taken.status == "ok" and taken.summary is not None and work.built.candidate_id is not None:
            flags += self._twins.candidate(lane.name, work.built.candidate_id, taken.summary)
        for name, sentence in flags:
            self._on_event(Event("board", {"board": name, "what": "drift", "detail": sentence}))

    def _again(self, lane: BoardWorker, work: Job, error: BoardUnavailable) -> list[CandidateResult]:
        """Return a candidate whose board was lost to the front of the queue, unless it has lost too many boards."""
        work.lost_on = lane.name
        if work.again and self._sticky.get(work.built.kernel_key) is lane:
            del self._sticky[work.built.kernel_key]
        if lane.blamed:
            work.losses += 1
        if work.losses >= MOST_LOSSES:
            lane.fruitless = 0
            return [CandidateResult(work, lane.board, None, f"its board was lost {work.losses} times: {error.message}")]
        self._queue.appendleft(work)
        return []

    def _lost(self, lane: BoardWorker, error: BoardUnavailable) -> None:
        account = self._accounting.boards[lane.name]
        lane.fruitless += 1
        if not isinstance(error, _LOST_LATER if lane.proved else _LOST):
            self._quarantine(lane, error)
            return
        account.lost += 1
        lane.tell("lost", error.message)
        if lane.fruitless >= (MOST_FRUITLESS if lane.blamed else MOST_IDLE_LOSSES):
            self._quarantine(lane, error)
            return
        account.free_since = None
        lane.recover()

    def _quarantine(self, lane: BoardWorker, error: BoardUnavailable) -> None:
        account = self._accounting.boards[lane.name]
        account.quarantined = error.message
        account.free_since = None
        self._reasons[lane.name] = error
        lane.quarantine()
        lane.tell("quarantined", error.message)

    def _ended(self) -> BoardUnavailable:
        """Return the error for a fleet without boards: the only board's own error, or all names with reasons."""
        errors = list(self._reasons.values())
        if len(errors) == 1:
            return errors[0]
        words = "; ".join(f"{name}: {error.message}" for name, error in sorted(self._reasons.items()))
        kinds = {type(error) for error in errors}
        kind = kinds.pop() if len(kinds) == 1 and not any(lane.proved for lane in self.lanes) else BoardLost
        return kind(f"none of the {len(errors)} boards is left ({words})")

    def _dispatch(self) -> None:
        free = sorted((lane for lane in self.lanes if lane.state == "idle"), key=lambda lane: lane.since)
        for lane in free:
            work = self._next_for(lane)
            if work is None:
                continue
            if work.again:
                self._sticky[work.built.kernel_key] = lane
            if not work.started:
                work.started = True
                self._on_start(work)
            self._accounting.boards[lane.name].free_since = None
            lane.give(work)

    def _next_for(self, lane: BoardWorker) -> Job | None:
        """Return the first candidate in the queue that this board should take.

        Candidates that are compared with each other stay on one board. A candidate that lost a board goes to another
        board, where there is one.
        """
        others = any(other.state in {"idle", "busy"} for other in self.lanes if other is not lane)
        for place, work in enumerate(self._queue):
            bound = self._sticky.get(work.built.kernel_key) if work.again else None
            if bound not in (None, lane) and bound.state != "quarantined" and bound.name != work.lost_on:
                continue
            if work.lost_on == lane.name and others:
                continue
            del self._queue[place]
            return work
        return None
