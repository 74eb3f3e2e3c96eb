"""The boards of a session: they share one queue of built candidates, whatever becomes of some of them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgetune.boards.board import Board
from edgetune.errors import BoardFull, BoardLost, BoardUnavailable, HostUnknown, ProtocolViolation
from edgetune.events import Event
from edgetune.measure.accounting import Accounting
from edgetune.measure.canary import Canary
from edgetune.measure.lane import Done, Lane
from edgetune.measure.mailbox import Mailbox
from edgetune.measure.options import MeasuringOptions
from edgetune.measure.sampling import TimingPolicy
from edgetune.measure.turn import Taken, Terms, Work
from edgetune.measure.twins import Twins

MOST_LOSSES = 2
"""Boards that a candidate may lose before it is blamed."""
MOST_IDLE_LOSSES = 3
MOST_FRUITLESS = 8
"""Losses of a board in a row, without a candidate at work and with, before it is given up."""

_LOST = (BoardLost, ProtocolViolation)
_LOST_LATER = (*_LOST, HostUnknown, BoardFull)  # a board that was fine before may be again


@dataclass(frozen=True)
class Finished:
    """A candidate that is through: `taken` is None when it lost its boards, `reason` says how."""

    work: Work
    board: Board
    taken: Taken | None
    reason: str = ""


class Fleet:
    """Use from one thread; the boards have threads of their own. `on_start` is told of a candidate's first turn.

    Boards that are `remote` are taken at once, and given time to cool; `reserve_s` is how long taking one may last.
    """

    def __init__(
        self,
        boards: Sequence[Board],
        timing: TimingPolicy,
        options: MeasuringOptions,
        accounting: Accounting,
        *,
        canary: Callable[[], Canary | None],
        on_start: Callable[[Work], None],
        on_event: Callable[[Event], None],
        reserve_s: float,
        remote: bool = False,
    ) -> None:
        self._news: Mailbox[Done] = Mailbox()
        self._accounting = accounting
        self._on_start = on_start
        self._on_event = on_event
        self._recovery_s = options.recovery_s
        self._twins = Twins()
        self._queue: deque[Work] = deque()
        self._sticky: dict[str, Lane] = {}
        self._reasons: dict[str, BoardUnavailable] = {}
        self._broke: Exception | None = None
        terms = Terms(timing, options.min_trust, options.ceiling_c)
        self.lanes = [
            Lane(
                board,
                terms,
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
        """Candidates that no board has yet."""
        return len(self._queue)

    @property
    def outstanding(self) -> int:
        """Candidates that are not through."""
        return len(self._queue) + sum(lane.work is not None for lane in self.lanes)

    @property
    def stuck(self) -> bool:
        """Whether no board takes candidates now: all of them are being recovered, or are given up."""
        return all(lane.state in {"recovering", "quarantined"} for lane in self.lanes)

    def fileno(self) -> int:
        """Descriptor that becomes readable when `advance` has something to do."""
        return self._news.fileno()

    def offer(self, work: Work) -> None:
        """Queue a candidate."""
        self._queue.append(work)

    def drop(self) -> list[Work]:
        """Forget the candidates that no board has, and return them."""
        dropped = list(self._queue)
        self._queue.clear()
        return dropped

    def advance(self, *, hold: bool = False) -> list[Finished]:
        """Take what boards have done, give them what waits; return what is through.

        Raises what is raised when no board is left, or what broke in a board's thread, once there is nothing more to
        return; with `hold`, by a later call without it.
        """
        finished: list[Finished] = []
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

    def _take(self, done: Done) -> list[Finished]:
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
        finished: list[Finished] = []
        if work is not None and done.taken is not None:
            finished.append(self._through(lane, work, done.taken))
        elif work is not None and done.lost is not None:
            finished += self._again(lane, work, done.lost)
        if done.lost is not None:
            self._lost(lane, done.lost)
        return finished

    def _late(self, lane: Lane, step: str) -> list[Finished]:
        """A board's thread hangs: it no longer counts, and another one tries to bring the board back."""
        account = self._accounting.boards[lane.name]
        now = time.monotonic()
        if lane.state == "recovering":
            account.recovering_s += now - lane.since
            account.free_since = now
            self._quarantine(
                lane,
                BoardLost(f"board '{lane.name}' was not brought back within {self._recovery_s:g} s: look after it"),
            )
            return []
        account.busy_s += now - lane.since
        account.free_since = now
        error = BoardLost(f"board '{lane.name}' did not end its step '{step}' in time: look after it")
        work, lane.work = lane.work, None
        finished = self._again(lane, work, error) if work is not None else []
        self._lost(lane, error)
        return finished

    def _through(self, lane: Lane, work: Work, taken: Taken) -> Finished:
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
        return Finished(work, lane.board, taken)

    def _compare(self, lane: Lane, work: Work, taken: Taken) -> None:
        flags: list[tuple[str, str]] = []
        trend = lane.watch.trend
        if lane.watch.canaries and (median := trend.median) is not None:
            flags += self._twins.canary(lane.name, median, trend.noise, lane.watch.canaries)
        if taken.status == "ok" and taken.summary is not None and work.built.candidate_id is not None:
            flags += self._twins.candidate(lane.name, work.built.candidate_id, taken.summary)
        for name, sentence in flags:
            self._on_event(Event("board", {"board": name, "what": "drift", "detail": sentence}))

    def _again(self, lane: Lane, work: Work, error: BoardUnavailable) -> list[Finished]:
        """Put a candidate whose board was lost back to the front, unless it has lost too many."""
        work.lost_on = lane.name
        if work.again and self._sticky.get(work.built.kernel_key) is lane:
            del self._sticky[work.built.kernel_key]
        if lane.blamed:
            work.losses += 1
        if work.losses >= MOST_LOSSES:
            lane.fruitless = 0
            return [Finished(work, lane.board, None, f"its board was lost {work.losses} times: {error.message}")]
        self._queue.appendleft(work)
        return []

    def _lost(self, lane: Lane, error: BoardUnavailable) -> None:
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

    def _quarantine(self, lane: Lane, error: BoardUnavailable) -> None:
        account = self._accounting.boards[lane.name]
        account.quarantined = error.message
        account.free_since = None
        self._reasons[lane.name] = error
        lane.quarantine()
        lane.tell("quarantined", error.message)

    def _ended(self) -> BoardUnavailable:
        """What to raise when no board is left: the one board's own error, or all names with their reasons."""
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

    def _next_for(self, lane: Lane) -> Work | None:
        """The first candidate in the queue that this board should take.

        Candidates compared side by side stay on one board; what lost a board goes to another one, where there is one.
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
