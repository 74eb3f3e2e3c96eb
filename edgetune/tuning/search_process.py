"""The search as a child process: reads its set-up from a pipe, tells events and at last its outcome, and ends.

Runs as `python -m edgetune.tuning.search_process`. It says which task it searches before TVM does anything risky,
so that its parent knows what to leave out when TVM takes the process down.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import numpy as np

from edgetune.config.target import Target
from edgetune.errors import EdgetuneError, Interrupted
from edgetune.events import Event
from edgetune.graph.program import Kernel
from edgetune.interrupts import held, interrupts_held_back
from edgetune.measure import wire
from edgetune.measure.build_worker import load_step
from edgetune.measure.child_process import claim_pipes, die_with_parent
from edgetune.measure.options import MeasuringOptions
from edgetune.tuning.loop import Rooms, TuningLoop
from edgetune.tuning.options import TuneOptions
from edgetune.tuning.outcome import TuneOutcome
from edgetune.tuning.records import RecordStore
from edgetune.tuning.tally import Tally
from edgetune.tuning.task import TuneTask, tasks_of

RoomsStep = Callable[[Sequence[TuneTask], Target, RecordStore, Callable[[Event], None], MeasuringOptions], Rooms]

_INTERRUPTED = "interrupted; what was measured is kept, and the same command goes on from there"

REAL_ROOMS = "edgetune.tuning.rooms:make_rooms"


@dataclass(frozen=True)
class SearchSetup:
    """Everything a search needs; `rooms` is a `RoomsStep` as `module:function`.

    `constants` are weights to measure with, by workload and parameter index.
    """

    kernels: tuple[Kernel, ...]
    target: Target
    database: Path
    options: TuneOptions
    rooms: str = REAL_ROOMS
    constants: Mapping[str, Mapping[int, np.ndarray]] = field(default_factory=dict, repr=False)
    measuring: MeasuringOptions = field(default_factory=MeasuringOptions)


@dataclass(frozen=True)
class Entering:
    """The search of a task begins; `workload` is None when it is over."""

    workload: str | None
    round: int


@dataclass(frozen=True)
class Failed:
    """The search ended with an error meant for the user."""

    error: EdgetuneError


def search(setup: SearchSetup, events: Callable[[Event], None], entering: Callable[[Entering], None]) -> TuneOutcome:
    """Search in this process. `events` and `entering` are called from several threads, one at a time."""
    lock = threading.Lock()
    tally = Tally()

    def tell(event: Event) -> None:
        with lock:
            tally.take(event)
            if event.kind != "summary":  # told at the end, completed
                events(event)

    def enter(workload: str | None, number: int) -> None:
        with lock:
            entering(Entering(workload, number))

    options = setup.options
    tasks = tasks_of(setup.kernels, options.scratch_limits, setup.constants, options.forms, streamed=options.streamed)
    with RecordStore.open(setup.database) as store:
        make_rooms = cast(RoomsStep, load_step(setup.rooms))
        rooms = replace(make_rooms(tasks, setup.target, store, tell, setup.measuring), entering=enter)
        outcome = tally.complete(TuningLoop(tasks, rooms, store, options, tell).run())
    events(Event("summary", outcome.to_json()))
    return outcome


def main() -> None:
    """Entry point of the process."""
    die_with_parent(int(sys.argv[1]))
    incoming, outgoing = claim_pipes()
    setup = wire.receive(incoming)
    if not isinstance(setup, SearchSetup):
        raise TypeError("the first message must be the setup")

    def send(message: object) -> None:
        with held():  # half a message would make what follows unreadable
            wire.send(outgoing, message)

    with interrupts_held_back():
        try:
            send(Entering(None, 0))
            outcome = search(setup, send, send)
        except EdgetuneError as error:
            send(Failed(error))
        except KeyboardInterrupt:
            send(Failed(Interrupted(_INTERRUPTED)))
        else:
            send(outcome)


if __name__ == "__main__":
    main()
