"""Small members of a batch: their stages are computed with lanes across members, between transpositions.

A running sum of 31 elements, or the product of a 6x6 matrix and a vector, fills few lanes inside one member, and adds
across lanes for each result. With the axis of the batch last, each step is that of as many members as a vector has
lanes, where there are at least 64. The cycles across members (`_cycles_across`) and those of the copies must be at most
`Margins.gain_of_rewrite` of the cycles inside a member (`_cycles_inside`). Stages in which members share a matrix keep
their tiles. Rows with a function or a division have a rule of their own (`short_rows.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, prod

from tvm import ir, tirx

from edgetune.affine.expressions import expressions, is_among, is_branch, mentions
from edgetune.codegen.polynomials import BODIES
from edgetune.graph.element_type import is_floating
from edgetune.rewrites.reordered import mentioned, place_of, written_by
from edgetune.rewrites.short_rows import with_axis_last
from edgetune.schedule.sketches.block_analysis import BlockStage, stores
from edgetune.schedule.sketches.lane_loads import has_rows_of_terms
from edgetune.target.core import WIDEST, Core
from edgetune.target.costs import MARGINS, Costs
from edgetune.tvm_types import Expr, Node, Stmt, TvmBuffer

_FEWEST_MEMBERS = 64
_MOST_ELEMENTS = 1 << 9
"""Elements of a member beyond which its own rows and loops fill vectors."""

_MOST_IN_ALL = 1 << 18
"""Elements of a tensor beyond which copies come from memory rather than from a cache."""

_ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Max, tirx.Min)
_ROOTS = ("tirx.sqrt", "tirx.rsqrt")
_ROUNDINGS = ("tirx.fabs", "tirx.floor", "tirx.ceil", "tirx.trunc", "tirx.round", "tirx.nearbyint")


def with_members_as_lanes(
    stages: Sequence[BlockStage], constants: Sequence[TvmBuffer], needed: Sequence[TvmBuffer], core: Core = WIDEST
) -> list[list[Stmt]]:
    """The statements of the kernels that compute `stages` with the axis of a batch last; empty where none helps.

    The batch is the first axis of all stages, and of all tensors that have it. Only the last stage may write a tensor
    that is `needed` by others, because that one alone is transposed back.
    """
    written = [written_by(stage) for stage in stages]
    if len(stages) == 1 or not any(stage.reduction for stage in stages):
        return []  # one sum alone has a tile of its own
    if any(is_among(buffer, needed) for buffer in written[:-1]):
        return []
    members = stages[0].spatial_extents[:1]
    if not members or members[0] < _FEWEST_MEMBERS:
        return []
    if not all(_is_of_batch(stage, members[0], written) for stage in stages):
        return []
    copies = core.move("of_members") * _copied(stages, written)
    for lanes in (core.lanes // 2, core.lanes):  # a compiler may take vectors of half the width
        inside = sum(_cycles_inside(stage, lanes, core.costs) for stage in stages)
        across = _cycles_across(stages, lanes, core.costs) + copies
        saved = members[0] * (inside - across)
        if across > core.margins.gain_of_rewrite * inside or saved < MARGINS.saved_by_members:
            return []
    return with_axis_last(stages, 0, constants)


def _is_of_batch(stage: BlockStage, members: int, written: Sequence[TvmBuffer]) -> bool:
    """Whether a stage computes each member of a batch, from tensors that have it first, or are shared by all."""
    if not stage.writes_its_axes() or stage.spatial_extents[:1] != (members,):
        return False
    batch = stage.spatial[0]
    tensors = [written_by(stage)]
    if _has_matrix(stage) or not all(map(_has_lanes, _nodes(stage))):
        return False
    for region in stage.reads():
        if mentioned(region, batch):
            if place_of(region, batch) != 0 or int(region.source.ty.shape[0]) != members:
                return False
            tensors.append(region.source)
        elif is_among(region.source, written):
            return False
    conditions = (node.condition for node in _nodes(stage) if isinstance(node, tirx.Select))
    if any(mentions(condition, batch.var) for condition in conditions):
        return False
    sizes = (prod(map(int, buffer.ty.shape)) for buffer in tensors)
    if any(size > min(_MOST_ELEMENTS * members, _MOST_IN_ALL) for size in sizes):
        return False
    return all(map(is_floating, tensors))


def _nodes(stage: BlockStage) -> Iterator[Expr]:
    return (node for store in stores(stage.block.body) for node in expressions(store.value))


def _has_lanes(node: Expr) -> bool:
    """Whether vectors compute a value: neither a branch nor a function that is called for each lane."""
    if not isinstance(node, ir.Call):
        return True
    name = str(node.op.name)
    return not is_branch(node) and (name in (*_ROOTS, *_ROUNDINGS) or name.removeprefix("tirx.") in BODIES)


def _has_matrix(stage: BlockStage) -> bool:
    """Whether all members share a tensor of results and terms, as in a product, or look an element up.

    A tile of several members serves a product.
    """
    batch = stage.spatial[0]
    for load in (node for node in _nodes(stage) if isinstance(node, ir.TensorLoad)):
        if any(isinstance(node, ir.TensorLoad) for index in load.indices for node in expressions(index)):
            return True
        of_results, of_terms = (
            [axis for axis in axes if any(mentions(index, axis.var) for index in load.indices)]
            for axes in (stage.spatial, stage.reduction)
        )
        if of_results and of_terms and not any(axis.same_as(batch) for axis in of_results):
            return True
    return False


def _loads(stage: BlockStage) -> list[Node]:
    """The loads of tensors of the batch, except those of the sum."""
    own, batch = written_by(stage), stage.spatial[0].var
    loads = (node for node in _nodes(stage) if isinstance(node, ir.TensorLoad) and not node.source.same_as(own))
    return [load for load in loads if any(mentions(index, batch) for index in load.indices)]


def _cycles(stage: BlockStage, lanes: int, costs: Costs) -> float:
    """Cycles of one term, or of one element, of as many results as there are `lanes`."""
    return sum(_cost(node, lanes, costs) for node in _nodes(stage) if "float" in str(node.ty))


def _cost(node: Expr, lanes: int, costs: Costs) -> float:
    if isinstance(node, ir.Call):
        name = str(node.op.name)
        if name in _ROOTS:
            return costs.divided(lanes)
        return costs.operation if name in _ROUNDINGS else costs.function
    if isinstance(node, tirx.Div) and not isinstance(node.b, tirx.FloatImm):
        return costs.divided(lanes)
    if isinstance(node, tirx.Add) and any(isinstance(side, tirx.Mul) for side in (node.a, node.b)):
        return 0  # a multiply-add
    return costs.operation if isinstance(node, (*_ARITHMETIC, tirx.Div, tirx.Select)) else 0


def _share_of_terms(stage: BlockStage) -> float:
    """The share of its terms that a stage adds: half of a triangle, whose condition compares a result and a term."""
    results, terms = ([axis.var for axis in axes] for axes in (stage.spatial, stage.reduction))
    selections = (node for node in _nodes(stage) if isinstance(node, tirx.Select))
    compared = (all(any(mentions(one.condition, v) for v in axes) for axes in (results, terms)) for one in selections)
    return 0.5 if any(compared) else 1.0


def _pieces(extent: int, widest: int) -> list[int]:
    """The lanes of the vectors that make a row, at least 4, or 1 for a single element."""
    rest = [lanes for lanes in (8, 4, 2, 1) if extent % widest & lanes]
    return [widest] * (extent // widest) + [max(lanes, 4) if lanes > 1 else 1 for lanes in rest]


def _cycles_inside(stage: BlockStage, widest: int, costs: Costs) -> float:
    """Cycles for one member with lanes inside of it."""
    results = prod(stage.spatial_extents[1:])
    row = stage.spatial_extents[-1] if len(stage.spatial) > 1 else 1
    terms = prod(stage.reduction_extents)
    if not stage.reduction or (row > 1 and has_rows_of_terms(stage)):
        return results / row * terms * sum(_cycles(stage, lanes, costs) for lanes in _pieces(row, widest))
    last = stage.reduction_extents[-1]
    pieces = _pieces(last, widest)
    steps = terms / last * sum(_cycles(stage, lanes, costs) for lanes in pieces)
    return results * min(steps + costs.lanes_joined * len(set(pieces)), terms * _cycles(stage, 1, costs))


def _cycles_across(stages: Sequence[BlockStage], widest: int, costs: Costs) -> float:
    """Cycles for one member with lanes across members, of which a vector has its share."""
    steps = [prod(one.spatial_extents[1:]) * prod(one.reduction_extents) * _share_of_terms(one) for one in stages]
    pairs = list(zip(stages, steps, strict=True))
    computed = sum(count * _cycles(stage, widest, costs) for stage, count in pairs) / widest
    return max(computed, costs.far_element * sum(count * len(_loads(stage)) for stage, count in pairs))


def _copied(stages: Sequence[BlockStage], written: Sequence[TvmBuffer]) -> int:
    """Elements of a member that are copied: those of the inputs, and of a result with more than one."""
    members = stages[0].spatial_extents[0]
    read: list[TvmBuffer] = []
    for stage in stages:
        sources = [region.source for region in stage.reads() if mentioned(region, stage.spatial[0])]
        read += [source for source in sources if not is_among(source, [*written, *read])]
    moved = [buffer for buffer in (*read, written[-1]) if len(buffer.ty.shape) > 1]
    return sum(ceil(prod(map(int, buffer.ty.shape)) / members) for buffer in moved)
