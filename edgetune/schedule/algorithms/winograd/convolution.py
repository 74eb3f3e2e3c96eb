"""Pattern matching for Winograd's minimal filtering: recognises kernels that are 3x3 convolutions of stride 1."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import ir, tirx

from edgetune.affine.domain import Domain, simplified
from edgetune.affine.expressions import is_branch, is_zero
from edgetune.graph.element_type import is_floating, type_of
from edgetune.schedule.algorithms.winograd.minimal_filtering import KERNEL
from edgetune.schedule.sketches.block_analysis import BlockAnalysis, BlockStage, analyse_blocks, extent_of
from edgetune.tvm_types import BufferLoad, Expr, IterVar, PrimFunc, TvmBuffer, Var

_RANK = 4  # batch, height, width, channels


@dataclass(frozen=True)
class Convolution:
    """A convolution of N x height x width x channels ("NHWC") by 3 x 3, stride 1, one group, of one type of floats.

    `source` is the buffer read; it may have more channels after the `channels` that are summed. `top` and `left` are
    the numbers of zeros before its start (elements after its end are zero as well). `weights` is the parameter's
    number; `weight_axes` are its axes for window row, window column, input channel and output channel. `result` is the
    buffer written, of shape (batch, height, width, filters). `before` and `after` are the other stages.
    """

    anchor: BlockStage
    source: TvmBuffer
    channels: int
    top: int
    left: int
    weights: int
    weight_axes: tuple[int, int, int, int]
    result: TvmBuffer
    before: tuple[BlockStage, ...]
    after: tuple[BlockStage, ...]

    @property
    def dtype(self) -> str:
        """The type of data, weights and results."""
        return type_of(self.source)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Batch, height, width, filters."""
        return self.anchor.spatial_extents


def find_convolution(function: PrimFunc) -> Convolution | None:
    """The convolution of an unscheduled PrimFunc; None if it is another kernel or computes something else too."""
    analysis = analyse_blocks(function)
    if analysis is None or len(analysis.reductions) != 1 or len(analysis.outputs) != 1:
        return None
    anchor = analysis.reductions[0]
    if len(anchor.spatial) != _RANK or len(anchor.reduction) != KERNEL or not anchor.writes_its_axes():
        return None
    operands = _operands(anchor, analysis)
    if operands is None:
        return None
    data, weights = operands
    axes = _window_axes(anchor, data)
    if axes is None:
        return None
    number = next(n for n, param in enumerate(function.params) if param.same_as(weights.source))
    order = _weight_axes(weights, (*axes, anchor.spatial[-1]))
    place = analysis.stages.index(anchor)
    before = list(analysis.stages[:place])
    padded = _padding(before, data.source)
    if order is None or padded is None:
        return None
    source, top, left = padded
    if not source.same_as(data.source):  # the Winograd stages include the padding
        before = [stage for stage in before if not stage.block.writes[0].source.same_as(data.source)]
    after = analysis.stages[place + 1 :]
    result = anchor.block.writes[0].source
    if not all(stage.spatial_extents == anchor.spatial_extents and stage.writes_its_axes() for stage in after):
        return None  # the output has another layout than the convolution
    if any(len(stage.block.writes) != 1 or stage.reduction for stage in before):
        return None
    return Convolution(anchor, source, extent_of(axes[2]), top, left, number, order, result, tuple(before), after)


def _operands(anchor: BlockStage, analysis: BlockAnalysis) -> tuple[BufferLoad, BufferLoad] | None:
    """Loads of data and weights, if the stage sums products of exactly these, all of one floating-point type."""
    store = anchor.block.body
    if not isinstance(store, tirx.BufferStore) or not isinstance(store.value, tirx.Add):
        return None
    product = store.value.b if isinstance(store.value.a, ir.TensorLoad) else store.value.a
    if not isinstance(product, tirx.Mul):
        return None
    loads = [product.a, product.b]
    if not all(isinstance(load, ir.TensorLoad) and len(load.indices) == _RANK for load in loads):
        return None
    types = {type_of(store.buffer), *(type_of(load.source) for load in loads)}
    if len(types) > 1 or not is_floating(store.buffer):
        return None
    free = analysis.packed()
    constant = [any(load.source.same_as(param) for param in free) for load in loads]
    if constant == [False, True]:
        return loads[0], loads[1]
    return (loads[1], loads[0]) if constant == [True, False] else None


def _window_axes(anchor: BlockStage, data: BufferLoad) -> tuple[IterVar, IterVar, IterVar] | None:
    """The reduction axes of window row, window column and channel, if the data is read with stride and dilation 1."""
    batch, height, width, channel = data.indices
    if not batch.same_as(anchor.spatial[0].var) and not is_zero(batch):
        return None
    found = []
    for index, axis in ((height, anchor.spatial[1]), (width, anchor.spatial[2])):
        window = [r for r in anchor.reduction if _is_sum(index, axis.var, r.var)]
        if len(window) != 1 or extent_of(window[0]) != KERNEL:
            return None
        found.append(window[0])
    if found[0].same_as(found[1]):
        return None
    depth = [r for r in anchor.reduction if channel.same_as(r.var)]
    if len(depth) != 1:
        return None
    return found[0], found[1], depth[0]


def _is_sum(index: Expr, one: Var, other: Var) -> bool:
    if not isinstance(index, tirx.Add):
        return False
    first, second = (index.a, index.b) if index.a.same_as(one) else (index.b, index.a)
    return bool(first.same_as(one) and second.same_as(other))


def _weight_axes(weights: BufferLoad, axes: tuple[IterVar, ...]) -> tuple[int, int, int, int] | None:
    places = [[n for n, index in enumerate(weights.indices) if index.same_as(axis.var)] for axis in axes]
    if any(len(place) != 1 for place in places):
        return None
    row, column, channel, filters = (place[0] for place in places)
    return row, column, channel, filters


def _padding(before: list[BlockStage], data: TvmBuffer) -> tuple[TvmBuffer, int, int] | None:
    """The buffer that `data` pads with zeros, and the zeros above and left of it; `data` itself if not padded."""
    maker = next((s for s in before if any(w.source.same_as(data) for w in s.block.writes)), None)
    if maker is None or not maker.branches():
        return data, 0, 0
    store = maker.block.body
    value = store.value if isinstance(store, tirx.BufferStore) and maker.writes_its_axes() else None
    if value is None or not is_branch(value):
        return None
    condition, inside, outside = value.args
    if not isinstance(inside, ir.TensorLoad) or len(inside.indices) != _RANK:
        return None
    if not isinstance(outside, tirx.FloatImm) or float(outside.value) != 0.0:
        return None
    starts = [_distance(axis.var, index) for axis, index in zip(maker.spatial, inside.indices, strict=True)]
    if None in starts or starts[0] != 0 or starts[-1] != 0:
        return None
    # If the condition holds, the load is inside the source. If it holds everywhere there, the stage is a padding.
    ends = zip(maker.spatial, starts, inside.source.ty.shape, strict=True)
    places = {axis.var: ir.Range.from_min_extent(start, int(extent)) for axis, start, extent in ends}
    if not Domain(places).analyzer.can_prove(condition):
        return None
    return inside.source, int(starts[1] or 0), int(starts[2] or 0)


def _distance(axis: Var, index: Expr) -> int | None:
    """The difference of `axis` and `index`, if it is a constant of at least 0."""
    difference = simplified(axis - index)
    return int(difference.value) if isinstance(difference, tirx.IntImm) and int(difference.value) >= 0 else None
