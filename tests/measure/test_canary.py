"""The canary on real boards: it is compiled, its result is right, and it costs next to nothing."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from edgetune.backends.c_linux import BACKEND
from edgetune.boards.cores import split_cores
from edgetune.boards.environment import Reading
from edgetune.boards.host_resources import HostResources
from edgetune.boards.local.board import LocalBoard
from edgetune.boards.options import MeasuringOptions
from edgetune.errors import BoardLost
from edgetune.ipc.queue import SelectableQueue
from edgetune.measure.attempt import Attempt
from edgetune.measure.canary import Canary, CanaryMaker
from edgetune.measure.compiler import toolchain_of
from edgetune.measure.health_monitor import COST_SHARE, BoardWatch
from edgetune.target.target import load_target
from tests.measure.scripted import GOOD, Script, ScriptedBoard

NEVER: SelectableQueue[str] = SelectableQueue()


def made(folder: Path, name: str = "host") -> Canary:
    maker = CanaryMaker(BACKEND, toolchain_of(load_target(name)), folder)
    maker._thread.join()
    canary = maker.get()
    maker.close()
    assert canary is not None
    return canary


def watch_of(
    board: LocalBoard | ScriptedBoard, canary: Canary | None, cooling_s: float = 0.0
) -> tuple[BoardWatch, list[tuple[str, str]]]:
    told: list[tuple[str, str]] = []
    watch = BoardWatch(
        board,
        lambda: canary,
        lambda what, detail: told.append((what, detail)),
        ceiling_c=80.0,
        cooling_s=cooling_s,
        closing=threading.Event(),
    )
    return watch, told


def turn_on(board: LocalBoard | ScriptedBoard) -> Attempt:
    return Attempt(board, MeasuringOptions(), lambda _step, _seconds: None, NEVER.fileno())


def nothing(_step: str, _seconds: float) -> None:
    pass


def test_it_runs_on_this_machine_and_gives_the_right_result(tmp_path: Path) -> None:
    board = LocalBoard(load_target("host"), HostResources(tmp_path, split_cores(), tmp_path / "lock"))
    watch, told = watch_of(board, made(tmp_path))
    try:
        watch.look(turn_on(board), nothing)
        assert watch.canaries == 0  # nothing was measured yet: it would cost too much
        for _ in range(3):
            watch.worked(1.0 + watch.canary_s / COST_SHARE)
            watch.look(turn_on(board), nothing)
        assert watch.canaries == 3
        assert told == []
        assert watch.state == "unknown"
        assert watch.trend.median is not None
    finally:
        board.close()


@pytest.mark.parametrize("name", ["rpi4", "generic-armv7"])
def test_it_compiles_for_other_boards(tmp_path: Path, name: str) -> None:
    assert made(tmp_path, name).library.is_file()


def test_no_compiler_is_told_and_does_no_harm(tmp_path: Path) -> None:
    told: list[str] = []
    toolchain = toolchain_of(load_target("host"))
    wrong = type(toolchain)(**{**vars(toolchain), "kernel_flags": ("-nonsense",)})
    maker = CanaryMaker(BACKEND, wrong, tmp_path, None, told.append)
    maker._thread.join()
    maker.close()
    assert maker.get() is None
    assert "drift cannot be detected" in told[0]


def test_it_takes_at_most_two_per_cent_of_the_boards_time(tmp_path: Path) -> None:
    board = ScriptedBoard("a", Script(seconds=0.001))
    watch, _ = watch_of(board, made(tmp_path))
    busy = 0.0
    for _ in range(3000):
        watch.look(turn_on(board), nothing)
        watch.worked(0.01)
        busy += 0.01
    assert 0 < watch.canaries <= 3000 / 20 + 5
    # The last one may have been dearer than those before it told.
    assert watch.canary_s <= COST_SHARE * busy + 1.0


def test_instructions_need_no_canary(tmp_path: Path) -> None:
    board = ScriptedBoard("a", Script(facts={"emulated": 1, "clock": "instructions"}))
    watch, _ = watch_of(board, made(tmp_path))
    watch.worked(1000.0)
    watch.look(turn_on(board), nothing)
    assert watch.canaries == 0
    assert watch.state == "steady"


def test_a_canary_that_fails_is_given_up_and_told(tmp_path: Path) -> None:
    from edgetune.boards.protocol import RunResult

    board = ScriptedBoard("a", Script(results={"canary": RunResult("canary", "crashed", "killed by SIGILL")}))
    watch, told = watch_of(board, made(tmp_path))
    for _ in range(3):
        watch.worked(1000.0)
        watch.look(turn_on(board), nothing)
    assert watch.canaries == 1
    ((what, detail),) = told
    assert what == "fallback"
    assert "SIGILL" in detail


def test_drift_is_told(tmp_path: Path) -> None:
    board = ScriptedBoard("a")
    watch, told = watch_of(board, made(tmp_path))
    for speed in [1.0] * 8 + [1.4] * 4:
        board.script.speed = speed
        watch.worked(1000.0)
        for _ in range(20):
            watch.worked(0.0)
        watch.look(turn_on(board), nothing)
    assert watch.state == "drifted"
    assert [what for what, _ in told] == ["drift"]


def hot(degrees: float) -> dict[str, Reading]:
    return {**GOOD, "temperature_c": degrees}


def test_a_hot_board_is_given_time_to_cool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgetune.measure.health_monitor._COOL_TICK_S", 0.001)
    script = Script()
    script.readings.extend([hot(85), hot(81), hot(78), hot(74)])
    board = ScriptedBoard("a", script)
    watch, told = watch_of(board, None, cooling_s=60.0)
    watch.look(turn_on(board), nothing)
    assert len(script.readings) == 0
    assert "at 85 C it waits to cool" in told[0][1]
    assert watch.cooling_total_s > 0


def test_a_board_that_does_not_cool_is_not_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgetune.measure.health_monitor._COOL_TICK_S", 0.001)
    script = Script()
    script.readings.extend([hot(85)] * 10000)
    board = ScriptedBoard("a", script)
    watch, told = watch_of(board, None, cooling_s=0.05)
    started = time.monotonic()
    for _ in range(50):
        watch.look(turn_on(board), nothing)
    assert len(told) == 2
    assert "still at 85 C" in told[1][1]
    assert time.monotonic() - started < 30


def test_a_board_lost_by_its_canary_says_so(tmp_path: Path) -> None:
    board = ScriptedBoard("a", Script(faults=["collect"]))
    watch, _ = watch_of(board, made(tmp_path))
    board.reserve()
    watch.worked(1000.0)
    with pytest.raises(BoardLost):
        watch.look(turn_on(board), nothing)
