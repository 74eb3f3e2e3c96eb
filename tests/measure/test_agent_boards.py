"""A session over real agents: processes of this machine, natively and under the emulator that counts instructions."""

from __future__ import annotations

import importlib
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from edgetune.backends.c_linux import BACKEND
from edgetune.boards.agent.board import AgentBoard
from edgetune.boards.opening import BoardFactory
from edgetune.boards.options import MeasuringOptions
from edgetune.boards.process import ProcessReach
from edgetune.errors import BoardLost
from edgetune.events import Event
from edgetune.measure.build_worker import BuildPolicy
from edgetune.measure.jobs import BuildJob
from edgetune.measure.measurement import Measurement
from edgetune.measure.session import MeasureSession
from edgetune.target.target import load_target

HERE = Path(__file__).parents[1]
STEPS = BuildPolicy("measure_steps:make_source", "measure_steps:make_case")
# A noisy machine may refuse a set of samples; that is no fault of the candidate.
FINE = {"ok", "refused_noisy"}


class Shelf:
    """Agents of this machine as boards of one target; `kill` ends the agent of a board."""

    def __init__(self, target: str, count: int) -> None:
        self.target = load_target(target)
        self.reaches = [ProcessReach(f"board-{number}", self.target) for number in range(count)]
        self.events: list[Event] = []

    def boards(self, _folder: Path, on_event: Callable[[Event], None]) -> list[AgentBoard]:
        return [AgentBoard(self.target, reach, on_event=on_event) for reach in self.reaches]

    def open(self, **options: Any) -> MeasureSession:
        boards = BoardFactory(self.boards)
        return MeasureSession(
            self.target, boards, BACKEND, on_event=self.events.append, building=STEPS, workers=1, **options
        )

    @contextmanager
    def session(self, **options: Any) -> Iterator[MeasureSession]:
        with self.open(**options) as session:
            yield session
        self.tidy()

    def tidy(self) -> None:
        """Wait for boards that were climbing their ladder when the session was closed, and remove what they made."""
        deadline = time.monotonic() + 120
        while any(thread.name.startswith("edgetune-board") for thread in threading.enumerate()):
            assert time.monotonic() < deadline, "a thread of a board is left"
            time.sleep(0.05)
        for reach in self.reaches:
            reach.close()

    def signal(self, number: int, what: signal.Signals) -> None:
        os.kill(self.reaches[number]._streams[-1].pid, what)

    def told(self, what: str) -> set[str]:
        return {str(e.data["board"]) for e in self.events if e.kind == "board" and e.data["what"] == what}


@pytest.fixture
def steps() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))
        yield importlib.import_module("measure_steps")


def jobs(steps: ModuleType, count: int) -> list[BuildJob]:
    return [BuildJob(str(n), "k", steps.trace(f"/* {n} */ {steps.GOOD}")) for n in range(count)]


def all_once(measured: list[Measurement], count: int) -> bool:
    return Counter(one.job_id for one in measured) == Counter(str(n) for n in range(count))


@pytest.mark.long
def test_twins_under_the_emulator_count_the_same(steps: ModuleType) -> None:
    shelf = Shelf("qemu-aarch64", 3)
    with shelf.session() as session:
        session.prepare([steps.spec()])
        measured = list(session.measure(jobs(steps, 12)))
        summary = session.summary()
    assert all_once(measured, 12)
    assert {one.status for one in measured} == {"ok"}
    assert len({one.summary.median for one in measured if one.summary}) == 1
    for one in measured:
        assert one.environment["clock"] == "instructions"
        assert one.environment["emulated"] == 1
        assert one.environment["trust"] == "D"
        assert "instructions" in str(one.environment["trust_reason"])
    boards = summary["boards"]
    assert isinstance(boards, dict)
    assert set(boards) == {"board-0", "board-1", "board-2"}
    assert sum(board["candidates"] for board in boards.values()) == 12
    assert str(summary["bottleneck"]).split(":")[0] in {"builders", "boards", "search"}
    assert not shelf.told("drift")


@pytest.mark.long
def test_a_killed_agent_costs_no_record(steps: ModuleType) -> None:
    shelf = Shelf("host", 2)
    measured, killed = [], set()
    with shelf.session() as session:
        session.prepare([steps.spec()])
        for place, one in enumerate(session.measure(jobs(steps, 16))):
            measured.append(one)
            if place in {2, 6, 9}:
                killed.add(one.board)
                shelf.signal(int(one.board[-1]), signal.SIGKILL)
    assert all_once(measured, 16)
    assert {one.status for one in measured} <= FINE
    assert shelf.told("lost")
    assert shelf.told("lost") <= killed
    assert not shelf.told("quarantined")


@pytest.mark.long
def test_a_stopped_agent_is_replaced_while_its_twin_goes_on(steps: ModuleType) -> None:
    shelf = Shelf("host", 2)
    measured = []
    with shelf.session(measuring=MeasuringOptions(deadline_s=3.0)) as session:
        session.prepare([steps.spec()])
        for place, one in enumerate(session.measure(jobs(steps, 8))):
            measured.append(one)
            if place == 1:
                shelf.signal(int(one.board[-1]), signal.SIGSTOP)
    assert all_once(measured, 8)
    assert {one.status for one in measured} <= FINE


@pytest.mark.long
def test_boards_that_are_gone_end_the_session_by_name(steps: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Shelf("host", 2)
    measured = []

    def gone(*_: object) -> None:
        raise BoardLost("the shelf has no power")

    with shelf.session(measuring=MeasuringOptions(recovery_s=4.0)) as session:
        session.prepare([steps.spec()])
        stream = session.measure(jobs(steps, 30))
        measured += [next(stream) for _ in range(3)]
        monkeypatch.setattr(ProcessReach, "start", gone)
        for number, reach in enumerate(shelf.reaches):
            if reach._streams:
                shelf.signal(number, signal.SIGKILL)
        with pytest.raises(BoardLost, match=r"none of the 2 boards is left.*board-0.*board-1"):
            measured += stream
        assert session.stuck
    assert len(measured) >= 3
    assert shelf.told("quarantined") == {"board-0", "board-1"}


@pytest.mark.long
def test_closing_in_the_middle_leaves_no_process_nor_thread(steps: ModuleType) -> None:
    shelf = Shelf("host", 2)
    session = shelf.open()
    try:
        session.prepare([steps.spec()])
        for job in [BuildJob("hang", "k", steps.trace("for (volatile int i = 1; i;) { }")), *jobs(steps, 4)]:
            session.submit(job)
        while not session.poll(1.0):
            pass
        agents = [transport.pid for reach in shelf.reaches for transport in reach._streams]
    finally:
        session.close()
    shelf.tidy()
    deadline = time.monotonic() + 30
    while any(_alive(pid) for pid in agents):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.long
def test_a_canary_runs_between_candidates_and_agrees_between_twins(steps: ModuleType) -> None:
    shelf = Shelf("host", 2)
    with shelf.session() as session:
        session.prepare([steps.spec()])
        measured = list(session.measure(jobs(steps, 4)))
        for lane in session._open_fleet.lanes:
            lane.watch.worked(1000.0)
        measured += session.measure(jobs(steps, 8)[4:])
        canaries = [lane.watch.canaries for lane in session._open_fleet.lanes]
        medians = [lane.watch.trend.median for lane in session._open_fleet.lanes]
    assert all_once(measured, 8)
    assert sum(canaries) >= 1
    assert all(median > 0 for median in medians if median is not None)
    assert not shelf.told("fallback")
