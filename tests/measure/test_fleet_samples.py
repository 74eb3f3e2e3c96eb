"""What becomes of samples: kept, refused, taken once more, graded, or not believed."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path

import pytest

from edgetune.boards.environment import Reading
from edgetune.boards.options import MeasuringOptions
from edgetune.boards.protocol import RunResult
from edgetune.measure.attempt import AttemptResult
from edgetune.measure.trust import Trust
from tests.measure.fleet_run import Run, ids
from tests.measure.scripted import GOOD, Script, ScriptedBoard, work


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
    assert one.taken.trust == Trust("D", "emulated, so its times say nothing about a real core")
    assert run.accounting.boards["a"].refused == Counter()
    assert run.told("noisy") == []


def timed(readings: Sequence[dict[str, Reading]], folder: Path) -> tuple[AttemptResult, int]:
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


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), 1e300])
def test_times_that_are_none_are_a_lost_board(tmp_path: Path, value: float) -> None:
    lie = RunResult("0", "ok", samples_ns=(1000.0,) * 10 + (value,), stopped="narrow")
    run = Run([ScriptedBoard("a", Script(results={"0": lie}))], [work(str(n), tmp_path) for n in range(3)])
    (blamed,) = [one for one in run.finished if one.taken is None]
    assert blamed.work.built.job_id == "0"
    assert "reports that a call took" in blamed.reason
    assert sorted(ids(run)) == ["0", "1", "2"]
    assert run.error is None


def test_an_ok_without_times_is_a_lost_board(tmp_path: Path) -> None:
    run = Run([ScriptedBoard("a", Script(results={"0": RunResult("0", "ok")}))], [work("0", tmp_path)])
    assert [one.taken for one in run.finished] == [None]
    assert run.error is None
