"""Search spaces for GPUs: the designs that fit a kernel, their traces, and the first choice among them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tvm.s_tir import Schedule

from edgetune.errors import TVM_REFUSALS
from edgetune.schedule.algorithms.schedule_text import trace_text
from edgetune.schedule.gpu.block_tile import block_tiles
from edgetune.schedule.gpu.design import BlockLimits, Design, Sizes, first_choice, propose
from edgetune.schedule.gpu.split_sum import split_sums
from edgetune.schedule.gpu.tensor_tile import tensor_tiles
from edgetune.schedule.gpu.warp_sum import warp_sums
from edgetune.schedule.sketches.block_analysis import analyse_blocks
from edgetune.schedule.sketches.spaces import module_of
from edgetune.schedule.sketches.tile import find_tile
from edgetune.target.gpu import GpuTarget
from edgetune.tvm_types import PrimFunc


def gpu_designs(function: PrimFunc, target: GpuTarget) -> list[Design]:
    """The designs that fit an unscheduled function; none for a function without a register tile."""
    analysis = analyse_blocks(function)
    tile = find_tile(analysis, 1) if analysis else None
    if analysis is None or tile is None:
        return []
    limits = BlockLimits.of(target)
    kinds = (block_tiles, tensor_tiles, split_sums, warp_sums)
    return [design for designs in kinds for design in designs(analysis, tile, limits)]


def scheduled(function: PrimFunc, design: Design, sizes: Sizes | None, seed: int = 1) -> Schedule | None:
    """The function scheduled by a design, with sampled decisions where `sizes` is None; None where TVM refuses."""
    sch = Schedule(module_of(function), seed=seed)
    try:
        design.apply(sch, sizes)
    except TVM_REFUSALS:
        return None
    return sch


def first_schedules(function: PrimFunc, target: GpuTarget) -> Iterator[tuple[str, str]]:
    """The formula's choice in each design, the one with the lowest estimate first: its trace, and a note for people."""
    found = [(design, sizes) for design in gpu_designs(function, target) if (sizes := first_choice(design))]
    for design, sizes in sorted(found, key=lambda pair: pair[0].cycles(pair[1])):
        sch = scheduled(function, design, sizes)
        if sch is not None:
            yield trace_text(sch.trace), design.name


def proposals(function: PrimFunc, target: GpuTarget, random: np.random.Generator) -> Iterator[tuple[str, Design]]:
    """Traces of random decisions that pass the decision test, the designs in turns, without end.

    It ends where no design has such decisions.
    """
    designs = gpu_designs(function, target)
    while designs:
        for design in list(designs):
            sizes = propose(design, random)
            sch = None if sizes is None else scheduled(function, design, sizes)
            if sch is None:
                designs.remove(design)
            else:
                yield trace_text(sch.trace), design
