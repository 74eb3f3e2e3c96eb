"""Runs: where indices divide the last axis of a stage, vectors run along the neighbours between two changes.

Of the windows of an image as rows of a matrix, `x[i // 32 + k // 48, i % 32 + k // 16 % 3, k % 16]`, 48 places in turn
are neighbours in memory: the three pixels of a row of the window. So are groups of channels that share a factor,
`x[n, c] * s[c // 12]`: within 12 places, the factor stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tvm import ir, tirx
from tvm.s_tir import Schedule

from edgetune.affine.access import Access
from edgetune.affine.domain import Domain
from edgetune.affine.expressions import expressions, mentions, operands, with_places
from edgetune.codegen.shuffles import steps_of_vectors
from edgetune.graph.element_type import type_of
from edgetune.schedule.sketches.block_analysis import extent_of, stores
from edgetune.schedule.tile_costs import divisors
from edgetune.tvm_types import Expr, LoopRV, SBlock, Var

FEWEST_IN_RUN = 4


def longest_run(block: SBlock) -> int:
    """The most places of the last axis, a divisor of its extent, between which loads move by steps of vectors.

    1 where nothing divides the axis, or where a value other than a load's place changes with what is divided.
    """
    lane = block.iter_vars[-1]
    values = [store.value for store in stores(block.body)]
    if not any(_divides(node, lane.var) for value in values for node in expressions(value)):
        return 1
    extent = extent_of(lane)
    candidates = (run for run in reversed(divisors(extent, extent // 2)) if run >= FEWEST_IN_RUN)
    return next((run for run in candidates if _is_run(values, lane.var, run)), 1)


def split_run(sch: Schedule, block: SBlock, row: LoopRV, run: int) -> LoopRV:
    """Split the loop over a row into runs, and return the loop in a run.

    What indices divide the number of a run by becomes loops as well, so that none is left inside of them.
    """
    count, lane = extent_of(block.iter_vars[-1]) // run, block.iter_vars[-1].var
    number, place = _parts(lane)
    inside = Domain.of([(place, run)])
    factors = {
        int(node.b.value)
        for store in stores(block.body)
        for load in expressions(store.value)
        if isinstance(load, ir.TensorLoad)
        for index in load.indices
        for node in expressions(inside.analyzer.simplify(with_places(index, {lane: number * run + place})))
        if _divides(node, number)
    }
    inner = 1
    sizes = [run]
    for factor in sorted(factors):
        if factor % inner == 0 and factor > inner and count % factor == 0:
            sizes.insert(0, factor // inner)
            inner = factor
    return sch.split(row, [None, *sizes])[-1]


def _is_run(values: Sequence[Expr], lane: Var, run: int) -> bool:
    """Whether places of a run differ in no value that is divided, and loads move by one step from each to the next."""
    number, place = _parts(lane)
    inside = Domain.of([(place, run)])
    for node in (node for value in values for node in _outside_of_places(value)):
        if isinstance(node, ir.TensorLoad):
            there = [
                inside.analyzer.simplify(with_places(index, {lane: number * run + place})) for index in node.indices
            ]
            step = Access(node.source, there, inside).step(place)
            if step not in steps_of_vectors(type_of(node.source)):
                return False
        elif _divides(node, lane):
            return False
    return True


def _outside_of_places(value: Expr) -> Iterator[Expr]:
    """All that `value` consists of, except the indices of loads."""
    yield value
    if isinstance(value, ir.TensorLoad):
        return
    for operand in operands(value):
        yield from _outside_of_places(operand)


def _divides(node: Expr, axis: Var) -> bool:
    division = isinstance(node, tirx.FloorDiv | tirx.FloorMod) and isinstance(node.b, tirx.IntImm)
    return division and mentions(node.a, axis)


def _parts(lane: Var) -> tuple[Var, Var]:
    """Variables for the number of a run and the place in it."""
    return tirx.Var("run", lane.ty), tirx.Var("place", lane.ty)
