"""Core affinity: the plan stays a plan, and cores miss fewer of the lines that they write."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune import api
from edgetune.config.settings import CommandLineFlags, resolve_settings
from edgetune.graph.memory.cache_model import CachedLines, Caches, CallTraffic
from edgetune.graph.memory.core_affinity import Placement, traffic_of_calls, with_core_affinity
from edgetune.graph.memory.live_ranges import ARENA_ALIGNMENT
from edgetune.graph.memory.plan import MemoryPlan, plan
from edgetune.graph.program import Buffer, BufferKind, Call, Program
from edgetune.package.manifest import read_manifest
from tests.graph.test_memory_plan import check_places, over_operands, program_of, programs

VWW = Path(__file__).parents[2] / "examples/models/vww.onnx"
LINE = ARENA_ALIGNMENT


def missing_bytes(memory: MemoryPlan, program: Program, caches: Caches, workers: list[int] | None = None) -> int:
    """Bytes that cores lack of tensors when these are first written, in one run without scratch."""
    lines, found = CachedLines(memory.arena_bytes, caches), 0
    for call, step in zip(program.calls, traffic(program, memory, caches, workers), strict=True):
        written = call.arguments[-1]
        if written not in memory.in_place:
            found += lines.missing(memory.offsets[written], program.buffers[written].nbytes, step.cores)
        lines.touch(step, [(memory.offsets[number], program.buffers[number].nbytes) for _, number in step.blocks])
    return found


def traffic(
    program: Program, memory: MemoryPlan, caches: Caches, workers: list[int] | None = None
) -> Iterator[CallTraffic]:
    return traffic_of_calls(program, {}, workers or [caches.count] * len(program.kernels), memory.in_place)


def moved(memory: MemoryPlan, program: Program, caches: Caches, workers: list[int] | None = None) -> MemoryPlan:
    return with_core_affinity(memory, program, {}, workers or [caches.count] * len(program.kernels), caches)


def whole_lines(program: Program) -> Program:
    """The same calls with sizes as blocks count them."""
    sizes = [-(-buffer.nbytes // LINE) * LINE for buffer in program.buffers]
    return program_of(sizes, [list(call.arguments[:-1]) for call in program.calls])


@st.composite
def some_workers(draw: st.DrawFn, count: int, kernels: int) -> list[int]:
    return draw(st.lists(st.sampled_from([1, count]), min_size=kernels, max_size=kernels))


@given(programs(), st.booleans(), st.integers(2, 5), st.integers(0, 20000), st.data())
def test_a_plan_for_cores_is_a_plan(
    case: tuple[Program, dict[int, int]], in_place: bool, count: int, nbytes: int, data: st.DataObject
) -> None:
    program, scratch = case
    before, caches = plan(program, scratch, over_operands(program) if in_place else {}), Caches(count, nbytes)
    workers = data.draw(some_workers(count, len(program.kernels)))
    memory = with_core_affinity(before, program, scratch, workers, caches)
    check_places(program, scratch, memory)
    assert memory == with_core_affinity(before, program, scratch, workers, caches)
    assert (memory.arena_bytes, memory.in_place) == (before.arena_bytes, before.in_place)
    assert all(memory.offsets[over] == memory.offsets[under] for over, under in memory.in_place.items())
    assert memory.scratch_offsets.keys() == before.scratch_offsets.keys()


@given(programs(), st.integers(2, 5), st.data())
def test_no_plan_for_cores_is_worse(case: tuple[Program, dict[int, int]], count: int, data: st.DataObject) -> None:
    program, caches = whole_lines(case[0]), Caches(count, 1 << 14)
    before, workers = plan(program, {}), data.draw(some_workers(count, len(program.kernels)))
    after = moved(before, program, caches, workers)
    assert missing_bytes(after, program, caches, workers) <= missing_bytes(before, program, caches, workers)


def test_smaller_tensors_lie_in_the_middle_of_larger_ones() -> None:
    """Each core then writes over what was its own: first fit puts all of 2 and 3 into what the first core had."""
    large, small = 24 * LINE, 8 * LINE
    program = program_of([large, large, small, small, small], [[], [0], [1], [2], [3]])
    before, caches = plan(program, {}), Caches(2, 1 << 20)
    memory = moved(before, program, caches)
    assert missing_bytes(memory, program, caches) == 2 * large < missing_bytes(before, program, caches)
    edges = {k: (at % large, at % large + program.buffers[k].nbytes) for k, at in memory.offsets.items() if k > 1}
    assert set(edges.values()) == {((large - small) // 2, (large + small) // 2)}


def test_a_tensor_of_one_core_lies_where_that_core_wrote_before() -> None:
    """The first core has half of each of the first two tensors; the third, all its own, fits in there."""
    large, small = 24 * LINE, 8 * LINE
    program, caches = program_of([large, large, small, small], [[], [0], [1], [2]]), Caches(2, 1 << 20)
    workers = [2, 2, 1, 1]
    memory = moved(plan(program, {}), program, caches, workers)
    assert missing_bytes(memory, program, caches, workers) == 2 * large
    assert all(memory.offsets[number] % large + small <= large // 2 for number in (2, 3))


def test_a_place_less_good_for_one_may_be_better_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four tensors of 4, 10, 4 and 20 lines, each made of the one before: no place is free but costs a later one."""
    program = program_of([n * LINE for n in (4, 10, 4, 20)], [[], [0], [1], [2]])
    before, caches = plan(program, {}), Caches(2, 1 << 20)
    best = missing_bytes(moved(before, program, caches), program, caches)
    monkeypatch.setattr("edgetune.graph.memory.core_affinity._ALTERNATIVES", 0)
    assert (
        best < missing_bytes(moved(before, program, caches), program, caches) < missing_bytes(before, program, caches)
    )


@pytest.mark.long
def test_a_package_for_two_threads_has_such_places_and_needs_no_more_memory(tmp_path: Path) -> None:
    """And computes what it should: VWW has 27 convolutions between smaller and smaller pictures."""
    places = {}
    for threads in (1, 2):
        out = tmp_path / str(threads)
        flags = CommandLineFlags(model=VWW, board="generic-x86_64", out=out, db=tmp_path / "none.db", threads=threads)
        api.build(resolve_settings(flags, {}, tmp_path), events=lambda _: None)
        places[threads] = dict(re.findall(r"#define VWW__(AT_\d+) (\d+)u", (out / "src/vww.c").read_text()))
    assert places[1].keys() == places[2].keys()
    assert places[1] != places[2]
    manifests = [read_manifest(tmp_path / str(threads)) for threads in (1, 2)]
    assert manifests[0]["memory"]["arena_bytes"] == manifests[1]["memory"]["arena_bytes"]
    assert ["l2_bytes" in manifest["target"] for manifest in manifests] == [False, True], "it decides the places"
    assert api.verify(tmp_path / "2", None).passed


@pytest.mark.long
@pytest.mark.parametrize("tries", [0, 1 << 14, 1 << 18])
def test_work_has_a_bound_and_the_plan_then_found_is_no_worse(tries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No plan is begun when no tries are left, and none goes on for more than a block and a call without any."""
    sizes = [LINE * (1 + number * 37 % 101) for number in range(120)]
    program, caches = program_of(sizes, [[number - 1] if number else [] for number in range(120)]), Caches(4, 1 << 14)
    spent: list[int] = []

    class Counted(Placement):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            spent.append(self.tries)

    before = plan(program, {})
    monkeypatch.setattr("edgetune.graph.memory.core_affinity._TRIES", tries)
    monkeypatch.setattr("edgetune.graph.memory.core_affinity.Placement", Counted)
    memory = moved(before, program, caches)
    one = 4 * (7 * len(sizes) + 35)  # edges beside each other block, and a call
    assert sum(spent[1:]) <= tries + one
    assert missing_bytes(memory, program, caches) <= missing_bytes(before, program, caches)
    assert (memory == before) == (tries < 1 << 18)


def test_scratch_lies_where_its_thread_wrote_before() -> None:
    program = program_of([8 * LINE, 8 * LINE, LINE, LINE], [[], [0], [1], [2]])
    scratch, caches = {2: 8 * LINE}, Caches(2, 1 << 20)
    memory = with_core_affinity(plan(program, scratch), program, scratch, [2] * 4, caches)
    assert memory.scratch_offsets[2] == memory.offsets[0]


def test_a_program_without_intermediate_tensors_stays_as_it_is() -> None:
    program = program_of([], [])
    assert moved(plan(program, {}), program, Caches(2, 1 << 20)) == plan(program, {})


def test_calls_touch_constants_whole_and_what_is_outside_in_parts() -> None:
    kinds: tuple[BufferKind, ...] = ("input", "constant", "intermediate", "output")
    buffers = tuple(Buffer(n, f"t{n}", (100 + n,), "uint8", kind) for n, kind in enumerate(kinds))
    program = replace(program_of([1], [[]]), buffers=buffers, calls=(Call(0, (0, 1, 2, 3), "k"),))
    assert list(traffic_of_calls(program, {0: 64}, [3], {})) == [
        CallTraffic((("buffer", 2), ("scratch", 0)), 3, 101, 203)
    ]


def test_a_cache_holds_what_its_core_touched_last() -> None:
    lines = CachedLines(8 * LINE, Caches(2, 4 * LINE))
    assert lines.missing(0, 4 * LINE, 2) == 4 * LINE, "nobody has anything yet"
    lines.touch(CallTraffic((), 2), [(0, 4 * LINE)])
    assert lines.missing(0, 4 * LINE, 2) == 0
    assert lines.missing(0, 4 * LINE, 1) == 2 * LINE, "alone the first core has but its half"
    assert lines.missing(0, 2 * LINE, 2) == LINE, "of the first two lines the second core has none"
    assert lines.missing(LINE, 2 * LINE, 2) == 0, "the middle is the same"
    lines.touch(CallTraffic((), 2, constant_bytes=LINE, outside_bytes=2 * LINE), [(4 * LINE, 2 * LINE)])
    assert lines.missing(0, 4 * LINE, 2) == 2 * LINE, "three lines each: the first that each had is gone"
    lines.touch(CallTraffic((), 1, constant_bytes=2 * LINE), [])
    assert lines.missing(0, 4 * LINE, 2) == 3 * LINE, "of the first core all is gone, of the second nothing more"
    assert lines.missing(4 * LINE, 2 * LINE, 2) == 0


def test_of_a_tensor_larger_than_its_cache_a_core_has_the_end() -> None:
    lines = CachedLines(16 * LINE, Caches(2, 2 * LINE))
    lines.touch(CallTraffic((), 2), [(0, 16 * LINE)])
    assert lines.missing(0, 16 * LINE, 2) == pytest.approx(12 * LINE, abs=2 * LINE)
    assert lines.missing(6 * LINE, 2 * LINE, 1) == 0


def test_a_large_arena_is_modelled_in_coarser_cells() -> None:
    """A border between cores within a cell counts with the core after it."""
    nbytes = 100 << 20
    lines = CachedLines(nbytes, Caches(2, nbytes))
    assert lines.missing(0, nbytes, 2) >= nbytes
    lines.touch(CallTraffic((), 2), [(0, nbytes)])
    assert lines.missing(0, nbytes, 2) == 0
    assert lines.missing(0, nbytes // 2, 2) == pytest.approx(nbytes // 4, rel=1e-3)
