"""Places for several cores: as good a plan as any other, and fewer lines that a core lacks when it writes them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune import api
from edgetune.config.settings import Flags, resolve_settings
from edgetune.graph.cached_lines import CachedLines, Caches
from edgetune.graph.memory_blocks import ARENA_ALIGNMENT
from edgetune.graph.memory_plan import MemoryPlan, plan
from edgetune.graph.own_lines import on_own_lines, steps_of
from edgetune.graph.program import Program
from edgetune.package.manifest import read_manifest
from tests.test_graph_memory_plan import check_places, over_operands, program_of, programs

VWW = Path(__file__).parents[1] / "examples/models/vww.onnx"
LINE = ARENA_ALIGNMENT


def lacked(memory: MemoryPlan, program: Program, caches: Caches) -> int:
    """Bytes that cores lack of tensors without scratch when these are written, in one run."""
    lines, found = CachedLines(memory.arena_bytes, caches), 0
    for call, step in zip(program.calls, steps_of(program, {}, memory.in_place), strict=True):
        written = call.arguments[-1]
        if written not in memory.in_place:
            found += lines.lacked(memory.offsets[written], program.buffers[written].nbytes)
        lines.touch([(memory.offsets[k], program.buffers[k].nbytes) for _, k in step.blocks], step.constant_bytes)
    return found


@given(programs(), st.booleans(), st.integers(2, 5), st.integers(0, 20000))
def test_a_plan_for_cores_is_a_plan(
    case: tuple[Program, dict[int, int]], in_place: bool, count: int, nbytes: int
) -> None:
    program, scratch = case
    before, caches = plan(program, scratch, over_operands(program) if in_place else {}), Caches(count, nbytes)
    memory = on_own_lines(before, program, scratch, caches)
    check_places(program, scratch, memory)
    assert memory == on_own_lines(before, program, scratch, caches)
    assert (memory.arena_bytes, memory.in_place) == (before.arena_bytes, before.in_place)
    assert all(memory.offsets[over] == memory.offsets[under] for over, under in memory.in_place.items())
    assert memory.scratch_offsets.keys() == before.scratch_offsets.keys()


@given(programs(), st.integers(2, 5))
def test_no_plan_for_cores_is_worse(case: tuple[Program, dict[int, int]], count: int) -> None:
    program, _ = case
    sizes = [-(-buffer.nbytes // LINE) * LINE for buffer in program.buffers]  # as blocks count
    program = program_of(sizes, [list(call.arguments[:-1]) for call in program.calls])
    before, caches = plan(program, {}), Caches(count, 1 << 14)
    assert lacked(on_own_lines(before, program, {}, caches), program, caches) <= lacked(before, program, caches)


def test_smaller_tensors_lie_in_the_middle_of_larger_ones() -> None:
    """Each core then writes over what was its own: first fit puts all of 2 and 3 into what the first core had."""
    large, small = 24 * LINE, 8 * LINE
    program = program_of([large, large, small, small, small], [[], [0], [1], [2], [3]])
    before, caches = plan(program, {}), Caches(2, 1 << 20)
    memory = on_own_lines(before, program, {}, caches)
    assert lacked(memory, program, caches) == 2 * large < lacked(before, program, caches)
    edges = {k: (at % large, at % large + program.buffers[k].nbytes) for k, at in memory.offsets.items() if k > 1}
    assert set(edges.values()) == {((large - small) // 2, (large + small) // 2)}


def test_a_package_for_two_threads_has_such_places_and_needs_no_more_memory(tmp_path: Path) -> None:
    """And computes what it should: VWW has 27 convolutions between smaller and smaller pictures."""
    places = {}
    for threads in (1, 2):
        flags = Flags(
            model=VWW, board="generic-x86_64", out=tmp_path / str(threads), db=tmp_path / "none.db", threads=threads
        )
        api.build(resolve_settings(flags, {}, tmp_path), events=lambda _: None)
        text = (tmp_path / str(threads) / "src/vww.c").read_text()
        places[threads] = dict(re.findall(r"#define (AT_\d+) (\d+)u", text))
    assert places[1].keys() == places[2].keys()
    assert places[1] != places[2]
    arenas = [read_manifest(tmp_path / str(threads))["memory"]["arena_bytes"] for threads in (1, 2)]
    assert arenas[0] == arenas[1]
    assert api.verify(tmp_path / "2", None).passed


def test_scratch_lies_where_its_thread_wrote() -> None:
    program = program_of([8 * LINE, 8 * LINE, LINE, LINE], [[], [0], [1], [2]])
    scratch, caches = {2: 8 * LINE}, Caches(2, 1 << 20)
    memory = on_own_lines(plan(program, scratch), program, scratch, caches)
    assert memory.scratch_offsets[2] == memory.offsets[0]


def test_a_program_without_intermediate_tensors_stays_as_it_is() -> None:
    program = program_of([], [])
    assert on_own_lines(plan(program, {}), program, {}, Caches(2, 1 << 20)) == plan(program, {})


def test_a_cache_holds_what_its_core_touched_last() -> None:
    lines = CachedLines(8 * LINE, Caches(2, 4 * LINE))
    assert lines.lacked(0, 4 * LINE) == 4 * LINE, "nobody has anything yet"
    lines.touch([(0, 4 * LINE)], 0)
    assert lines.lacked(0, 4 * LINE) == 0
    assert lines.lacked(0, 2 * LINE) == LINE, "of the first two lines the second core has none"
    assert lines.lacked(LINE, 2 * LINE) == 0, "the middle is the same"
    lines.touch([(4 * LINE, 4 * LINE)], 2 * LINE)
    assert lines.lacked(0, 4 * LINE) == 0, "two lines of tensors and two of constants: just so much"
    lines.touch([], 1)
    assert lines.lacked(0, 4 * LINE) == 4 * LINE
    assert lines.lacked(4 * LINE, 4 * LINE) == 0


def test_a_large_arena_is_told_in_coarser_cells() -> None:
    """A border between cores within a cell counts with the core behind it."""
    nbytes = 100 << 20
    lines = CachedLines(nbytes, Caches(2, nbytes))
    assert lines.lacked(0, nbytes) >= nbytes
    lines.touch([(0, nbytes)], 0)
    assert lines.lacked(0, nbytes) == 0
    assert lines.lacked(0, nbytes // 2) == pytest.approx(nbytes // 4, rel=1e-3)
