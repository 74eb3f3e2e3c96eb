"""Several boards on one queue: who takes what, what becomes of a candidate whose board is lost, and how it ends."""

from __future__ import annotations

import select
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgetune.errors import BoardBusy, BoardLost, BoardUnavailable, HostUnknown
from edgetune.events import Event
from edgetune.measure import lane, turn
from edgetune.measure.accounting import Accounting
from edgetune.measure.environment import Reading
from edgetune.measure.fleet import MOST_IDLE_LOSSES, Finished, Fleet
from edgetune.measure.jobs import RunResult
from edgetune.measure.options import MeasuringOptions
from edgetune.measure.sampling import TimingPolicy
from edgetune.measure.trust import Trust
from edgetune.measure.turn import Taken, Work
from tests.measure.scripted import GOOD, STEPS, Script, ScriptedBoard, work

ENDS_S = 60.0  # nothing here takes a second; a test that is still at it after this hangs


class Run:
    """A fleet of scripted boards at work on candidates, to its end."""

    def __init__(
        self,
        boards: Sequence[ScriptedBoard],
        works: Sequence[Work],
        options: MeasuringOptions | None = None,
        *,
        remote: bool = False,
    ) -> None:
        self.events: list[Event] = []
        self.started: list[str] = []
        self.finished: list[Finished] = []
        self.error: BoardUnavailable | None = None
        self.accounting = Accounting()
        self._lock = threading.Lock()
        fleet = Fleet(
            boards,
            TimingPolicy(),
            options or MeasuringOptions(recovery_s=0.2),
            self.accounting,
            canary=lambda: None,
            on_start=lambda one: self.started.append(one.built.job_id),
            on_event=self._take,
            reserve_s=0.3,
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


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "_STEP_S", 0.3)
    monkeypatch.setattr(turn, "_PUT_S", 0.3)
    monkeypatch.setattr(turn, "PATIENCE_S", 0.1)
    monkeypatch.setattr(lane, "_RELEASE_S", 0.3)


def ids(run: Run) -> list[str]:
    return [one.work.built.job_id for one in run.finished]


def test_twins_share_the_work(tmp_path: Path) -> None:
    boards = [ScriptedBoard(name, Script(seconds=0.01)) for name in ("a", "b", "c")]
    run = Run(boards, [work(str(n), tmp_path) for n in range(30)])
    assert sorted(ids(run), key=int) == [str(n) for n in range(30)]
    assert run.started == [str(n) for n in range(30)]
    assert all(len(board.ran) > 1 for board in boards)
    assert [board.closed for board in boards] == [1, 1, 1]
    assert {one.board.name for one in run.finished} == {"a", "b", "c"}
    assert sum(account.candidates for account in run.accounting.boards.values()) == 30


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("how", ["{}", "hang {}"])
def test_a_lost_board_costs_no_candidate(tmp_path: Path, step: str, how: str) -> None:
    fault = how.format(step)
    run = Run(
        [ScriptedBoard("a", Script(faults=["", fault])), ScriptedBoard("b")], [work(str(n), tmp_path) for n in range(8)]
    )
    assert sorted(ids(run)) == [str(n) for n in range(8)]
    assert {one.taken.status for one in run.finished if one.taken} == {"ok"}
    assert Counter(run.started) == Counter(str(n) for n in range(8))
    # The other board may have been faster than the second turn of this one, or than its recovery.
    assert run.told("lost") in ([], ["a"])
    assert run.told("recovered") in ([], run.told("lost"))
    assert run.accounting.boards["a"].lost == len(run.told("lost"))


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
        run = Run([bad, ScriptedBoard("good", Script(seconds=0.05))], [work(str(n), tmp_path) for n in range(6)])
        assert sorted(ids(run)) == [str(n) for n in range(6)]
        assert "bad" in run.told("lost")
        assert run.accounting.boards["bad"].lost == 1


def test_what_keeps_a_board_away_may_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "_WAITS_S", (0.001, 0.001, 0.001))
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
    run = Run([gone, ScriptedBoard("here", Script(faults=["reserve"]))], [work("0", tmp_path)], remote=True)
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


def test_a_board_of_another_speed_is_flagged(tmp_path: Path) -> None:
    boards = [ScriptedBoard("a"), ScriptedBoard("slow", Script(speed=1.3))]
    works = [work(f"{n}-{kernel}", tmp_path, kernel=kernel) for n in range(40) for kernel in "xy"]
    for one in works:
        one.built = type(one.built)(**{**vars(one.built), "candidate_id": one.built.job_id.split("-")[0]})
    run = Run(boards, works)
    both = set(boards[0].ran) & set(boards[1].ran)
    if len(both) >= 6:
        assert run.told("drift") == ["slow"]


def test_samples_below_the_asked_trust_are_refused_with_the_reason(tmp_path: Path) -> None:
    ondemand = {**GOOD, "governor": "ondemand"}
    script = Script()
    script.readings.extend([ondemand] * 100)
    run = Run([ScriptedBoard("a", script)], [work("0", tmp_path)], MeasuringOptions(min_trust="B"))
    (one,) = run.finished
    assert one.taken is not None
    assert one.taken.status == "refused_noisy"
    assert one.taken.reason == "trust C is below B: the governor is ondemand, not performance"
    assert run.accounting.boards["a"].refused == Counter(trust=1)
    assert run.told("noisy") == ["a"]


def test_noise_is_timed_once_more_and_counted(tmp_path: Path) -> None:
    noisy = RunResult("0", "ok", samples_ns=tuple(1000.0 * (1 + n % 5) for n in range(20)), stopped="budget")
    board = ScriptedBoard("a", Script(results={"0": noisy}))
    run = Run([board], [work("0", tmp_path)])
    (one,) = run.finished
    assert board.ran == ["0", "0"]
    assert one.taken is not None
    assert (one.taken.status, one.taken.attempts, len(one.taken.samples)) == ("refused_noisy", 2, 40)
    assert one.taken.trust is not None
    assert one.taken.trust.grade == "D"
    assert run.accounting.boards["a"].refused == Counter(noisy=1)


def test_noise_under_an_emulator_is_no_reason_to_refuse(tmp_path: Path) -> None:
    noisy = RunResult("0", "ok", samples_ns=tuple(1000.0 * (1 + n % 5) for n in range(20)), stopped="budget")
    emulated: dict[str, Reading] = {"emulated": 1, "clock": "time"}
    board = ScriptedBoard("a", Script(results={"0": noisy}, facts=emulated))
    run = Run([board], [work("0", tmp_path)])
    (one,) = run.finished
    assert one.taken is not None
    assert (one.taken.status, one.taken.refusal, one.taken.reason) == ("ok", "", "")
    assert one.taken.trust == Trust("D", "emulated: its times say nothing of a real core")
    assert run.accounting.boards["a"].refused == Counter()
    assert run.told("noisy") == []


def timed(readings: Sequence[dict[str, Reading]], folder: Path) -> tuple[Taken, int]:
    """Time a candidate that is noisy in its first attempt alone, on a board with these readings."""
    first, second = (tuple(1000.0 * (1 + n % 5 * size) for n in range(20)) for size in (1, 0))
    results = {"0": RunResult("0", "ok", samples_ns=first, stopped="budget")}
    board = ScriptedBoard("a", Script(results=results, readings=deque(readings)))
    collect = board.collect

    def changing(timeout_s: float = 0.0) -> RunResult | None:
        ran = collect(timeout_s)
        if ran is not None:
            results["0"] = RunResult("0", "ok", samples_ns=second, stopped="budget")
        return ran

    board.collect = changing  # type: ignore[method-assign]
    (one,) = Run([board], [work("0", folder)]).finished
    assert one.taken is not None
    return one.taken, len(board.ran)


def test_samples_of_a_throttled_attempt_are_not_kept(tmp_path: Path) -> None:
    cool, capped = {**GOOD, "throttle_count": 1}, {**GOOD, "throttle_count": 2}
    taken, ran = timed([cool, capped, capped], tmp_path)
    assert ran == 2
    assert (taken.status, taken.samples) == ("ok", (1000.0,) * 20)
    taken, _ = timed([cool, cool, capped], tmp_path)
    assert (taken.status, taken.refusal, len(taken.samples)) == ("refused_noisy", "throttled", 40)


def test_pooled_samples_are_graded_by_the_worst_of_their_attempts(tmp_path: Path) -> None:
    moved = {**GOOD, "clock_khz": 600_000}
    for readings in ([moved, GOOD, GOOD], [GOOD, moved, GOOD], [GOOD, GOOD, moved]):
        taken, ran = timed(readings, tmp_path)
        assert ran == 2
        assert len(taken.samples) == 40
        assert taken.trust is not None
        assert "the clock went" in taken.trust.reason


ODD = [ValueError("embedded null byte"), OverflowError("too large"), KeyError("governor"), UnicodeError("bytes")]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
@pytest.mark.parametrize("step", STEPS)
def test_an_answer_that_makes_no_sense_is_a_lost_board(tmp_path: Path, step: str, odd: Exception) -> None:
    run = Run([ScriptedBoard("a", Script(faults=[step], odd=deque([odd])))], [work(str(n), tmp_path) for n in range(3)])
    assert sorted(ids(run)) == ["0", "1", "2"]
    assert {one.taken.status for one in run.finished if one.taken} == {"ok"}
    assert run.error is None
    (said,) = [str(event.data["detail"]) for event in run.events if event.data["what"] == "lost"]
    assert "makes no sense" in said
    assert type(odd).__name__ in said


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_a_recovery_that_makes_no_sense_gives_up_the_board_alone(tmp_path: Path, odd: Exception) -> None:
    bad = ScriptedBoard("bad", Script(faults=["begin"], recoveries=["lost"] * 9, odd=deque([BoardLost("gone"), odd])))
    run = Run([bad, ScriptedBoard("good", Script(seconds=0.05))], [work(str(n), tmp_path) for n in range(6)])
    assert sorted(ids(run)) == [str(n) for n in range(6)]
    assert run.error is None


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), 1e300])
def test_times_that_are_none_are_a_lost_board(tmp_path: Path, value: float) -> None:
    lie = RunResult("0", "ok", samples_ns=(1000.0,) * 10 + (value,), stopped="narrow")
    run = Run([ScriptedBoard("a", Script(results={"0": lie}))], [work(str(n), tmp_path) for n in range(3)])
    (blamed,) = [one for one in run.finished if one.taken is None]
    assert blamed.work.built.job_id == "0"
    assert "says that a call took" in blamed.reason
    assert sorted(ids(run)) == ["0", "1", "2"]
    assert run.error is None


def test_an_ok_without_times_is_a_lost_board(tmp_path: Path) -> None:
    run = Run([ScriptedBoard("a", Script(results={"0": RunResult("0", "ok")}))], [work("0", tmp_path)])
    assert [one.taken for one in run.finished] == [None]
    assert run.error is None


def test_what_breaks_is_raised_after_what_is_through(tmp_path: Path) -> None:
    fleet = Fleet(
        [ScriptedBoard("a"), ScriptedBoard("b", Script(faults=["begin"], odd=deque([TypeError("our own")])))],
        TimingPolicy(),
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
    monkeypatch.setattr(lane, "_LEAVE_S", 0.1)
    monkeypatch.setattr(lane, "_CLOSE_S", ENDS_S)
    gate = threading.Event()
    board = Tidying("a", gate)
    timer = threading.Timer(0.5, gate.set)
    timer.start()
    Run([board], [work("0", tmp_path)])
    assert board.clean
    timer.join()


FAULTS = st.sampled_from(["", "", "", *STEPS, *(f"hang {step}" for step in STEPS)])
SCRIPTS = st.tuples(st.lists(FAULTS, max_size=6), st.lists(st.sampled_from(["", "", "lost", "hang"]), max_size=3))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(scripts=st.lists(SCRIPTS, min_size=1, max_size=4), count=st.integers(1, 10))
def test_whatever_boards_do_nothing_is_lost_nor_doubled_and_it_ends(
    tmp_path: Path, scripts: list[tuple[list[str], list[str]]], count: int
) -> None:
    boards = [ScriptedBoard(f"b{n}", Script(faults, recoveries)) for n, (faults, recoveries) in enumerate(scripts)]
    run = Run(boards, [work(str(n), tmp_path) for n in range(count)], MeasuringOptions(recovery_s=0.1))
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
