"""The memory plan: nothing alive overlaps, the bound is a bound, and the same program gives the same plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgetune.graph.memory.cache_model import Caches
from edgetune.graph.memory.core_affinity import with_core_affinity
from edgetune.graph.memory.in_place import in_place_outputs, with_lower_peak
from edgetune.graph.memory.live_ranges import ARENA_ALIGNMENT, live_bytes
from edgetune.graph.memory.plan import MemoryPlan, plan, scratch_limits
from edgetune.graph.program import Buffer, BufferKind, Call, Kernel, Param, Program


def program_of(sizes: list[int], reads: list[list[int]]) -> Program:
    """Call i writes buffer i of sizes[i] bytes and reads the buffers reads[i], all written before it."""
    buffers = tuple(Buffer(i, f"t{i}", (size,), "uint8", "intermediate") for i, size in enumerate(sizes))
    function: Any = None
    kernels = tuple(
        Kernel(f"k{i}", str(i), function, (*inputs, Param("y", (size,), "uint8", "output")), ("k",), 0, 1)
        for i, size in enumerate(sizes)
        for inputs in [[Param("x", (sizes[read],), "uint8", "input") for read in reads[i]]]
    )
    calls = tuple(Call(i, (*read, i), f"k{i}") for i, read in enumerate(reads))
    return Program("p", (), (), buffers, kernels, calls, {}, "0" * 64)


@st.composite
def programs(draw: st.DrawFn) -> tuple[Program, dict[int, int]]:
    count = draw(st.integers(1, 14))
    some = st.sampled_from([640, 1280]) | st.integers(1, 5000)  # tensors of one size may take each other's memory
    sizes = draw(st.lists(some, min_size=count, max_size=count))
    reads = [draw(st.lists(st.integers(0, i - 1), max_size=3, unique=True)) if i else [] for i in range(count)]
    scratch = draw(st.dictionaries(st.integers(0, count - 1), st.integers(1, 2000), max_size=4))
    return program_of(sizes, reads), scratch


def over_operands(program: Program) -> dict[int, int]:
    """What is written in place if every kernel may write over any operand of its output's size."""
    sizes = {buffer.id: buffer.nbytes for buffer in program.buffers}
    able = {
        call.kernel: [n for n, read in enumerate(call.arguments[:-1]) if sizes[read] == sizes[call.arguments[-1]]]
        for call in program.calls
    }
    return in_place_outputs(program, able)


def check_places(program: Program, scratch: dict[int, int], memory: MemoryPlan) -> None:
    """Nothing alive at the same time overlaps, but what is written in place."""
    owner = np.full(memory.arena_bytes, -1)
    last = {a: i for i, call in enumerate(program.calls) for a in call.arguments}
    for index, call in enumerate(program.calls):
        written = call.arguments[-1]
        spans = [(memory.offsets[written], program.buffers[written].nbytes)]
        if call.kernel in scratch:
            spans.append((memory.scratch_offsets[index], scratch[call.kernel]))
        assert all(at + size <= spans[0][0] or sum(spans[0]) <= at for at, size in spans[1:])
        for offset, size in spans:
            assert offset % ARENA_ALIGNMENT == 0
            assert offset + size <= memory.arena_bytes
            holders = set(owner[offset : offset + size].tolist()) - {-1}
            taken = {memory.in_place.get(written)} if offset == memory.offsets[written] else set()
            assert all(last[h] < index or (last[h] == index and h in taken) for h in holders)
            owner[offset : offset + size] = -1
        owner[memory.offsets[written] : memory.offsets[written] + program.buffers[written].nbytes] = written


@given(programs(), st.booleans())
def test_nothing_alive_at_the_same_time_overlaps(case: tuple[Program, dict[int, int]], in_place: bool) -> None:
    program, scratch = case
    check_places(program, scratch, plan(program, scratch, over_operands(program) if in_place else {}))


def with_ends(program: Program, inputs: set[int], outputs: set[int]) -> Program:
    """`program` with other kinds of tensors, all in the arena; the calls that would write inputs are left out."""
    kinds: dict[int, BufferKind] = {**dict.fromkeys(inputs, "input"), **dict.fromkeys(outputs, "output")}
    buffers = tuple(replace(buffer, kind=kinds.get(buffer.id, buffer.kind)) for buffer in program.buffers)
    calls = tuple(call for call in program.calls if call.arguments[-1] not in inputs)
    return replace(program, buffers=buffers, calls=calls, io="arena")


@st.composite
def programs_in_an_arena(draw: st.DrawFn) -> tuple[Program, dict[int, int]]:
    """As `programs`, but some of the first tensors are inputs, which no call writes, and some others are outputs."""
    program, scratch = draw(programs())
    count = draw(st.integers(0, min(3, len(program.calls) - 1)))
    written = [buffer.id for buffer in program.buffers[count:]]
    outputs = draw(st.sets(st.sampled_from(written), max_size=3)) | {written[-1]}
    return with_ends(program, set(range(count)), outputs), scratch


def check_bytes(program: Program, scratch: dict[int, int], memory: MemoryPlan) -> None:
    """No byte of a tensor is lost before its last reader, of an input from the start on, of an output to the end.

    Says of each byte of the arena whose it is, in a run that knows nothing of live ranges.
    """
    owner = np.full(memory.arena_bytes, -1)

    def place(tensor: int) -> slice:
        return slice(memory.offsets[tensor], memory.offsets[tensor] + program.buffers[tensor].nbytes)

    for one in program.input_buffers():
        assert (owner[place(one.id)] == -1).all(), "inputs are there together"
        owner[place(one.id)] = one.id
    for number, call in enumerate(program.calls):
        *reads, written = call.arguments
        if call.kernel in scratch:
            start = memory.scratch_offsets[number]
            owner[start : start + scratch[call.kernel]] = -1
        assert all((owner[place(read)] == read).all() for read in reads)
        if written in memory.in_place:
            assert memory.in_place[written] in reads
        else:
            owner[place(written)] = -1
            assert all((owner[place(read)] == read).all() for read in reads), "a kernel may write before it reads"
        owner[place(written)] = written
        if call.kernel in scratch:
            assert (owner[start : start + scratch[call.kernel]] == -1).all()
    assert all((owner[place(one.id)] == one.id).all() for one in program.output_buffers())


@given(programs_in_an_arena(), st.booleans())
def test_inputs_and_outputs_in_the_arena_live_as_long_as_they_are_wanted(
    case: tuple[Program, dict[int, int]], in_place: bool
) -> None:
    program, scratch = case
    memory = plan(program, scratch, over_operands(program) if in_place else {})
    assert {one.id for one in (*program.input_buffers(), *program.output_buffers())} <= memory.offsets.keys()
    assert memory.bound_bytes <= memory.arena_bytes
    check_bytes(program, scratch, memory)


@given(programs_in_an_arena(), st.integers(2, 4))
def test_so_they_do_in_a_plan_for_cores(case: tuple[Program, dict[int, int]], cores: int) -> None:
    program, scratch = case
    before, caches = plan(program, scratch, over_operands(program)), Caches(cores, 1 << 14)
    memory = with_core_affinity(before, program, scratch, [cores] * len(program.kernels), caches)
    assert memory.arena_bytes == before.arena_bytes
    check_bytes(program, scratch, memory)


def test_an_input_is_overwritten_where_nobody_reads_it_any_more() -> None:
    """A chain of two layers needs two of its three tensors, where the caller has none of them."""
    program = with_ends(program_of([640, 640, 640], [[], [0], [1]]), {0}, {2})
    memory = plan(program, {})
    assert memory.offsets[0] == memory.offsets[2] != memory.offsets[1]
    assert memory.arena_bytes == memory.bound_bytes == 2 * 640
    assert over_operands(program) == {1: 0, 2: 1}
    assert plan(program, {}, over_operands(program)).arena_bytes == 640
    assert plan(program.with_io("caller"), {}).offsets.keys() == {1}


def test_an_output_that_the_last_call_reads_is_not_overwritten() -> None:
    program = with_ends(program_of([640, 640, 640], [[], [0], [1]]), {0}, {1, 2})
    assert over_operands(program) == {1: 0}
    memory = plan(program, {}, over_operands(program))
    assert memory.offsets[1] != memory.offsets[2]


def test_an_input_that_no_call_reads_has_a_place_of_its_own() -> None:
    program = with_ends(program_of([640, 640, 640], [[], [], [0]]), {0, 1}, {2})
    memory = plan(program, {}, over_operands(program))
    assert memory.offsets[0] == memory.offsets[2] != memory.offsets[1]


@given(programs(), st.booleans())
def test_the_plan_is_repeatable_and_not_below_its_bound(case: tuple[Program, dict[int, int]], in_place: bool) -> None:
    program, scratch = case
    over = over_operands(program) if in_place else {}
    memory = plan(program, scratch, over)
    assert memory == plan(program, scratch, over)
    assert memory.bound_bytes == max(live_bytes(program, over)) <= max(live_bytes(program))
    assert memory.arena_bytes >= memory.bound_bytes


def test_a_residual_sum_overwrites_its_operand() -> None:
    program = program_of([640, 640, 640, 640], [[], [0], [1, 0], [2, 2]])
    over = over_operands(program)
    assert over == {2: 1}, "what is read later, or twice, is left alone"
    memory = plan(program, {}, over)
    assert memory.offsets[2] == memory.offsets[1]
    assert memory.arena_bytes == memory.bound_bytes == 2 * 640
    assert plan(program, {}).arena_bytes == 3 * 640


def test_rows_are_overwritten_where_that_lowers_the_peak_alone() -> None:
    """Calls 1 and 2 need 2,000 bytes and both may overwrite; call 4 may as well, and needs 1,000 anyway."""
    program = program_of([1000, 1000, 1000, 500, 500], [[], [0], [1], [2], [3]])
    assert with_lower_peak(program, {}, over_operands(program)) == {1: 0, 2: 1}
    assert with_lower_peak(program, {}, {1: 0, 4: 3}) == {}  # call 2 keeps the peak where it is
    assert with_lower_peak(program, {1: 0}, {2: 1, 4: 3}) == {1: 0, 2: 1}


@given(programs())
def test_a_lower_peak_is_one_and_takes_what_it_is_given(case: tuple[Program, dict[int, int]]) -> None:
    program, able = case[0], over_operands(case[0])
    chosen = with_lower_peak(program, {}, able)
    assert chosen.items() <= able.items()
    assert max(live_bytes(program, chosen)) < max(live_bytes(program)) or not chosen


def test_a_chain_needs_two_neighbours_and_no_more() -> None:
    memory = plan(program_of([6400, 12800, 640, 6400], [[], [0], [1], [2]]), {})
    assert memory.arena_bytes == memory.bound_bytes == 19200


def test_scratch_within_its_limit_keeps_the_arena_within_a_tenth_of_the_bound() -> None:
    program = program_of([64000, 64000, 640, 6400], [[], [0], [1], [2]])
    limits = scratch_limits(program)
    memory = plan(program, limits)
    assert memory.arena_bytes <= 1.10 * memory.bound_bytes
