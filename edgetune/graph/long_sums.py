"""Blocked summation: very long sums are computed in steps, so that floats keep their usual accuracy.

The error bound of a sum grows with the number of terms in one accumulator (N. J. Higham, Accuracy and Stability of
Numerical Algorithms, 2nd edition, SIAM 2002, section 4.2). In float32, a million equal terms added one after the other
have an error of 1e-2. In parts of 512, whose sums are again added in parts, it stays below 1e-5 for 16 million.

The parts need no divisor of the number of terms: those that are left over make a sum of their own.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tvm import tirx

from edgetune.affine.expressions import with_places
from edgetune.graph.element_type import element_bytes, is_floating, type_of
from edgetune.graph.reduction_stage import (
    ReductionStage,
    buffer_of,
    reduction_of,
    reductions_of_results,
    variable,
    with_stages,
)
from edgetune.graph.rows_of_terms import in_wide_rows, row_of, with_rest
from edgetune.tvm_types import BufferLoad, PrimFunc, Stmt

_LONG = 1 << 16
"""Least number of terms of a sum that is divided: random terms of one sign then reach an error of 1e-5."""

_LONG_OF_SHORT_ROWS = 1 << 10
"""The same where short rows of results become wide ones, which also takes less time."""

_PART = 512
"""Most terms of a part in one accumulator."""

_LANES = 64
"""Parts whose terms are adjacent are a multiple of this, which fills several chains of the widest vectors."""

_FEWEST_LANES = 8
_FEWEST_COLUMNS = 4
_FEW_COLUMNS = 32
_PEELED = 32
"""Adjacent terms from which on lanes share them, although these do not divide their number."""

_PARTS = "_parts"
_LONGEST_ROW = 16384
"""Most bytes that a tensor of sums is taken to need: what is longer is computed part by part, or row by row."""


def split_long_sums(function: PrimFunc) -> PrimFunc:
    """`function` whose sums of at least 2^16 floating-point terms are divided into parts.

    Where the terms of one result are adjacent, so are the sums of its parts. Otherwise the results lie side by side in
    each part, and short rows of them become wide ones (`rows_of_terms.py`).
    """
    return with_stages(function, lambda statement: _stages(statement, odd_columns=False))


def split_all_long_sums(function: PrimFunc) -> PrimFunc:
    """The same also for products with several rows of a few odd columns.

    Their operands lie in different orders: parts have no lanes for them and take up to four times as long as the whole.
    So the kernel stays whole until its form of overlapping vectors, or the direct algorithm, is made of it.
    """
    return with_stages(function, lambda statement: _stages(statement, odd_columns=True))


def scratch_of_parts(function: PrimFunc) -> int:
    """Bytes of scratch that rows of sums and parts may take where no more is stored; 0 without long sums."""
    if not any(_reads_each_once(total, load) for total, load in reductions_of_results(function)):
        return 0
    buffers = function.body.block.alloc_buffers
    return sum(
        min(element_bytes(buffer) * prod(int(extent) for extent in buffer.shape), _LONGEST_ROW) for buffer in buffers
    )


def _reads_each_once(total: ReductionStage, load: BufferLoad) -> bool:
    """Whether a sum joins parts: its term is an element at the places of its axes, so that no two results share one."""
    axes = [one for one, extent in (*total.spatial, *total.summed) if extent > 1]
    along = [next((one for one in axes if index.same_as(one)), None) for index in load.indices]
    long = [one for one, extent in zip(along, load.source.shape, strict=True) if int(extent) > 1]
    return total.combine is tirx.Add and None not in long and len(long) == len(axes)


def _long_sum(statement: Stmt) -> ReductionStage | None:
    """The sum that the loops of a statement compute, if it is a long one in floating point."""
    found = reduction_of(statement)
    if found is None or found.combine is not tirx.Add or not is_floating(found.out):
        return None
    if not isinstance(found.first, tirx.FloatImm) or found.first.value != 0:
        return None
    narrow = found.terms >= _LONG_OF_SHORT_ROWS and not _fills_lanes(found) and bool(in_wide_rows(found))
    return found if found.terms >= _LONG or narrow else None


def _stages(statement: Stmt, *, odd_columns: bool) -> list[ReductionStage]:
    """The stages that compute the long sum of a statement in parts, the one that writes its results last."""
    total = _long_sum(statement)
    if total is None:
        return []
    if _fills_lanes(total):
        return _divided(total, in_lanes=True)
    columns = total.spatial[-1][1] if total.spatial else 1
    odd = columns <= _FEW_COLUMNS and columns % _FEWEST_COLUMNS > 0
    if odd and not odd_columns and total.elements > columns > 1 and row_of(total) is None:
        return []
    stages = in_wide_rows(total) or [total]
    return [part for stage in stages for part in _divided(stage, in_lanes=False)]


def _fills_lanes(total: ReductionStage) -> bool:
    """Whether the terms of one result are adjacent in every tensor that the term reads, so many that lanes share them.

    A rest that fills no vector is peeled off where whole vectors are before it.
    """
    loads = [load for load in total.loads() if len(load.indices)]
    last = [next((n for one, n in total.summed if load.indices[-1].same_as(one)), 0) for load in loads]
    return all(extent >= _PEELED or (extent > 0 and extent % _FEWEST_LANES == 0) for extent in last)


def _divided(total: ReductionStage, *, in_lanes: bool, level: int = 1) -> list[ReductionStage]:
    """The stages that compute a sum in parts; `total` alone where its terms are few, or no axis can be divided."""
    axis, inner = len(total.summed), 1
    while axis and inner * total.summed[axis - 1][1] <= _PART:
        axis -= 1
        inner *= total.summed[axis][1]
    if not axis:
        return [total]
    outer, (one, extent), within = total.summed[: axis - 1], total.summed[axis - 1], total.summed[axis:]
    steps = _steps(extent, _PART // inner, _LANES if in_lanes and inner == 1 else 1)
    count = extent // steps
    place, step = variable("part", total.index_type), variable("step", total.index_type)
    kept = (*outer, (place, count))
    spatial = (*total.spatial, *kept) if in_lanes else (*kept, *total.spatial)
    title = _PARTS if level == 1 else f"{_PARTS}{level}"
    buffer = buffer_of(f"{total.out.name}{title}", spatial, type_of(total.out))
    at = tuple(variable for variable, _ in spatial)
    term = with_places(total.term, {one: place * steps + step})
    parts = ReductionStage(f"{total.name}{title}", buffer, at, spatial, ((step, steps), *within), term)
    joined = replace(total, summed=kept, term=tirx.BufferLoad(buffer, at))
    stages = with_rest(total, joined, one, count * steps, extent % steps)
    return [parts, *(each for stage in stages for each in _divided(stage, in_lanes=in_lanes, level=level + 1))]


def _steps(extent: int, most: int, unit: int) -> int:
    """The length of the parts of an axis: at least a third of `most`, so that the fewest terms are left over."""
    longest = max(1, min(most, extent // 2))
    choices = range(longest - longest % unit or longest, longest // 3, -unit if longest >= unit else -1)
    return min(choices, key=lambda steps: (extent % steps, -steps))
