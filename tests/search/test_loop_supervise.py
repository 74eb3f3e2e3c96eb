"""The search as a child process: its outcome, its errors, its crashes and Ctrl-C all arrive."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from edgetune.boards.options import MeasuringOptions
from edgetune.errors import DiskFull, EdgetuneError
from edgetune.events import Event
from edgetune.records import RecordStore
from edgetune.search import supervise
from edgetune.search.loop import SearchParts
from edgetune.search.options import TuneOptions
from edgetune.search.outcome import TuneOutcome
from edgetune.search.search import SearchSpace
from edgetune.search.search_process import RoomsStep, SearchSetup
from edgetune.search.supervise import MOST_RESTARTS, SupervisedSearch
from edgetune.search.task import TuneTask
from edgetune.target.target import Target, load_target

BAD = "matmul_2"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def fakes() -> Any:
    return importlib.import_module("test_loop")


def rooms_of(
    space: Callable[[TuneTask], SearchSpace] | None = None, fixed: Callable[[TuneTask], str] | None = None
) -> RoomsStep:
    """Rooms with a fake measurer; the search space or the fixed schedule of a task may misbehave."""

    def make(
        tasks: Sequence[TuneTask],
        target: Target,
        store: RecordStore,
        on_event: Callable[[Event], None],
        measuring: MeasuringOptions,
    ) -> SearchParts:
        del tasks, target, store, on_event, measuring
        return SearchParts(fakes().FakeMeasurer(delay=0.01), space or fakes().space_of, fixed or fakes().fixed_trace)

    return make


def crash(task: TuneTask) -> None:
    if task.name == BAD:
        os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(5)


def crashing_space(task: TuneTask) -> SearchSpace:
    crash(task)
    found: SearchSpace = fakes().space_of(task)
    return found


def looping_space(task: TuneTask) -> SearchSpace:
    while task.name == BAD:
        pass
    found: SearchSpace = fakes().space_of(task)
    return found


def crashing_fixed(task: TuneTask) -> str:
    crash(task)
    return str(fakes().fixed_trace(task))


def full_space(task: TuneTask) -> SearchSpace:
    raise DiskFull(f"no space left while searching {task.name}: free some")


# Named by tests, and found by the search's own process under these names.
good_rooms = rooms_of()
crashing_rooms = rooms_of(crashing_space)
looping_rooms = rooms_of(looping_space)
no_fixed_rooms = rooms_of(fixed=crashing_fixed)
full_rooms = rooms_of(full_space)


def run(
    tmp_path: Path,
    rooms: str,
    wanted: int | TuneOptions,
    events: Callable[[Event], None] = lambda _: None,
    step_seconds: float | None = None,
) -> tuple[TuneOutcome, int]:
    options = TuneOptions(trials=wanted) if isinstance(wanted, int) else wanted
    options = replace(options, search=fakes().SMALL)
    setup = SearchSetup(
        fakes().kernels(), load_target("host"), tmp_path / "db", options, f"test_loop_supervise:{rooms}"
    )
    outcome = SupervisedSearch(setup, events, step_seconds).run()
    return outcome, len(fakes().all_records(tmp_path / "db"))


@pytest.mark.long
def test_the_outcome_and_events_of_the_child_arrive(tmp_path: Path) -> None:
    told: list[Event] = []
    outcome, records = run(tmp_path, "good_rooms", 30, told.append)
    assert outcome.records == outcome.measured == records == 30
    assert sum(event.kind == "candidate" for event in told) == 30
    assert [event.kind for event in told][-1] == "summary"


@pytest.mark.long
def test_a_task_that_crashes_the_search_is_left_out(tmp_path: Path) -> None:
    told: list[Event] = []
    outcome, records = run(tmp_path, "crashing_rooms", 40, told.append)
    endings = {task.name: task.ending for task in outcome.tasks}
    assert endings[BAD] == "excluded"
    assert next(task.best for task in outcome.tasks if task.name == BAD) is not None
    assert outcome.records == outcome.measured == records == 40
    warnings = [str(event.data["message"]) for event in told if event.kind == "warning"]
    assert len(warnings) == 2
    assert all(BAD in warning and "SIGSEGV" in warning for warning in warnings)
    assert list(outcome.warnings) == warnings


@pytest.mark.long
def test_a_task_whose_search_never_ends_is_left_out(tmp_path: Path) -> None:
    told: list[Event] = []
    started = time.monotonic()
    outcome, records = run(tmp_path, "looping_rooms", 40, told.append, step_seconds=20.0)
    assert time.monotonic() - started > 2 * 20.0
    endings = {task.name: task.ending for task in outcome.tasks}
    assert endings[BAD] == "excluded"
    assert outcome.records == outcome.measured == records == 40
    warnings = [str(event.data["message"]) for event in told if event.kind == "warning"]
    assert len(warnings) == 2
    assert all(BAD in warning and "killed by us after 20 s without an end" in warning for warning in warnings)
    assert "another seed" in warnings[0]
    assert "best schedule so far" in warnings[1]


@pytest.mark.long
def test_a_task_without_even_a_fixed_schedule_is_left_out(tmp_path: Path) -> None:
    outcome, records = run(tmp_path, "no_fixed_rooms", 20)
    bad = next(task for task in outcome.tasks if task.name == BAD)
    assert (bad.ending, bad.best, bad.records) == ("excluded", None, 0)
    assert outcome.records == records == 20
    assert len(outcome.warnings) == 2


@pytest.mark.long
def test_an_error_of_the_child_is_raised_here(tmp_path: Path) -> None:
    with pytest.raises(DiskFull, match="no space left"):
        run(tmp_path, "full_rooms", 30)


@pytest.mark.long
def test_ctrl_c_ends_the_child_cleanly(tmp_path: Path) -> None:
    pressed = threading.Event()

    def press(event: Event) -> None:
        if event.kind == "candidate" and not pressed.is_set():
            pressed.set()
            os.kill(os.getpid(), signal.SIGINT)

    outcome, records = run(tmp_path, "good_rooms", 5000, press)
    assert outcome.interrupted
    assert 0 < outcome.measured <= records == outcome.records < 500
    assert sys.exc_info() == (None, None, None)


class Killed:
    """A child that is killed at once, while it searches no task; its set-up is added to `told`."""

    ended = True

    def __init__(self, told: list[SearchSetup]) -> None:
        self.told = told

    def send(self, setup: SearchSetup) -> None:
        self.told.append(setup)

    def last_words(self) -> str:
        return "killed by SIGKILL"

    def said(self) -> list[str]:
        return []

    def close(self) -> None:
        pass


def test_a_search_that_is_started_again_has_the_time_that_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[SearchSetup] = []
    monkeypatch.setattr(supervise, "ChildProcess", lambda *_: Killed(told))
    setup = SearchSetup((), load_target("host"), tmp_path / "db", TuneOptions(seconds=1800.0))
    with pytest.raises(EdgetuneError, match="crashed"):
        SupervisedSearch(setup, lambda _: None).run()
    seconds = [setup.options.seconds or 0.0 for setup in told]
    assert len(seconds) == MOST_RESTARTS + 1
    assert seconds[0] == 1800.0
    assert all(0.0 < after < before for before, after in pairwise(seconds))


@pytest.mark.long
def test_what_is_measured_again_counts_once_and_what_is_not_does_not(tmp_path: Path) -> None:
    fakes().tune(tmp_path / "db", TuneOptions(trials=12))
    options = TuneOptions(trials=6, min_trust="B")  # nothing of the fake measurer is graded
    outcome, records = run(tmp_path, "good_rooms", options)
    assert outcome.records == records == 12
    assert outcome.measured == 6
