"""The limits of a core: a session measures them once, keeps them in its records, and is not harmed where it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from edgetune.backends.c_linux import BACKEND
from edgetune.boards.cores import split_cores
from edgetune.boards.environment import Reading
from edgetune.boards.host_resources import HostResources
from edgetune.boards.local.board import LocalBoard
from edgetune.boards.protocol import RunResult
from edgetune.errors import BoardLost
from edgetune.measure.canary import Canary, CanaryMaker
from edgetune.measure.compiler import toolchain_of
from edgetune.measure.peaks import NAME, Peaks
from edgetune.target.target import load_target
from tests.measure.scripted import Script, ScriptedBoard
from tests.measure.test_canary import nothing, turn_on, watch_of

GIVEN = {"peak_gflops": 80.0, "l1_gb_per_s": 160.0, "l2_gb_per_s": 90.0, "dram_gb_per_s": 12.5}


def made(folder: Path, name: str = "host", vector_bits: int | None = None) -> tuple[Canary | None, list[str]]:
    target, told = load_target(name), list[str]()
    if vector_bits is not None:
        target = target.model_copy(update={"vector_bits": vector_bits})
    maker = CanaryMaker(BACKEND, toolchain_of(target), folder, None, told.append, target)
    maker._thread.join()
    maker.close()
    return maker.get(), told


@pytest.mark.parametrize("vector_bits", [None, 0])
def test_they_are_measured_on_this_machine_once(tmp_path: Path, vector_bits: int | None) -> None:
    board = LocalBoard(load_target("host"), HostResources(tmp_path, split_cores(), tmp_path / "lock"))
    canary, failed = made(tmp_path, vector_bits=vector_bits)
    watch, told = watch_of(board, canary)
    try:
        watch.look(turn_on(board), nothing)
        peaks = Peaks.of_environment(watch.peaks)
        watch.look(turn_on(board), nothing)
        assert Peaks.of_environment(watch.peaks) == peaks
    finally:
        board.close()
    assert not failed
    assert not told
    assert peaks is not None
    assert peaks.flops > 1e8
    assert all(rate > 1e8 for rate in peaks.bandwidth.values())
    # Element by element, loads are slower than any memory: then either may be ahead.
    assert not vector_bits or peaks.bandwidth["L1"] > peaks.bandwidth["DRAM"]


@pytest.mark.parametrize("vector_bits", [None, 0])
@pytest.mark.parametrize("name", ["rpi4", "generic-armv7"])
def test_they_compile_for_other_boards(tmp_path: Path, name: str, vector_bits: int | None) -> None:
    canary, failed = made(tmp_path, name, vector_bits)
    assert canary is not None
    assert canary.peaks is not None
    assert not failed


def test_they_are_not_compiled_for_an_emulator(tmp_path: Path) -> None:
    canary, failed = made(tmp_path, "qemu-rpi4")
    assert canary is not None
    assert canary.peaks is None
    assert not failed


@pytest.mark.parametrize("facts", [{"emulated": 1, "clock": "time"}, {"emulated": 0, "clock": "instructions"}])
def test_an_emulator_and_a_count_of_instructions_have_none(tmp_path: Path, facts: Mapping[str, Reading]) -> None:
    board = ScriptedBoard("a", Script(facts=facts))
    watch, told = watch_of(board, made(tmp_path)[0])
    watch.look(turn_on(board), nothing)
    assert not watch.peaks
    assert not told
    assert NAME not in board.ran


def test_loops_that_fail_are_told_once_and_do_no_harm(tmp_path: Path) -> None:
    board = ScriptedBoard("a", Script(results={NAME: RunResult(NAME, "crashed", "killed by SIGKILL")}))
    watch, told = watch_of(board, made(tmp_path)[0])
    for _ in range(3):
        watch.look(turn_on(board), nothing)
    assert not watch.peaks
    assert board.ran.count(NAME) == 1
    assert [what for what, _ in told] == ["fallback"]
    assert "no kernel gets a roofline" in told[0][1]


def test_a_board_that_is_lost_meanwhile_is_not_asked_again(tmp_path: Path) -> None:
    board = ScriptedBoard("a", Script(faults=["collect"]))
    watch, _ = watch_of(board, made(tmp_path)[0])
    board.reserve()
    with pytest.raises(BoardLost):
        watch.look(turn_on(board), nothing)
    watch.look(turn_on(board), nothing)
    assert not watch.peaks


def test_an_environment_keeps_them_and_refuses_what_cannot_be_a_limit() -> None:
    peaks = Peaks.of_environment(GIVEN)
    assert peaks is not None
    assert peaks == Peaks(8e10, {"L1": 1.6e11, "L2": 9e10, "DRAM": 1.25e10})
    assert peaks.to_environment() == GIVEN
    for wrong in (0, -1.0, float("inf"), float("nan"), "fast", None):
        assert Peaks.of_environment({**GIVEN, "l2_gb_per_s": wrong}) is None
    assert Peaks.of_environment({}) is None


def test_the_smallest_level_that_holds_all_tensors_counts() -> None:
    target = load_target("host")
    peaks = Peaks(1.0, {"L1": 3.0, "L2": 2.0, "DRAM": 1.0})
    assert peaks.level(target.l1_bytes, target) == "L1"
    assert peaks.level(target.l1_bytes + 1, target) == "L2"
    assert peaks.level(target.l2_bytes + 1, target) == "DRAM"
