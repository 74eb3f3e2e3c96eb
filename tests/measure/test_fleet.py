"""Several boards on one queue: who takes what, what becomes of a candidate whose board is lost, and how it ends."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgetune.boards.options import MeasuringOptions
from edgetune.errors import BoardBusy, BoardLost, HostUnknown
from edgetune.events import Event
from edgetune.measure import attempt, board_worker, lost_board
from edgetune.measure.accounting import Accounting
from edgetune.measure.fleet import MOST_IDLE_LOSSES, Fleet
from tests.measure.fleet_run import ENDS_S, STEP_S, Run, ids
from tests.measure.scripted import STEPS, Script, ScriptedBoard, work

HANGS_S = 2.0  # after which a board that hangs is lost; one that does not is given that long by a busy machine
HASTY_S = 0.3  # the same where any board may be lost at any time


def impatient(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Have every step of a board last `seconds` at most; taking it is given by `Run`."""
    for module, name in (
        (attempt, "_STEP_S"),
        (attempt, "_PUT_S"),
        (attempt, "PATIENCE_S"),
        (board_worker, "_RELEASE_S"),
    ):
        monkeypatch.setattr(module, name, seconds)


def test_twins_share_the_work(tmp_path: Path) -> None:
    boards = [ScriptedBoard(name, Script(seconds=0.01)) for name in ("a", "b", "c")]
    run = Run(boards, [work(str(n), tmp_path) for n in range(30)])
    assert sorted(ids(run), key=int) == [str(n) for n in range(30)]
    assert run.started == [str(n) for n in range(30)]
    assert all(len(board.ran) > 1 for board in boards)
    assert [board.closed for board in boards] == [1, 1, 1]
    assert {one.board.name for one in run.finished} == {"a", "b", "c"}
    assert sum(account.candidates for account in run.accounting.boards.values()) == 30


class Second(ScriptedBoard):
    """Keeps its first candidate until an event reports another board, by default that it is lost."""

    def __init__(self, name: str, what: str = "lost") -> None:
        super().__init__(name)
        self._what, self._heard = what, threading.Event()

    def hear(self, event: Event) -> None:
        if event.data["what"] == self._what:
            self._heard.set()
            if self._asked is not None:
                super()._ring()

    def _ring(self) -> None:
        if self._heard.is_set():
            super()._ring()


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("how", ["{}", "hang {}"])
def test_a_lost_board_costs_no_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, how: str) -> None:
    fault = how.format(step)
    limit_s = HANGS_S if "hang" in how else STEP_S
    impatient(monkeypatch, limit_s)
    works = [work(str(n), tmp_path) for n in range(8)]
    works[1].request = replace(works[1].request, deadline_s=ENDS_S)  # it may take as long as `a` needs to be lost
    first, second = ScriptedBoard("a", Script(faults=["", fault])), Second("b")
    run = Run([first, second], works, reserve_s=limit_s, on_event=second.hear)
    assert sorted(ids(run)) == [str(n) for n in range(8)]
    assert {one.taken.status for one in run.finished if one.taken} == {"ok"}
    assert Counter(run.started) == Counter(str(n) for n in range(8))
    assert run.told("lost") == ["a"]
    assert run.told("recovered") in ([], ["a"])  # the other board may have been faster than its recovery
    assert run.accounting.boards["a"].lost == 1


def test_a_single_board_goes_on_after_recovery(tmp_path: Path) -> None:
    run = Run([ScriptedBoard("a", Script(faults=["begin", "", "collect"]))], [work(str(n), tmp_path) for n in range(4)])
    assert sorted(ids(run)) == ["0", "1", "2", "3"]
    assert run.told("lost") == run.told("recovered") == ["a", "a"]
    assert run.error is None


def test_a_candidate_that_loses_two_boards_is_blamed(tmp_path: Path) -> None:
    run = Run([ScriptedBoard("a", Script(faults=["collect", "collect"]))], [work(str(n), tmp_path) for n in range(3)])
    (blamed,) = [one for one in run.finished if one.taken is None]
    assert blamed.work.built.job_id == "0"
    assert "lost 2 times" in blamed.reason
    assert sorted(ids(run)) == ["0", "1", "2"]


def test_a_board_that_cannot_be_taken_blames_no_candidate(tmp_path: Path) -> None:
    run = Run([ScriptedBoard("a", Script(faults=["reserve"] * 2))], [work("0", tmp_path)])
    (one,) = run.finished
    assert one.taken is not None
    assert one.work.losses == 0


def test_a_board_that_does_not_come_back_is_quarantined(tmp_path: Path) -> None:
    for recovery in ("lost", "hang"):
        bad = ScriptedBoard("bad", Script(faults=["begin"], recoveries=[recovery]))
        works = [work(str(n), tmp_path) for n in range(6)]
        works[1].request = replace(works[1].request, deadline_s=ENDS_S)
        good = Second("good", "quarantined")
        run = Run([bad, good], works, MeasuringOptions(recovery_s=HASTY_S), on_event=good.hear)
        assert sorted(ids(run)) == [str(n) for n in range(6)]
        assert run.told("lost") == run.told("quarantined") == ["bad"]
        assert run.states["bad"] == "quarantined"
        assert run.accounting.boards["bad"].lost == 1


def test_what_keeps_a_board_away_may_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_board, "WAITS_S", (0.001, 0.001, 0.001))
    board = ScriptedBoard("a", Script(faults=["begin"], recoveries=["lost"] * 3))
    run = Run([board], [work(str(n), tmp_path) for n in range(4)], MeasuringOptions(recovery_s=30.0))
    assert sorted(ids(run)) == ["0", "1", "2", "3"]
    assert run.told("rung") == ["a"] * 3
    assert run.told("recovered") == ["a"]
    board = ScriptedBoard("a", Script(faults=["begin"], recoveries=["lost"] * 4))
    run = Run([board], [work(str(n), tmp_path) for n in range(4)], MeasuringOptions(recovery_s=30.0))
    assert isinstance(run.error, BoardLost)


def test_no_board_left_names_them_after_handing_out_what_was_measured(tmp_path: Path) -> None:
    boards = [ScriptedBoard(name, Script(faults=["", "reserve"], recoveries=["lost"])) for name in ("a", "b")]
    run = Run(boards, [work(str(n), tmp_path) for n in range(9)])
    assert isinstance(run.error, BoardLost)
    assert "a: " in run.error.message
    assert "b: " in run.error.message
    assert len(run.finished) == 2
    assert run.left == 7
    assert run.states == {"a": "quarantined", "b": "quarantined"}
    assert sorted(run.told("quarantined")) == ["a", "b"]


def test_a_board_that_was_never_there_raises_its_own_error(tmp_path: Path) -> None:
    run = Run([ScriptedBoard("a", Script(refuses=HostUnknown("no such host")))], [work("0", tmp_path)])
    assert isinstance(run.error, HostUnknown)
    both = [ScriptedBoard(name, Script(refuses=HostUnknown(f"no host {name}"))) for name in ("a", "b")]
    run = Run(both, [work("0", tmp_path)])
    assert isinstance(run.error, HostUnknown)
    assert "no host a" in run.error.message
    assert "no host b" in run.error.message


def test_remote_boards_are_taken_before_there_is_a_candidate(tmp_path: Path) -> None:
    gone = ScriptedBoard("gone", Script(refuses=HostUnknown("no such host")))
    here = ScriptedBoard("here", Script(faults=["reserve"], behind=gone))  # or it may be done before anybody asks
    run = Run([gone, here], [work("0", tmp_path)], remote=True)
    assert ids(run) == ["0"]
    assert run.accounting.boards["here"].lost == 1
    assert run.accounting.boards["gone"].quarantined == "no such host"


def test_a_busy_board_leaves_the_work_to_its_twin(tmp_path: Path) -> None:
    busy = ScriptedBoard("busy", Script(refuses=BoardBusy("somebody has it")))
    run = Run([busy, ScriptedBoard("free")], [work(str(n), tmp_path) for n in range(5)])
    assert sorted(ids(run)) == ["0", "1", "2", "3", "4"]
    assert run.told("quarantined") == ["busy"]
    assert run.accounting.boards["busy"].quarantined == "somebody has it"


def test_a_board_that_is_lost_idle_again_and_again_is_given_up(tmp_path: Path) -> None:
    run = Run([ScriptedBoard("a", Script(faults=["reserve"] * 100))], [work("0", tmp_path)])
    assert isinstance(run.error, BoardLost)
    assert run.accounting.boards["a"].lost == MOST_IDLE_LOSSES


def test_candidates_compared_side_by_side_stay_on_one_board(tmp_path: Path) -> None:
    boards = [ScriptedBoard(name, Script(seconds=0.005)) for name in ("a", "b")]
    run = Run(boards, [work(str(n), tmp_path, again=True) for n in range(12)])
    assert len({one.board.name for one in run.finished}) == 1
    boards = [ScriptedBoard("a", Script(faults=["begin"], recoveries=["lost"])), ScriptedBoard("b")]
    run = Run(boards, [work(str(n), tmp_path, again=True) for n in range(12)])
    assert len(run.finished) == 12
    assert run.error is None


def test_a_candidate_compared_goes_to_another_board_when_its_own_took_up_the_rest(tmp_path: Path) -> None:
    first, elsewhere, second = work("1", tmp_path, again=True), work("x", tmp_path), work("2", tmp_path, again=True)
    elsewhere.built = replace(elsewhere.built, kernel_key="other")
    elsewhere.request = replace(elsewhere.request, deadline_s=30.0)
    boards = [ScriptedBoard("a", Script(faults=["begin"])), ScriptedBoard("b", Script(seconds=0.5))]
    run = Run(boards, [first, elsewhere, second])
    assert sorted(ids(run)) == ["1", "2", "x"]
    assert {one.taken.status for one in run.finished if one.taken} == {"ok"}


@pytest.mark.parametrize(("speed", "flagged"), [(1.3, ["other"]), (1.0, [])])
def test_a_board_of_another_speed_is_flagged(tmp_path: Path, speed: float, flagged: list[str]) -> None:
    boards = [ScriptedBoard("a", Script(seconds=0.005)), ScriptedBoard("other", Script(seconds=0.005, speed=speed))]
    works = [work(f"{n}-{kernel}", tmp_path, kernel=kernel) for n in range(40) for kernel in "xy"]
    for one in works:
        one.built = type(one.built)(**{**vars(one.built), "candidate_id": one.built.job_id.split("-")[0]})
    run = Run(boards, works)
    where = {(one.work.built.candidate_id, one.board.name) for one in run.finished}
    shared = Counter(candidate for candidate, _ in where)
    assert sum(count == len(boards) for count in shared.values()) >= 3, "too few are timed on both to compare them"
    assert run.told("drift") == flagged


ODD = [ValueError("embedded null byte"), OverflowError("too large"), KeyError("governor"), UnicodeError("bytes")]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
@pytest.mark.parametrize("step", STEPS)
def test_an_answer_that_makes_no_sense_is_a_lost_board(tmp_path: Path, step: str, odd: Exception) -> None:
    run = Run([ScriptedBoard("a", Script(faults=[step], odd=deque([odd])))], [work(str(n), tmp_path) for n in range(3)])
    assert sorted(ids(run)) == ["0", "1", "2"]
    assert {one.taken.status for one in run.finished if one.taken} == {"ok"}
    assert run.error is None
    (said,) = [str(event.data["detail"]) for event in run.events if event.data["what"] == "lost"]
    assert "is not valid" in said
    assert type(odd).__name__ in said


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_a_recovery_that_makes_no_sense_gives_up_the_board_alone(tmp_path: Path, odd: Exception) -> None:
    bad = ScriptedBoard("bad", Script(faults=["begin"], recoveries=["lost"] * 9, odd=deque([BoardLost("gone"), odd])))
    run = Run([bad, ScriptedBoard("good", Script(seconds=0.05))], [work(str(n), tmp_path) for n in range(6)])
    assert sorted(ids(run)) == [str(n) for n in range(6)]
    assert run.error is None


def test_what_breaks_is_raised_after_what_is_through(tmp_path: Path) -> None:
    fleet = Fleet(
        [ScriptedBoard("a"), ScriptedBoard("b", Script(faults=["begin"], odd=deque([TypeError("our own")])))],
        MeasuringOptions(),
        Accounting(),
        canary=lambda: None,
        on_start=lambda _: None,
        on_event=lambda _: None,
        reserve_s=30.0,
    )
    try:
        for name in ("0", "1"):
            fleet.offer(work(name, tmp_path))
        assert fleet.advance() == []
        deadline = time.monotonic() + ENDS_S
        while len(fleet._news._items) < 2:
            assert time.monotonic() < deadline, "the boards hang"
            time.sleep(0.001)
        (one,) = fleet.advance()
        assert one.work.built.job_id == "0"
        assert fleet.advance(hold=True) == []
        with pytest.raises(TypeError, match="our own"):
            fleet.advance()
    finally:
        fleet.close()


class Tidying(ScriptedBoard):
    """Takes its time to clean up; a second `close` returns at once."""

    def __init__(self, name: str, gate: threading.Event) -> None:
        super().__init__(name)
        self.gate, self.clean = gate, False

    def close(self) -> None:
        super().close()
        if self.closed == 1:
            self.gate.wait()
            self.clean = True


def test_a_board_that_cleans_up_for_long_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_worker, "_LEAVE_S", 0.1)
    monkeypatch.setattr(board_worker, "_CLOSE_S", ENDS_S)
    gate = threading.Event()
    board = Tidying("a", gate)
    timer = threading.Timer(0.5, gate.set)
    timer.start()
    Run([board], [work("0", tmp_path)])
    assert board.clean
    timer.join()


FAULTS = st.sampled_from(["", "", "", *STEPS, *(f"hang {step}" for step in STEPS)])
SCRIPTS = st.tuples(st.lists(FAULTS, max_size=6), st.lists(st.sampled_from(["", "", "lost", "hang"]), max_size=3))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(scripts=st.lists(SCRIPTS, min_size=1, max_size=4), count=st.integers(1, 10))
def test_whatever_boards_do_nothing_is_lost_nor_doubled_and_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scripts: list[tuple[list[str], list[str]]], count: int
) -> None:
    impatient(monkeypatch, HASTY_S)
    boards = [ScriptedBoard(f"b{n}", Script(faults, recoveries)) for n, (faults, recoveries) in enumerate(scripts)]
    run = Run(
        boards, [work(str(n), tmp_path) for n in range(count)], MeasuringOptions(recovery_s=0.1), reserve_s=HASTY_S
    )
    assert len(set(ids(run))) == len(run.finished)
    assert len(set(run.started)) == len(run.started)
    assert set(ids(run)) <= set(run.started)
    assert len(run.finished) + run.left == count
    assert (run.error is None) == (run.left == 0 and len(run.finished) == count)
    for one in run.finished:
        assert (one.taken is None) == (one.work.losses >= 2)
    if run.error is not None:
        assert set(run.states.values()) == {"quarantined"}
    assert all(board.closed for board in boards)
    deadline = time.monotonic() + ENDS_S
    while any(thread.name.startswith("edgetune-b") for thread in threading.enumerate()):
        assert time.monotonic() < deadline, "a thread of a board is left"
        time.sleep(0.01)
