"""Turned operands: a stage that computes with a tensor in another order turns blocks of it in registers first.

In `x[i, j] + y[j, i]`, neighbours along j lie apart in y. A transposition of its own would write and read y once more.
Instead, the loops of the last stage are split into blocks, which stay in L1 or L2. The copy of y in the order of the
result is made for each block (tiling with a packed operand, as in a product of matrices).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvm.s_tir import Schedule

from edgetune.codegen.unrolling import MAX_TILE_BYTES
from edgetune.schedule.rules.row_placement import move_inwards
from edgetune.schedule.sketches.block_analysis import BlockAnalysis, BlockStage
from edgetune.schedule.sketches.lane_loads import contiguous
from edgetune.schedule.sketches.transposition import order_of_copy, rows_and_columns
from edgetune.schedule.tile_costs import divisors
from edgetune.target.costs import MARGINS
from edgetune.tvm_types import LoopRV, SBlock

_FEWEST = 16
"""Elements along either axis that fill squares of the widest vectors, and lines of a cache."""

_FEWEST_COLUMNS = 8
"""Elements of a row of the result below which a copy is put together of parts of vectors, which takes longer."""

_LARGE = 1 << 18
"""Results from which on tensors are beyond L2: longer runs of each row are read and written then."""

_ROWS, _COLUMNS, _LONG_COLUMNS = 64, 80, 512
"""The most elements of a block along the axis that comes last in operands, and along that of the result."""

_UNROLLED = MAX_TILE_BYTES // 4
"""Elements up to which loops over a tensor in a block are unrolled, so that it could be in registers: no call then."""

_MOST_ELEMENTS = 1 << 15
"""Elements of a block that L2 holds: more are found where nothing divides an axis."""


def turned_stages(analysis: BlockAnalysis, native_lanes: int) -> list[str]:
    """The stages that copy a parameter in another order for the last stage, in vectors."""
    last = analysis.stages[-1]
    if analysis.outputs != (last.name,) or last.work < MARGINS.elements_turned or not last.writes_its_axes():
        return []
    params = analysis.function.params
    return [
        stage.name
        for stage in analysis.stages[:-1]
        if _has_long_rows(stage, native_lanes)
        and any(region.source.same_as(param) for region in stage.reads() for param in params)
    ]


def _has_long_rows(stage: BlockStage, native_lanes: int) -> bool:
    """Whether a stage is a transposition whose rows are not so short that they are joined in registers."""
    groups = rows_and_columns(stage, stage.spatial_extents, native_lanes)
    return groups is not None and prod(stage.spatial_extents[axis] for axis in groups[1]) >= _FEWEST_COLUMNS


def turn_in_blocks(
    sch: Schedule, analysis: BlockAnalysis, names: Sequence[str]
) -> tuple[Schedule, Sequence[LoopRV] | None]:
    """Copy the stages `names` for blocks of the last stage, which reads them in its own order.

    The result has the loops inside a block. They are None where the last stage would not read neighbours, or no block
    is good: then nothing changes.
    """
    last = analysis.stages[-1]
    block = sch.get(sch.get_sblock(last.name))
    sizes = _block(analysis, [_read_order(analysis.stage(name), block) for name in names])
    if sizes is None or last.branches() or not contiguous(block):
        return sch, None
    outer: list[LoopRV] = []
    inner: list[LoopRV] = []
    loops = sch.get_loops(sch.get_sblock(last.name))
    for loop, size, extent in zip(loops, sizes, last.spatial_extents, strict=True):
        around, inside = (None, loop) if size == extent else sch.split(loop, [None, size])
        outer += [] if around is None else [around]
        inner.append(inside)
    sch.reorder(*outer, *inner)
    for name in reversed(names):
        sch = move_inwards(sch, name, last.name, len(outer))
    return sch, sch.get_loops(sch.get_sblock(last.name))[len(outer) :]


def _read_order(stage: BlockStage, reader: SBlock) -> list[int]:
    """The axes of the reader in the order of the tensor that a stage copies for it.

    Empty where the reader's indices are not its axes in their order.
    """
    found: list[int | None] = []
    made = str(stage.block.writes[0].source.name)  # a schedule has buffers of its own
    for region in reader.reads:
        if str(region.source.name) != made:
            continue
        for item, extent in zip(region.region, stage.spatial_extents, strict=True):
            axis = next((n for n, one in enumerate(reader.iter_vars) if item.min.same_as(one.var)), None)
            if axis is None and extent > 1:
                return []
            found.append(axis)
    known = [axis for axis in found if axis is not None]
    if known != sorted(set(known)) or len(found) != len(stage.spatial):
        return []
    order = [found[axis] for axis in order_of_copy(stage.block) or ()]
    return [axis for axis in order if axis is not None]


def _block(analysis: BlockAnalysis, orders: Sequence[Sequence[int]]) -> list[int] | None:
    """The extents of a block of the last stage: one element along axes that have neighbours nowhere.

    `orders` are the axes in the orders of operands, which must end with the same axis. None where no block is good.
    """
    extents = analysis.stages[-1].spatial_extents
    large = prod(extents) >= _LARGE
    if not all(orders) or len({_longer(order, extents)[-1:] for order in orders}) != 1:
        return None
    sizes = [1] * len(extents)
    _grow(sizes, extents, range(len(extents)), _LONG_COLUMNS if large else _COLUMNS, wide=True)
    small = prod(sizes) * _FEWEST <= _UNROLLED
    for order in orders:
        _grow(sizes, extents, order, _ROWS, wide=large or small)
    return sizes if _UNROLLED < prod(sizes) <= _MOST_ELEMENTS else None


def _longer(order: Sequence[int], extents: Sequence[int]) -> tuple[int, ...]:
    return tuple(axis for axis in order if extents[axis] > 1)


def _grow(sizes: list[int], extents: Sequence[int], order: Sequence[int], most: int, *, wide: bool) -> None:
    """Take more elements along the last axes of `order`, until these fill the lanes of vectors."""
    count = 1
    for axis in reversed(order):
        sizes[axis] = max(sizes[axis], _size(extents[axis], most // count, wide=wide))
        count *= sizes[axis]
        if sizes[axis] < extents[axis] or count >= _FEWEST:
            return


def _size(extent: int, most: int, *, wide: bool) -> int:
    """The elements of a block along an axis: a divisor, of whole vectors where there is one; the largest if `wide`.

    All of them where divisors are too small.
    """
    found = divisors(extent, most)
    whole = [size for size in found if size % _FEWEST == 0]
    if whole:
        return whole[-1 if wide else 0]
    return found[-1] if found[-1] >= min(_FEWEST, extent) else extent
