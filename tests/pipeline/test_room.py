"""Rooms: of what fits the RAM and flash that are stated, the fastest kernels are chosen."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.errors import MemoryLimitExceeded
from edgetune.graph.memory.plan import scratch_limits
from edgetune.pipeline.room import Room, fitting
from edgetune.schedule.algorithms.schedule_text import DIRECT, DOTS, FORMS, WIDE
from tests.distribution_sample import edgetune
from tests.graph.test_memory_plan import program_of

TINY = Path(__file__).parents[3] / "shared" / "models" / "mlperf_tiny"
BOARD = "mps2-an386"


def _error(memory: str, excess: int) -> MemoryLimitExceeded:
    return MemoryLimitExceeded("too large", (memory, excess))  # type: ignore[arg-type]


def _rooms(first: Room, error: MemoryLimitExceeded, ram: int | None) -> list[Room]:
    """All rooms that are tried where none is enough."""
    tried: list[Room] = []

    def attempt(room: Room) -> None:
        tried.append(room)
        raise error

    with pytest.raises(MemoryLimitExceeded):
        fitting(first, ram, attempt)
    return tried


def test_gaps_between_tensors_make_the_arena_smaller_until_nothing_has_scratch() -> None:
    found = _rooms(Room(frozenset(FORMS), 10_000), _error("ram", 100), 10_000)
    assert [room.arena for room in found[:8]] == [10_000, 9_900, 9_700, 9_300, 8_500, 6_900, 3_700, 0]
    assert found[-1].forms == {DIRECT}


def test_the_limit_of_a_board_is_tried_where_the_usual_scratch_is_too_much() -> None:
    found = _rooms(Room(frozenset(FORMS)), _error("ram", 100), 5_000)
    assert [room.arena for room in found[:3]] == [None, 5_000, 4_900]
    assert _rooms(Room(frozenset(FORMS)), _error("ram", 100), None) == [Room(frozenset(FORMS))]


def test_forms_with_large_weights_are_left_out_first() -> None:
    first, *left = _rooms(Room(frozenset(FORMS)), _error("flash", 1), None)
    assert first.forms == frozenset(FORMS)
    assert not left[0].forms & {*WIDE, "lanes_4_int16"}
    assert left[0].forms >= {*DOTS, "lanes_4_int8"}
    assert left[-1].forms == {DIRECT}
    assert left[-1].too_large == "too large"
    assert all(more.forms > less.forms for more, less in pairwise(left))
    assert _rooms(Room(frozenset(FORMS)), MemoryLimitExceeded("found by the linker"), None)[-1].forms == {DIRECT}


@given(st.integers(0, 60_000), st.integers(0, 60_000), st.booleans())
def test_more_memory_never_leaves_less_scratch(some: int, more: int, scarce: bool) -> None:
    program = program_of([6400, 12800, 640, 6400], [[], [0], [1], [2]])
    in_place: dict[int, int] | None = {} if scarce else None
    less, most = sorted((some, more))
    limits = [scratch_limits(program, 1, in_place, one) for one in (less, most)]
    assert all(limits[0][kernel] <= limits[1][kernel] for kernel in limits[0])


def _built(folder: Path, *words: str) -> tuple[int, str]:
    done = edgetune(
        ["build", str(TINY / "resnet8_int8.tflite"), "--board", BOARD, "-o", "out", *words], cwd=folder, timeout_s=600
    )
    return done.returncode, done.stderr


def _arena(folder: Path) -> int:
    found: int = json.loads((folder / "out" / "MANIFEST.json").read_text())["memory"]["arena_bytes"]
    return found


def _forms(folder: Path) -> list[str]:
    kernels = json.loads((folder / "out" / "MANIFEST.json").read_text())["kernels"]
    return [kernel["provenance"]["form"] for kernel in kernels]


@pytest.mark.long
def test_kernels_are_chosen_for_the_ram_that_is_stated(tmp_path: Path) -> None:
    """Its tensors take 32,768 bytes; the copies of rows that are usual take some 3,500 more."""
    code, told = _built(tmp_path)
    usual, forms = _arena(tmp_path), _forms(tmp_path)
    assert code == 0, told
    assert 34_000 < usual < 40_000
    code, told = _built(tmp_path, "--ram", "34000")
    assert code == 0, told
    assert _arena(tmp_path) <= 34_000
    assert "scratch memory than is usual: the workspace may take 34,000 bytes (flag --ram)" in told
    assert _forms(tmp_path) == forms  # their copies have strips
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
