"""Search child process: reads its set-up from a pipe, sends events and finally its outcome, and ends.

Runs as `python -m edgetune.search.search_process`. It reports the task that it searches before TVM does anything risky,
so that its parent knows which task to leave out when TVM crashes the process.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from edgetune.boards.options import MeasuringOptions
from edgetune.config.database_location import Branch, DatabaseLocation
from edgetune.config.host import RUN, run_name
from edgetune.errors import EdgetuneError, Interrupted
from edgetune.events import Event
from edgetune.graph.program import Kernel
from edgetune.interrupts import held, interrupts_held_back
from edgetune.ipc import frames
from edgetune.ipc.child_process import claim_pipes, die_with_parent
from edgetune.measure.build_worker import load_step
from edgetune.records import RecordStore
from edgetune.search.counters import EventCounters
from edgetune.search.loop import SearchParts, TuningLoop
from edgetune.search.options import TuneOptions
from edgetune.search.outcome import TuneOutcome
from edgetune.search.task import TuneTask, tasks_of
from edgetune.target.target import Target

RoomsStep = Callable[[Sequence[TuneTask], Target, RecordStore, Callable[[Event], None], MeasuringOptions], SearchParts]

_INTERRUPTED = "interrupted; what was measured is kept, and the same command continues"

REAL_ROOMS = "edgetune.search.wiring:wire_search"


@dataclass(frozen=True)
class SearchSetup:
    """Everything a search needs; `rooms` is a `RoomsStep` as `module:function`.

    `constants` are weights to measure with, by workload and parameter index. `branch` is that of the records which the
    search sees, `run` its name in the log of starts.
    """

    kernels: tuple[Kernel, ...]
    target: Target
    database: DatabaseLocation
    options: TuneOptions
    rooms: str = REAL_ROOMS
    constants: Mapping[str, Mapping[int, np.ndarray]] = field(default_factory=dict, repr=False)
    measuring: MeasuringOptions = field(default_factory=MeasuringOptions)
    branch: Branch | None = None
    run: str = field(default_factory=run_name)


@dataclass(frozen=True)
class Entering:
    """The search of a task begins; `workload` is None when it is over."""

    workload: str | None
    round: int


@dataclass(frozen=True)
class SearchFailed:
    """The search ended with an error meant for the user."""

    error: EdgetuneError


def search(setup: SearchSetup, events: Callable[[Event], None], entering: Callable[[Entering], None]) -> TuneOutcome:
    """Search in this process. `events` and `entering` are called from several threads, one at a time."""
    lock = threading.Lock()
    tally = EventCounters()

    def tell(event: Event) -> None:
        with lock:
            tally.take(event)
            if event.kind != "summary":  # sent at the end, completed
                events(event)

    def enter(workload: str | None, number: int) -> None:
        with lock:
            entering(Entering(workload, number))

    options = setup.options
    tasks = tasks_of(setup.kernels, options.scratch_limits, setup.constants, options.forms, streamed=options.streamed)
    with RecordStore.open(setup.database, branch=setup.branch) as store:
        make_rooms = cast(RoomsStep, load_step(setup.rooms))
        rooms = replace(make_rooms(tasks, setup.target, store, tell, setup.measuring), entering=enter)
        outcome = tally.complete(TuningLoop(tasks, rooms, store, options, tell).run())
    events(Event("summary", outcome.to_json()))
    return outcome


def main() -> None:
    """Entry point of the process."""
    die_with_parent(int(sys.argv[1]))
    incoming, outgoing = claim_pipes()
    setup = frames.receive(incoming)
    if not isinstance(setup, SearchSetup):
        raise TypeError("the first message must be the setup")
    os.environ[RUN] = setup.run

    def send(message: object) -> None:
        with held():  # a partial message would make the next ones unreadable
            frames.send(outgoing, message)

    with interrupts_held_back():
        try:
            send(Entering(None, 0))
            outcome = search(setup, send, send)
        except EdgetuneError as error:
            send(SearchFailed(error))
        except KeyboardInterrupt:
            send(SearchFailed(Interrupted(_INTERRUPTED)))
        else:
            send(outcome)


if __name__ == "__main__":
    main()
