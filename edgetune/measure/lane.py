"""One board of a session and the thread that talks to it, so that a board that waits keeps no other waiting."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from edgetune.boards.board import Board
from edgetune.boards.round_trip import STEPS, allowed_s
from edgetune.errors import BoardUnavailable
from edgetune.events import Event
from edgetune.measure.canary import Canary
from edgetune.measure.lost_board import LOSSES, bring_back, loss_of
from edgetune.measure.mailbox import Mailbox
from edgetune.measure.options import MeasuringOptions
from edgetune.measure.turn import ClosedError, Taken, Terms, Turn, Work
from edgetune.measure.watch import BoardWatch

LaneState = Literal["idle", "busy", "recovering", "quarantined"]
_RELEASE_S = 30.0
_LEAVE_S = 3.0
_CLOSE_S = 10.0


@dataclass(frozen=True)
class Done:
    """What a board's thread has done: `taken` a turn, or was `lost`, or both; or it is ready again (`recovered`).

    What a board answers may make any of our steps fail with an error of values: then it was lost as well. `broke` is
    an error that is nobody's doing but ours, raised again in the session's thread. `age` tells threads of one lane
    apart, `ended` is a time of `time.monotonic`.
    """

    lane: Lane
    age: int
    ended: float
    taken: Taken | None = None
    lost: BoardUnavailable | None = None
    recovered: bool = False
    broke: Exception | None = None


class Lane:
    """Used from the session's thread, except where said. Results come to `news`, events to `on_event`.

    `proved`: the board could be taken once. `blamed`: the candidate, not only the board, was at work. `fruitless`:
    losses without a candidate measured in between. `canary` gives the canary once there is one; `reserve_s` is how
    long taking the board may last.
    """

    def __init__(
        self,
        board: Board,
        terms: Terms,
        options: MeasuringOptions,
        news: Mailbox[Done],
        *,
        canary: Callable[[], Canary | None],
        on_event: Callable[[Event], None],
        reserve_s: float,
        remote: bool,
    ) -> None:
        self.board = board
        self.name = board.name
        self.state: LaneState = "idle"
        self.work: Work | None = None
        self.proved = False
        self.blamed = False
        self.fruitless = 0
        self.since = time.monotonic()
        self._terms = terms
        self._recovery_s = options.recovery_s
        self._news = news
        self._on_event = on_event
        self._reserve_s = reserve_s
        self._closing = threading.Event()
        self._cleaning = threading.Lock()
        self.watch = BoardWatch(
            board,
            canary,
            self.tell,
            ceiling_c=terms.ceiling_c,
            cooling_s=options.cooling_s if remote else 0.0,
            closing=self._closing,
        )
        self._age = 0
        self._step, self._deadline = "", 0.0
        self._tasks: Mailbox[Callable[[], Done]] = Mailbox()
        self._left: list[Mailbox[Callable[[], Done]]] = []
        self._thread: threading.Thread | None = None

    def tell(self, what: str, detail: str) -> None:
        """Send an event of this board; from any thread."""
        self._on_event(Event("board", {"board": self.name, "what": what, "detail": detail}))

    def give(self, work: Work) -> None:
        """Start a candidate's turn."""
        self.state, self.work, self.since = "busy", work, time.monotonic()
        self.blamed = False
        age = self._age
        self._mark(age, "reserve", self._reserve_s)
        self._start(lambda: self._measure(age, work))

    def open(self) -> None:
        """Start to take the board, before there is a candidate."""
        self.state, self.work, self.since = "busy", None, time.monotonic()
        age = self._age
        self._mark(age, "reserve", self._reserve_s)
        self._start(lambda: self._reserve(age))

    def recover(self) -> None:
        """Start to bring the board back."""
        self.state, self.work, self.since = "recovering", None, time.monotonic()
        age = self._age
        self._mark(age, "recover", self._recovery_s)
        self._start(lambda: self._recover(age))

    def quarantine(self) -> None:
        """Use the board no more."""
        self.state, self.work, self.since = "quarantined", None, time.monotonic()

    def current(self, done: Done) -> bool:
        """Whether news comes from the thread that counts."""
        return done.age == self._age

    def overdue(self, now: float) -> str:
        """The step that has taken longer than it may, if any; then its thread no longer counts."""
        late = self._deadline + allowed_s(0.0, self.board.round_trip_s, 2 * STEPS)
        if self.state not in {"busy", "recovering"} or now < late:
            return ""
        self._age += 1
        self._tasks.put(self._leave)
        self._left.append(self._tasks)
        self._tasks, self._thread = Mailbox(), None
        return self._step

    def close(self) -> None:
        """Begin to end the thread and what the board does; `join` waits for it."""
        self._closing.set()
        if self._thread is not None and self._thread.is_alive():
            self._tasks.put(self._leave)
        else:
            self._thread = threading.Thread(target=self._close_board, name=f"edgetune-close-{self.name}", daemon=True)
            self._thread.start()

    def join(self) -> None:
        """Wait for the end; a thread that hangs is cut off from its board, and left behind.

        One that is cleaning up already is given the time for it.
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

    def _measure(self, age: int, work: Work) -> Done:
        taken: Taken | None = None
        started = time.monotonic()

        def mark(step: str, seconds: float) -> None:
            self._mark(age, step, seconds)

        turn = Turn(self.board, self._terms, mark, self._tasks.fileno())
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
            return Done(self, age, time.monotonic(), taken, self._loss(error))
        return Done(self, age, time.monotonic(), taken)

    def _reserve(self, age: int) -> Done:
        try:
            self.board.reserve()
        except LOSSES as error:
            return Done(self, age, time.monotonic(), lost=self._loss(error))
        self.proved = True
        return Done(self, age, time.monotonic())

    def _recover(self, age: int) -> Done:
        def pause(seconds: float) -> None:
            if self._closing.wait(seconds) or age != self._age:
                raise ClosedError

        try:
            bring_back(self.board, self._recovery_s, self.tell, pause)
        except BoardUnavailable as error:
            return Done(self, age, time.monotonic(), lost=error)
        return Done(self, age, time.monotonic(), recovered=True)

    def _loss(self, error: Exception) -> BoardUnavailable:
        return loss_of(self.name, self._step, error)

    def _leave(self) -> Done:
        raise ClosedError

    def _close_board(self) -> None:
        with self._cleaning, contextlib.suppress(*LOSSES):  # the second waits for the first
            self.board.close()

    def _serve(self, age: int, tasks: Mailbox[Callable[[], Done]]) -> None:
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
        if age != self._age:  # another thread has taken over
            raise ClosedError
        self._step, self._deadline = step, time.monotonic() + seconds
