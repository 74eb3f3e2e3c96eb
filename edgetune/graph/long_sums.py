"""Blocked summation: very long sums are computed in two steps, so that float32 keeps its usual accuracy.

The error bound of a sum grows with the number of terms in one accumulator (N. J. Higham, Accuracy and Stability of
Numerical Algorithms, 2nd edition, SIAM 2002, section 4.2). A million squares added one after the other have an error of
4e-4. 64 parts summed by vectors, and then added, have an error of 1e-6 for 16 million.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import prod

import tvm
import tvm_ffi
from tvm import s_tir

from edgetune.graph.tvm_types import IterVar, PrimFunc, SBlock, SBlockRV, Schedule

_LONG = 1 << 17
"""Least number of terms of a sum that is divided: half the number at which squares reach the tolerance of 1e-4."""

_MOST_PARTS = 64
"""With a vector of sums for each part, they take 4 KiB of scratch."""

_FEW = 4
"""Number of lanes of the smallest vectors."""

_COLUMNS = 64
"""Most results of a sum that is divided: side by side, their parts take 16 KiB of scratch."""

_REDUCTION = 2  # tirx.IterVar.CommReduce


def split_long_sums(function: PrimFunc) -> PrimFunc:
    """`function` whose sums of at least 2^17 float32 terms are divided into parts, if they have up to 64 results.

    Where the terms of one result are contiguous, vectors add these, and the parts cost no time. Otherwise four results
    and more are computed side by side, in each part, if vectors of four divide their last axis. All other sums stay
    unchanged: their parts would have plain loops.
    """
    found: list[str] = []
    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, lambda block: found.extend(_long(block))))
    if not found:
        return function
    schedule = s_tir.Schedule(tvm.IRModule({"main": function}))
    renamed: dict[str, str] = {}
    for name in found:
        divided = schedule.copy()  # a refusal leaves loops that were split already
        with suppress(RuntimeError):  # ScheduleError: not a sum, or TVM does not know that it is commutative
            parts = _divide(divided, name)
            if parts:
                schedule, renamed[parts] = divided, f"{name}_parts"
    if not renamed:
        return function
    return tvm_ffi.structural_map(schedule.mod["main"], (s_tir.SBlock, lambda block: _renamed(block, renamed)))


def _long(block: SBlock) -> list[str]:
    """A list with the block's name if the block is such a sum, else an empty list."""
    if block.init is None or len(block.writes) != 1 or str(block.writes[0].source.dtype) != "float32":
        return []
    summed = [axis for axis in block.iter_vars if int(axis.iter_type) == _REDUCTION]
    kept = [axis for axis in block.iter_vars if int(axis.iter_type) != _REDUCTION]
    terms, elements = (prod(int(axis.dom.extent) for axis in axes) for axes in (summed, kept))
    if terms < _LONG or elements > _COLUMNS:
        return []
    rows = elements == 1 or _contiguous(block, summed)
    columns = elements >= _FEW and int(kept[-1].dom.extent) % _FEW == 0
    return [str(block.name_hint)] if rows or columns else []


def _contiguous(block: SBlock, summed: Sequence[IterVar]) -> bool:
    """Whether the terms of one element are adjacent in every tensor that the block reads."""
    reads = [region for region in block.reads if not region.source.same_as(block.writes[0].source)]
    last = [region.region[-1].min for region in reads if len(region.region)]
    return all(any(index.same_as(axis.var) for axis in summed) for index in last)


def _divide(schedule: Schedule, name: str) -> str:
    """Make block `name` add the sums of a new block of parts; return TVM's name of that block, "" if there is none.

    The parts divide the outermost loops: all loops whose product is small enough, and a divisor of the next one.
    """
    block = schedule.get_sblock(name)
    axes = list(schedule.get(block).iter_vars)
    spatial = sum(int(axis.iter_type) != _REDUCTION for axis in axes)
    extents = [int(axis.dom.extent) for axis in axes]
    loops, first = schedule.get_loops(block), spatial
    while first < len(loops) - 1 and prod(extents[spatial : first + 1]) <= _MOST_PARTS:
        first += 1
    room = _MOST_PARTS // prod(extents[spatial:first])
    share = max(n for n in range(1, room + 1) if extents[first] % n == 0)
    if prod(extents[spatial:first]) * share == 1:
        return ""
    outer = [*loops[spatial:first], schedule.split(loops[first], [share, None])[0]]
    several = prod(extents[:spatial]) >= _FEW
    columns = several and not _contiguous(schedule.get(block), axes[spatial:])  # the elements stay side by side
    parts = schedule.rfactor(schedule.fuse(*outer) if len(outer) > 1 else outer[0], 0 if columns else spatial)
    if columns:
        elements, part = schedule.get_loops(parts)[:spatial], schedule.get_loops(parts)[spatial]
        schedule.reorder(part, *elements)
    else:
        schedule.reorder_block_iter_var(parts, [*range(1, spatial + 1), 0, *range(spatial + 1, _axes(schedule, parts))])
    schedule.reorder_block_iter_var(block, [*range(1, spatial + 1), 0])
    return str(schedule.get(parts).name_hint)


def _axes(schedule: Schedule, block: SBlockRV) -> int:
    return len(schedule.get(block).iter_vars)


def _renamed(block: SBlock, names: dict[str, str]) -> SBlock:
    """`block` with another name: TVM would reuse the same name when a schedule divides this block again."""
    if str(block.name_hint) not in names:
        return block
    return s_tir.SBlock(
        block.iter_vars,
        block.reads,
        block.writes,
        names[str(block.name_hint)],
        block.body,
        block.init,
        block.alloc_buffers,
        block.match_buffers,
        block.annotations,
    )
