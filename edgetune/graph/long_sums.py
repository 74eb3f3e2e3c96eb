"""Sums of very many terms in two steps, so that float32 adds them up as precisely as it promises elsewhere.

The error bound of a sum grows with the terms that go into one accumulator (N. J. Higham, Accuracy and Stability of
Numerical Algorithms, 2nd edition, SIAM 2002, section 4.2): a million squares one after the other are off by 4e-4. Eight
parts by vectors, and then their sum, are off by 1e-5 at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

_LONG = 1 << 17
"""Terms from which on a sum is divided: half of those after which squares are off by the tolerance of 1e-4."""

_MOST_PARTS = 8
"""With a vector of sums for each of them they still fit into the scratch that every kernel has."""

_FEW = 4
"""Lanes of the smallest vectors."""

_REDUCTION = 2  # tirx.IterVar.CommReduce


def in_parts(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """`function` with sums of at least 2^17 float32 terms divided into parts where they are sums for few elements.

    So few that vectors could not compute them side by side: the parts cost no time, and where the terms of one are
    contiguous, vectors add them up. Those of more elements stay as they are.
    """
    found: list[str] = []
    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, lambda block: found.extend(_long(block))))
    schedule = s_tir.Schedule(tvm.IRModule({"main": function})) if found else None
    renamed: dict[str, str] = {}
    for name in found:
        with suppress(RuntimeError):  # ScheduleError: no sum, or one that TVM does not know to be commutative
            parts = _divide(schedule, name)
            renamed |= {parts: f"{name}_parts"} if parts else {}
    if schedule is None or not renamed:
        return function
    return tvm_ffi.structural_map(schedule.mod["main"], (s_tir.SBlock, lambda block: _called(block, renamed)))


def _long(block: Any) -> list[str]:
    """The name of the block, in a list, where it is such a sum."""
    if block.init is None or len(block.writes) != 1 or str(block.writes[0].source.dtype) != "float32":
        return []
    summed = [axis for axis in block.iter_vars if int(axis.iter_type) == _REDUCTION]
    kept = [axis for axis in block.iter_vars if int(axis.iter_type) != _REDUCTION]
    terms, elements = (prod(int(axis.dom.extent) for axis in axes) for axes in (summed, kept))
    few = elements == 1 or (elements < _FEW and _contiguous(block, summed))
    return [str(block.name_hint)] if terms >= _LONG and few else []


def _contiguous(block: Any, summed: Sequence[Any]) -> bool:
    """Whether terms of one element lie side by side in all that the block reads."""
    reads = [region for region in block.reads if not region.source.same_as(block.writes[0].source)]
    last = [region.region[-1].min for region in reads if len(region.region)]
    return all(any(index.same_as(axis.var) for axis in summed) for index in last)


def _divide(schedule: s_tir.Schedule, name: str) -> str:
    """Add up in `name` the sums of a new block of parts; the name that TVM gives that one, "" where there is none.

    The parts share out the outermost loops: as many as are few together, and a divisor of the next one.
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
    parts = schedule.rfactor(schedule.fuse(*outer) if len(outer) > 1 else outer[0], spatial)
    schedule.reorder_block_iter_var(parts, [*range(1, spatial + 1), 0, *range(spatial + 1, _axes(schedule, parts))])
    schedule.reorder_block_iter_var(block, [*range(1, spatial + 1), 0])
    return str(schedule.get(parts).name_hint)


def _axes(schedule: s_tir.Schedule, block: Any) -> int:
    return len(schedule.get(block).iter_vars)


def _called(block: Any, names: dict[str, str]) -> Any:
    """`block` by another name: TVM would give the same one again to what a schedule divides."""
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
