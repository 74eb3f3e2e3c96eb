"""Rooms: of what fits the RAM and flash that are stated, the fastest kernels are chosen."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from edgetune.errors import MemoryLimitExceeded
from edgetune.pipeline.room import Room
from edgetune.schedule.algorithms.schedule_text import DIRECT, DOTS, FORMS, WIDE
from tests.distribution_sample import edgetune

TINY = Path(__file__).parents[3] / "shared" / "models" / "mlperf_tiny"
BOARD = "mps2-an386"


def _error(memory: str, excess: int) -> MemoryLimitExceeded:
    return MemoryLimitExceeded("too large", (memory, excess))  # type: ignore[arg-type]


def test_gaps_between_tensors_make_the_arena_smaller_a_few_times() -> None:
    room: Room | None = Room(frozenset(FORMS), 1000)
    arenas = []
    for tried in range(10):
        assert room is not None
        room = room.smaller(_error("ram", 100), tried)
        if room is None:
            break
        arenas.append(room.arena)
    assert arenas == [900, 800, 700]


def test_a_limit_of_the_board_alone_changes_no_choice() -> None:
    assert Room(frozenset(FORMS)).smaller(_error("ram", 1), 0) is None
    assert Room(frozenset(FORMS), 10).smaller(_error("ram", 10), 0) is None
    assert Room(frozenset(FORMS), 10).smaller(MemoryLimitExceeded("found by the linker"), 0) is None


def test_forms_with_large_weights_are_left_out_first() -> None:
    room: Room | None = Room(frozenset(FORMS))
    left = []
    while room is not None:
        room = room.smaller(_error("flash", 1), 0)
        if room is not None:
            left.append(room.forms)
    first, *_, last = left
    assert not first & {*WIDE, "lanes_4_int16"}
    assert first >= {*DOTS, "lanes_4_int8"}
    assert last == {DIRECT}
    assert all(more > less for more, less in pairwise(left))


def _built(folder: Path, *words: str) -> tuple[int, str]:
    done = edgetune(
        ["build", str(TINY / "resnet8_int8.tflite"), "--board", BOARD, "-o", "out", *words], cwd=folder, timeout_s=600
    )
    return done.returncode, done.stderr


def _arena(folder: Path) -> int:
    found: int = json.loads((folder / "out" / "MANIFEST.json").read_text())["memory"]["arena_bytes"]
    return found


@pytest.mark.long
def test_kernels_are_chosen_for_the_ram_that_is_stated(tmp_path: Path) -> None:
    """Its tensors take 32,768 bytes; the copies of rows that are usual take some 3,500 more."""
    code, told = _built(tmp_path)
    usual = _arena(tmp_path)
    assert code == 0, told
    assert 34_000 < usual < 40_000
    code, told = _built(tmp_path, "--ram", "34000")
    assert code == 0, told
    assert _arena(tmp_path) <= 34_000
    assert "not their usual choice: the workspace may take 34,000 bytes (flag --ram)" in told
    code, told = _built(tmp_path, "--ram", "30KiB")
    assert code == MemoryLimitExceeded.exit_code
    assert "needs an arena of 32768 bytes, and the limit is 30720 bytes, 2048 too few; the largest tensors are" in told
    assert _arena(tmp_path) <= 34_000


@pytest.mark.long
def test_kernels_are_chosen_for_the_flash_that_is_stated(tmp_path: Path) -> None:
    words = ["build", str(TINY / "vww_int8.tflite"), "--board", BOARD, "-o", "out"]
    sizes = []
    for more in ([], ["--flash", "92000"]):
        done = edgetune([*words, *more], cwd=tmp_path, timeout_s=600)
        assert done.returncode == 0, done.stderr
        memory = json.loads((tmp_path / "out" / "MANIFEST.json").read_text())["memory"]
        sizes.append(memory["weights_bytes"] + memory["code_bytes"])
    assert sizes[1] <= 92_000 < sizes[0]
    assert "kernels use forms with smaller weights, which are slower" in done.stderr


def test_a_size_that_is_none_is_refused(tmp_path: Path) -> None:
    done = edgetune(["build", "m.onnx", "--board", BOARD, "--ram", "much"], cwd=tmp_path)
    assert done.returncode == 2
    assert "must be a size such as 64KiB" in done.stderr
