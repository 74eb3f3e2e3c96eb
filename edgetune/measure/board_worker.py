"""Board worker: one thread per board of a session, so that a slow board does not delay the others."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from edgetune.boards.options import MeasuringOptions
from edgetune.boards.protocol import Board
from edgetune.boards.round_trip import STEPS, allowed_s
from edgetune.errors import BoardUnavailable
from edgetune.events import Event
from edgetune.ipc.queue import SelectableQueue
from edgetune.measure.attempt import Attempt, AttemptResult, ClosedError, Job
from edgetune.measure.canary import Canary
from edgetune.measure.health_monitor import BoardWatch
from edgetune.measure.lost_board import LOSSES, bring_back, loss_of

LaneState = Literal["idle", "busy", "recovering", "quarantined"]
_RELEASE_S = 30.0
_LEAVE_S = 3.0
_CLOSE_S = 10.0


@dataclass(frozen=True)
class Done:
    """What a board's thread has done: it has `taken` an attempt, the board was `lost`, or both; or it has `recovered`.

    A board's answer may make any of our steps fail with a value error; the board counts as lost then as well. `broke`
    is an error of edgetune itself, raised again in the session's thread. `age` distinguishes the threads of one board
    worker, `ended` is a time of `time.monotonic`.
    """

    lane: BoardWorker
    age: int
    ended: float
    taken: AttemptResult | None = None
    lost: BoardUnavailable | None = None
    recovered: bool = False
    broke: Exception | None = None


class BoardWorker:
    """Used from the session's thread, except where stated. Results go to `news`, events to `on_event`.

    `proved`: the board was reserved at least once. `blamed`: the attempt had begun with its candidate, so a loss may be
    the candidate's fault. `fruitless`: losses without a candidate measured in between. `canary` returns the canary once
    there is one; `reserve_s` is the time limit for reserving the board, in seconds.
    """

    def __init__(
        self,
        board: Board,
        options: MeasuringOptions,
        news: SelectableQueue[Done],
        *,
        canary: Callable[[], Canary | None],
        on_event: Callable[[Event], None],
        reserve_s: float,
        remote: bool,
    ) -> None:
        self.board = board
        self.name = board.name
        self.state: LaneState = "idle"
        self.work: Job | None = None
        self.proved = False
        self.blamed = False
        self.fruitless = 0
        self.since = time.monotonic()
        self._options = options
        self._news = news
        self._on_event = on_event
        self._reserve_s = reserve_s
        self._closing = threading.Event()
        self._cleaning = threading.Lock()
        self.watch = BoardWatch(
            board,
            canary,
            self.tell,
            ceiling_c=options.ceiling_c,
            cooling_s=options.cooling_s if remote else 0.0,
            closing=self._closing,
        )
        self._age = 0
        self._step, self._deadline = "", 0.0
        self._tasks: SelectableQueue[Callable[[], Done]] = SelectableQueue()
        self._left: list[SelectableQueue[Callable[[], Done]]] = []
        self._thread: threading.Thread | None = None

    def tell(self, what: str, detail: str) -> None:
        """Send an event of this board; may be called from any thread."""
        self._on_event(Event("board", {"board": self.name, "what": what, "detail": detail}))

    def give(self, work: Job) -> None:
        """Start an attempt to measure a candidate."""
        self.state, self.work, self.since = "busy", work, time.monotonic()
        self.blamed = False
        age = self._age
        self._mark(age, "reserve", self._reserve_s)
        self._start(lambda: self._measure(age, work))

    def open(self) -> None:
        """Start to reserve the board, before there is a candidate."""
        self.state, self.work, self.since = "busy", None, time.monotonic()
        age = self._age
        self._mark(age, "reserve", self._reserve_s)
        self._start(lambda: self._reserve(age))

    def recover(self) -> None:
        """Start to recover the board."""
        self.state, self.work, self.since = "recovering", None, time.monotonic()
        age = self._age
        self._mark(age, "recover", self._options.recovery_s)
        self._start(lambda: self._recover(age))

    def quarantine(self) -> None:
        """Stop using the board."""
        self.state, self.work, self.since = "quarantined", None, time.monotonic()

    def current(self, done: Done) -> bool:
        """Whether the news comes from the worker's current thread."""
        return done.age == self._age

    def overdue(self, now: float) -> str:
        """Return the step that is past its deadline, if any; its thread is no longer the current one then."""
        late = self._deadline + allowed_s(0.0, self.board.round_trip_s, 2 * STEPS)
        if self.state not in {"busy", "recovering"} or now < late:
            return ""
        self._age += 1
        self._tasks.put(self._leave)
        self._left.append(self._tasks)
        self._tasks, self._thread = SelectableQueue(), None
        return self._step

    def close(self) -> None:
        """Begin to end the thread and the board's work; `join` waits for the end."""
        self._closing.set()
        if self._thread is not None and self._thread.is_alive():
            self._tasks.put(self._leave)
        else:
            self._thread = threading.Thread(target=self._close_board, name=f"edgetune-close-{self.name}", daemon=True)
            self._thread.start()

    def join(self) -> None:
        """Wait for the end; a thread that hangs is disconnected from its board and abandoned.

        A thread that is already cleaning up is given time to finish.
        """
        if self._thread is None:
            return
        self._thread.join(_LEAVE_S)
        if self._thread.is_alive():
            last = threading.Thread(target=self._close_board, name=f"edgetune-close-{self.name}", daemon=True)
            last.start()
            last.join(_CLOSE_S)
        for mailbox in (*self._left, self._tasks):
            mailbox.close()

    # --- in the board's own thread --------------------------------------------------------------------------------

    def _measure(self, age: int, work: Job) -> Done:
        taken: AttemptResult | None = None
        started = time.monotonic()

        def mark(step: str, seconds: float) -> None:
            self._mark(age, step, seconds)

        turn = Attempt(self.board, self._options, mark, self._tasks.fileno())
        try:
            self.board.reserve()
            self.proved = True
            reserved = time.monotonic()
            self.watch.look(turn, mark)
            begun = time.monotonic()
            self.blamed = True
            taken = turn.take(work, self.watch.state)
            taken.seconds["lock"] = reserved - started
            self.watch.worked(time.monotonic() - begun)
            mark("release", _RELEASE_S)
            self.board.release()
        except LOSSES as error:
            return Done(self, age, time.monotonic(), taken, loss_of(self.name, self._step, error))
        return Done(self, age, time.monotonic(), taken)

    def _reserve(self, age: int) -> Done:
        try:
            self.board.reserve()
        except LOSSES as error:
            return Done(self, age, time.monotonic(), lost=loss_of(self.name, self._step, error))
        self.proved = True
        return Done(self, age, time.monotonic())

    def _recover(self, age: int) -> Done:
        def pause(seconds: float) -> None:
            if self._closing.wait(seconds) or age != self._age:
                raise ClosedError

        try:
            bring_back(self.board, self._options.recovery_s, self.tell, pause)
        except BoardUnavailable as error:
            return Done(self, age, time.monotonic(), lost=error)
        return Done(self, age, time.monotonic(), recovered=True)

    def _leave(self) -> Done:
        raise ClosedError

    def _close_board(self) -> None:
        with self._cleaning, contextlib.suppress(*LOSSES):  # a second caller waits for the first
            self.board.close()

    def _serve(self, age: int, tasks: SelectableQueue[Callable[[], Done]]) -> None:
        while True:
            for task in tasks.wait():
                try:
                    done = task()
                except ClosedError:
                    if age == self._age:
                        self._close_board()
                    return
                except Exception as error:  # noqa: BLE001  raised again in the session's thread
                    done = Done(self, age, time.monotonic(), broke=error)
                self._news.put(done)
                if age != self._age:
                    return

    def _start(self, task: Callable[[], Done]) -> None:
        if self._thread is None:
            arguments = (self._age, self._tasks)
            self._thread = threading.Thread(
                target=self._serve, args=arguments, name=f"edgetune-{self.name}", daemon=True
            )
            self._thread.start()
        self._tasks.put(task)

    def _mark(self, age: int, step: str, seconds: float) -> None:
        if age != self._age:  # another thread has replaced this one
            raise ClosedError
        self._step, self._deadline = step, time.monotonic() + seconds
