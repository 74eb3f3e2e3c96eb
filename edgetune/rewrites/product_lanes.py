"""Lanes of a product: the axis of its results along which vectors run, with operands copied into that order.

In `sum(a[i, k] * b[j, k])` no axis of the results is contiguous in both operands. One kernel copies b with j last, and
the product reads the copy, as packing does in a matrix multiplication (Goto and van de Geijn, Anatomy of
High-Performance Matrix Multiplication, TOMS 34(3), 2008). Vectors may also run along i, between copies of a and of the
result. In `bhqd,bkd->bhqk` the copied operand is the one that heads share. An axis of 3, 5 to 7 or 9 to 15 elements is
padded to a whole vector. Rows of a copied operand are whole lines of a cache. The cycles of the product and of the
copies (`_plans`) must be at most `Margins.gain` of those of the product in place (`_cycles_in_place`). A transposition
that stands before a product stays a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, prod

from tvm import tirx

from edgetune.affine.access import Access
from edgetune.affine.expressions import is_among, mentions
from edgetune.graph.element_type import is_floating
from edgetune.rewrites.reordered import OrderConflict, Orders, elements_of, written_by
from edgetune.schedule.rules.factored_reduction import FactoredReduction, contiguous_axes, factored_sizes
from edgetune.schedule.rules.tiling import loads_of
from edgetune.schedule.sketches.block_analysis import COMPUTED_ONCE, BlockStage, extent_of
from edgetune.schedule.sketches.tile import lanes_for
from edgetune.schedule.tile_costs import divisors
from edgetune.target.core import WIDEST, Core
from edgetune.tvm_types import BufferLoad, IterVar, Stmt, TvmBuffer

_FEWEST_ROWS, _MOST_ROWS = 4, 8


@dataclass(frozen=True)
class _Plan:
    """Lanes along the spatial axis `axis`; operands that are copied, each with its axis, and whether the result is."""

    axis: int
    padded: int
    copied: tuple[tuple[TvmBuffer, int], ...]
    result: bool
    cycles: float


def with_product_lanes(
    stages: Sequence[BlockStage], constants: Sequence[TvmBuffer], core: Core = WIDEST
) -> list[list[Stmt | BlockStage]]:
    """The kernels that compute `stages`, each as its new statements and the stages that stay as they are.

    Empty where no other order is faster.
    """
    found = [stage for stage in stages if stage.reduction]
    if len(found) != 1 or not _is_product(found[0], core):
        return []
    product, place = found[0], stages.index(found[0])
    before, after = list(stages[:place]), list(stages[place + 1 :])
    best = min(_plans(product, constants, core), key=lambda plan: plan.cycles, default=None)
    if best is None or best.cycles > core.margins.gain * _cycles_in_place(product, constants, core):
        return _with_kernels_before(before, [product, *after])
    orders = Orders()
    try:
        for buffer, axis in best.copied:
            orders.add(buffer, axis, best.padded, lines=not best.padded)
        if best.result:
            orders.add(written_by(product), best.axis, best.padded)
    except OrderConflict:
        return []
    made: list[Stmt | BlockStage] = [orders.stage(product, product.name, product.reduction)]
    copies: list[list[Stmt | BlockStage]] = [[orders.copy(buffer)] for buffer, _ in best.copied]
    tail = [[orders.copy_back(written_by(product)), *after]] if best.result else []
    return [*([[*before]] if before else []), *copies, made if best.result else [*made, *after], *tail]


def _with_kernels_before(before: Sequence[BlockStage], rest: list[BlockStage]) -> list[list[Stmt | BlockStage]]:
    """Stages with those `before` a product that transpose, or are computed once, as kernels of their own.

    A register tile would repeat them for each element that it reads. Empty where there are none.
    """
    written = [written_by(stage) for stage in before]
    across = [number for number, stage in enumerate(before) if _transposes(stage) or _is_computed_once(stage)]
    if not across:
        return []
    if any(is_among(load.source, written) for number in across for load in loads_of(before[number])):
        last = across[-1] + 1
        return [[*before[:last]], [*before[last:], *rest]]
    others = [stage for number, stage in enumerate(before) if number not in across]
    return [*([before[number]] for number in across), [*others, *rest]]


def _is_computed_once(stage: BlockStage) -> bool:
    return COMPUTED_ONCE in stage.block.annotations


def _transposes(stage: BlockStage) -> bool:
    """Whether neighbours along the last axis of what a stage writes come from places that are no neighbours."""
    if not stage.spatial or extent_of(stage.spatial[-1]) == 1:
        return False
    return not all(Access.of(load).follows(stage.spatial[-1].var) for load in _moving(stage, stage.spatial[-1]))


def _is_product(stage: BlockStage, core: Core) -> bool:
    """Whether a reduction is large enough, and reads tensors of floats by its axes alone: no windows, no groups."""
    tensors = (*stage.reads(), *stage.block.writes)
    places = [axis.var for axis in (*stage.spatial, *stage.reduction)]
    indices = [index for load in loads_of(stage) for index in load.indices]
    return (
        stage.writes_its_axes()
        and stage.work >= core.least_terms
        and len(stage.reads()) > 1
        and all(is_floating(region.source) for region in tensors)
        and all(isinstance(index, tirx.IntImm) or any(index.same_as(place) for place in places) for index in indices)
    )


def _plans(product: BlockStage, constants: Sequence[TvmBuffer], core: Core) -> Iterator[_Plan]:
    for number, axis in enumerate(product.spatial):
        if extent_of(axis) > 1:
            plan = _plan(product, number, constants, core)
            if plan is not None:
                yield plan


def _plan(product: BlockStage, number: int, constants: Sequence[TvmBuffer], core: Core) -> _Plan | None:
    """The plan with lanes along one spatial axis; None where an operand's windows lie across it."""
    axis = product.spatial[number]
    extent = extent_of(axis)
    padded = _whole_vector(extent, core)
    copied: dict[str, tuple[TvmBuffer, int]] = {}
    straight: list[TvmBuffer] = []
    for load in _moving(product, axis):
        place = _place(load, axis)
        if not padded and (Access.of(load).follows(axis.var) or is_among(load.source, constants)):
            straight.append(load.source)
        elif place is None:
            return None
        else:
            copied.setdefault(str(load.source.name), (load.source, place))
            if copied[str(load.source.name)][1] != place:
                return None
    if any(is_among(buffer, straight) for buffer, _ in copied.values()):
        return None
    result = number != len(product.spatial) - 1 or padded > 0
    moves = sum(_copy_cycles(buffer, place, padded, core) for buffer, place in copied.values())
    moves += _copy_cycles(written_by(product), number, padded, core) if result else 0
    cycles = _vector_steps(product, extent, _lanes(extent, core, whole=True)) * core.costs.operation + moves
    return _Plan(number, padded, tuple(copied.values()), result, cycles)


def _cycles_in_place(product: BlockStage, constants: Sequence[TvmBuffer], core: Core) -> float:
    """Predicted cycles of the product as it is, in one kernel: lanes along its last axis, or along its terms."""
    number = len(product.spatial) - 1
    axis = product.spatial[number]
    loads = [load for load in _moving(product, axis) if not is_among(load.source, constants)]
    across = [load for load in loads if not Access.of(load).follows(axis.var)]
    lanes = _lanes(extent_of(axis), core, whole=False)
    if across and any(product.reduction_extents[n] % core.lanes == 0 for n in contiguous_axes(product, constants)):
        lanes = lanes_for(extent_of(axis), core.lanes)  # vectors overlap only where lanes cannot run along the terms
    spatial = _vector_steps(product, extent_of(axis), lanes) * core.costs.operation
    if across:
        spatial *= core.costs.packed_product if _shares_rows(product) else core.costs.lone_rows
        spatial += core.move("one_by_one") * sum(elements_of(load.source) for load in across)
    if any(_place(load, axis) is None for load in across):
        spatial = inf  # what lies across the lanes cannot be packed
    terms = [_factored(product, axis, core) for axis in contiguous_axes(product, constants)]
    return min([spatial, product.work * core.costs.operation, *terms])


def _factored(product: BlockStage, axis: int, core: Core) -> float:
    """Predicted cycles with lanes along a reduction axis; a rest that fills no vector is peeled off."""
    lanes = core.lanes
    if product.reduction_extents[axis] < 2 * lanes:
        return inf
    return factored_sizes(FactoredReduction(product, axis, lanes), core)[0] * product.work / lanes


def _vector_steps(product: BlockStage, extent: int, lanes: int) -> float:
    """Vector multiply-adds of a product with `lanes` along an axis of `extent` elements; the last vectors overlap."""
    return product.work / extent * -(-extent // lanes)


def _lanes(extent: int, core: Core, *, whole: bool) -> int:
    """The lanes of the vectors of an axis: `whole` if it is padded where it is shorter than a vector."""
    padded = _whole_vector(extent, core)
    if not padded:
        return min(core.lanes, 1 << (extent.bit_length() - 1))
    return padded if whole else padded // 2


def _copy_cycles(buffer: TvmBuffer, axis: int, padded: int, core: Core) -> float:
    """Predicted cycles to copy a tensor with one axis at its end."""
    extents = [int(extent) for extent in buffer.ty.shape]
    turned = not padded and min(extents[axis], extents[-1]) >= core.lanes
    return prod(extents) * core.move("turned" if turned else "one_by_one")


def _whole_vector(extent: int, core: Core) -> int:
    """The lanes of the vector to which a short axis is padded; 0 for an axis that needs no padding."""
    if extent >= core.lanes or extent & (extent - 1) == 0:
        return 0
    return 1 << extent.bit_length()


def _shares_rows(product: BlockStage) -> bool:
    return max(max(divisors(extent, _MOST_ROWS)) for extent in (1, *product.spatial_extents[:-1])) >= _FEWEST_ROWS


def _moving(product: BlockStage, axis: IterVar) -> list[BufferLoad]:
    """The loads whose place depends on a spatial axis."""
    return [load for load in loads_of(product) if any(mentions(index, axis.var) for index in load.indices)]


def _place(load: BufferLoad, axis: IterVar) -> int | None:
    """The only index of a load that depends on an axis, if it is exactly that; None otherwise."""
    found = [number for number, index in enumerate(load.indices) if mentions(index, axis.var)]
    return found[0] if len(found) == 1 and load.indices[found[0]].same_as(axis.var) else None
