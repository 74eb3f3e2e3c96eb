"""The memory plan: nothing alive overlaps, the bound is a bound, and the same program gives the same plan."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgetune.graph.memory_plan import ARENA_ALIGNMENT, live_bytes, plan, scratch_limits
from edgetune.graph.program import Buffer, Call, Kernel, Param, Program


def program_of(sizes: list[int], reads: list[list[int]]) -> Program:
    """Call i writes buffer i of sizes[i] bytes and reads the buffers reads[i], all written before it."""
    buffers = tuple(Buffer(i, f"t{i}", (size,), "uint8", "intermediate") for i, size in enumerate(sizes))
    function: Any = None
    kernels = tuple(
        Kernel(f"k{i}", str(i), function, (Param("y", (size,), "uint8", "output"),), ("k",), 0, 1)
        for i, size in enumerate(sizes)
    )
    calls = tuple(Call(i, (*read, i), f"k{i}") for i, read in enumerate(reads))
    return Program("p", (), (), buffers, kernels, calls, {}, "0" * 64)


@st.composite
def programs(draw: st.DrawFn) -> tuple[Program, dict[int, int]]:
    count = draw(st.integers(1, 14))
    sizes = draw(st.lists(st.integers(1, 5000), min_size=count, max_size=count))
    reads = [draw(st.lists(st.integers(0, i - 1), max_size=3, unique=True)) if i else [] for i in range(count)]
    scratch = draw(st.dictionaries(st.integers(0, count - 1), st.integers(1, 2000), max_size=4))
    return program_of(sizes, reads), scratch


@given(programs())
def test_nothing_alive_at_the_same_time_overlaps(case: tuple[Program, dict[int, int]]) -> None:
    program, scratch = case
    memory = plan(program, scratch)
    owner = np.full(memory.arena_bytes, -1)
    last = {a: i for i, call in enumerate(program.calls) for a in call.arguments}
    for index, call in enumerate(program.calls):
        written = call.arguments[-1]
        spans = [(memory.offsets[written], program.buffers[written].nbytes)]
        if call.kernel in scratch:
            spans.append((memory.scratch_offsets[index], scratch[call.kernel]))
        for offset, size in spans:
            assert offset % ARENA_ALIGNMENT == 0
            assert offset + size <= memory.arena_bytes
            holders = set(owner[offset : offset + size].tolist()) - {-1}
            assert all(last[h] < index for h in holders)
            owner[offset : offset + size] = -1
        owner[memory.offsets[written] : memory.offsets[written] + program.buffers[written].nbytes] = written


@given(programs())
def test_the_plan_is_repeatable_and_not_below_its_bound(case: tuple[Program, dict[int, int]]) -> None:
    program, scratch = case
    memory = plan(program, scratch)
    assert memory == plan(program, scratch)
    assert memory.bound_bytes == max(live_bytes(program))
    assert memory.arena_bytes >= memory.bound_bytes


def test_a_chain_needs_two_neighbours_and_no_more() -> None:
    memory = plan(program_of([6400, 12800, 640, 6400], [[], [0], [1], [2]]), {})
    assert memory.arena_bytes == memory.bound_bytes == 19200


def test_scratch_within_its_limit_keeps_the_arena_within_a_tenth_of_the_bound() -> None:
    program = program_of([64000, 64000, 640, 6400], [[], [0], [1], [2]])
    limits = scratch_limits(program)
    memory = plan(program, limits)
    assert memory.arena_bytes <= 1.10 * memory.bound_bytes
