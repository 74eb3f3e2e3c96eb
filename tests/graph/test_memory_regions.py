"""The memory plan of several regions: nothing alive overlaps in one, none is too full, and the fastest has most."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from edgetune.errors import MemoryLimitExceeded
from edgetune.graph.memory.live_ranges import live_bytes
from edgetune.graph.memory.plan import MemoryPlan, plan
from edgetune.graph.memory.regions import RegionSize, plan_in_regions
from edgetune.graph.program import Program
from tests.graph.test_memory_plan import (
    check_bytes,
    check_places,
    over_operands,
    program_of,
    programs,
    programs_in_an_arena,
    with_ends,
)

Sizes = list[int]


def planned(program: Program, scratch: dict[int, int], sizes: Sizes, *, in_place: bool = False) -> MemoryPlan:
    regions = [RegionSize(f"r{number}", size) for number, size in enumerate(sizes)]
    return plan_in_regions(program, scratch, regions, (over_operands(program), {}) if in_place else ({},))


def in_one(memory: MemoryPlan) -> MemoryPlan:
    """The same plan as if the regions lay one behind the other."""
    starts = list(accumulate((arena.nbytes for arena in memory.arenas), initial=0))
    scratch = {call: starts[memory.scratch_regions[call]] + at for call, at in memory.scratch_offsets.items()}
    offsets = {buffer: starts[memory.regions[buffer]] + at for buffer, at in memory.offsets.items()}
    return replace(memory, offsets=offsets, scratch_offsets=scratch)


sizes = st.lists(st.sampled_from([64, 700, 2048, 5120, 1 << 16]), min_size=1, max_size=4)


@given(programs(), sizes, st.booleans())
def test_nothing_alive_overlaps_and_no_region_is_too_full(
    case: tuple[Program, dict[int, int]], rooms: Sizes, in_place: bool
) -> None:
    program, scratch = case
    try:
        memory = planned(program, scratch, rooms, in_place=in_place)
    except MemoryLimitExceeded:
        assume(False)
    check_places(program, scratch, in_one(memory))
    assert memory.arena_bytes == sum(arena.nbytes for arena in memory.arenas)
    assert all(0 < arena.nbytes <= arena.most == rooms[int(arena.region[1:])] for arena in memory.arenas)
    for buffer, operand in memory.in_place.items():
        assert memory.regions[buffer] == memory.regions[operand]
    assert memory == planned(program, scratch, rooms, in_place=in_place)


@given(programs_in_an_arena(), sizes)
def test_inputs_and_outputs_live_as_long_in_regions(case: tuple[Program, dict[int, int]], rooms: Sizes) -> None:
    program, scratch = case
    memory = planned(program, scratch, [*rooms, 1 << 20], in_place=True)
    check_bytes(program, scratch, in_one(memory))


@given(programs())
def test_a_region_that_is_large_enough_has_all_and_no_other_appears(case: tuple[Program, dict[int, int]]) -> None:
    program, scratch = case
    memory = planned(program, scratch, [1 << 20, 1 << 20])
    assert [arena.region for arena in memory.arenas] == ["r0"]
    assert memory.arena_bytes == plan(program, scratch).arena_bytes
    assert memory.bound_bytes == max(live_bytes(program))


@given(programs())
def test_a_region_holds_what_an_arena_of_its_size_holds(case: tuple[Program, dict[int, int]]) -> None:
    """The heuristic of one arena is among those that are tried."""
    program, scratch = case
    size = plan(program, scratch).arena_bytes
    assert planned(program, scratch, [size]).arena_bytes == size


def test_what_is_touched_most_per_byte_lies_in_the_fast_region() -> None:
    """Tensor 0 is read by three calls, tensor 1 by one; there is room for one of them."""
    memory = planned(program_of([640, 640, 64, 64, 64], [[], [0], [0, 1], [0, 2], [3]]), {}, [640, 8192])
    assert {memory.arenas[number].region for number in (memory.regions[0], memory.regions[1])} == {"r0", "r1"}
    assert memory.arenas[memory.regions[0]].region == "r0"


def test_scratch_through_which_large_tensors_pass_is_touched_more_than_they() -> None:
    memory = planned(program_of([6400, 6400, 6400], [[], [0], [1]]), {1: 640}, [640, 1 << 16])
    assert memory.scratch_regions == {1: 0}
    assert set(memory.regions.values()) == {1}


def test_small_tensors_make_room_where_a_large_one_has_no_other() -> None:
    """By what is touched per byte alone, the small ones would fill the only region that the large one fits."""
    program = program_of([128, 128, 1280, 64], [[], [], [0, 1], [0, 1, 2]])
    memory = planned(program, {}, [1280, 320])
    assert [memory.arenas[memory.regions[buffer]].region for buffer in (0, 1, 2)] == ["r1", "r1", "r0"]


def test_a_tensor_that_no_region_holds_is_named() -> None:
    with pytest.raises(MemoryLimitExceeded) as raised:
        planned(program_of([640, 6400, 640], [[], [0], [1]]), {}, [1024, 4096])
    assert raised.value.message == (
        "the output of layer 1 (k1) 6400 of p takes 6400 bytes, and the largest region of the board, r1, has 4096 for "
        "a workspace, 2304 too few: use a smaller model or a larger board, or raise 'workspace' of a region in the "
        "target file"
    )
    assert raised.value.excess == ("ram", 2304)


def test_scratch_that_no_region_holds_is_named() -> None:
    with pytest.raises(
        MemoryLimitExceeded, match=r"^the scratch memory of layer 1 \(k1\) of p takes 9984 bytes, and the largest"
    ):
        planned(program_of([640, 640], [[], [0]]), {1: 9984}, [1024, 4096])


def test_tensors_that_fit_but_not_together_are_counted() -> None:
    with pytest.raises(MemoryLimitExceeded, match=r"fit the regions r0 with 700 bytes, r1 with 700 bytes: 640 bytes"):
        planned(program_of([640, 640, 640], [[], [0], [0, 1]]), {}, [700, 700])


def test_inputs_and_outputs_lie_in_regions_too() -> None:
    program = with_ends(program_of([640, 640, 640], [[], [0], [1]]), {0}, {2})
    memory = planned(program, {}, [640, 640])
    assert memory.regions.keys() == {0, 1, 2}
    assert memory.regions[1] != memory.regions[0] == memory.regions[2]


def test_a_limit_of_the_sum_comes_before_the_fastest_region() -> None:
    """Divided, the arenas take 3,200 bytes together, and the slow one alone takes 2,560."""
    program = program_of([640, 640, 1280, 1280], [[], [0], [1], [2]])
    regions = [RegionSize("r0", 704), RegionSize("r1", 4096)]
    for most, arenas in ((3200, [("r0", 640), ("r1", 2560)]), (3199, [("r1", 2560)]), (100, [("r1", 2560)])):
        found = plan_in_regions(program, {}, regions, ({},), most)
        assert [(arena.region, arena.nbytes) for arena in found.arenas] == arenas
