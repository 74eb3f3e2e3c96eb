"""A fleet of scripted boards at work, to its end."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Sequence

from edgetune.boards.options import MeasuringOptions
from edgetune.errors import BoardUnavailable
from edgetune.events import Event
from edgetune.measure.accounting import Accounting
from edgetune.measure.attempt import Job
from edgetune.measure.fleet import CandidateResult, Fleet
from tests.measure.scripted import ScriptedBoard

ENDS_S = 60.0  # nothing here takes a second; a test that is still at it after this hangs
STEP_S = 30.0  # boards that do not hang are not lost, however late the machine lets their threads go on
RECOVERY_S = 4.0  # less than the first wait of `lost_board.WAITS_S`: what does not come back at once does not


class Run:
    """A fleet of scripted boards at work on candidates, to its end."""

    def __init__(
        self,
        boards: Sequence[ScriptedBoard],
        works: Sequence[Job],
        options: MeasuringOptions | None = None,
        *,
        remote: bool = False,
        reserve_s: float = STEP_S,
        on_event: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self._on_event = on_event
        self.events: list[Event] = []
        self.started: list[str] = []
        self.finished: list[CandidateResult] = []
        self.error: BoardUnavailable | None = None
        self.accounting = Accounting()
        self._lock = threading.Lock()
        fleet = Fleet(
            boards,
            options or MeasuringOptions(recovery_s=RECOVERY_S),
            self.accounting,
            canary=lambda: None,
            on_start=lambda one: self.started.append(one.built.job_id),
            on_event=self._take,
            reserve_s=reserve_s,
            remote=remote,
        )
        try:
            for one in works:
                fleet.offer(one)
            deadline = time.monotonic() + ENDS_S
            while fleet.outstanding:
                assert time.monotonic() < deadline, "the fleet hangs"
                self.finished += fleet.advance()
                select.select([fleet.fileno()], [], [], 0.02)
        except BoardUnavailable as error:
            self.error = error
        finally:
            self.left = fleet.waiting
            self.states = {one.name: one.state for one in fleet.lanes}
            fleet.close()

    def told(self, what: str) -> list[str]:
        return [str(event.data["board"]) for event in self.events if event.data["what"] == what]

    def _take(self, event: Event) -> None:
        with self._lock:
            self.events.append(event)
        self._on_event(event)


def ids(run: Run) -> list[str]:
    return [one.work.built.job_id for one in run.finished]
