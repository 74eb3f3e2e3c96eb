"""Operands of integer products: the copy of a kernel's data in the type that an instruction reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tvm import tirx

from edgetune.affine.expressions import mentions, with_places
from edgetune.affine.steps import step_along
from edgetune.graph.element_type import type_of
from edgetune.graph.reduction_stage import Axis, ReductionStage, buffer_of, variable
from edgetune.schedule.algorithms.integer_products.product import Product
from edgetune.schedule.sketches.block_analysis import BlockAnalysis
from edgetune.tvm_types import BufferLoad, Expr, TvmBuffer, Var

_PIXELS_AND_CHANNELS = 2  # the last axes of an image


@dataclass(frozen=True)
class Steps:
    """The data in steps of several products along axes of terms, the last one of which is innermost.

    `copy` is the stage that copies the data, if one does, and `load` the data of a product. `step` is the variable of
    the steps, `inner` that of the products of one. `missing` terms fill the last step.
    """

    axes: tuple[Axis, ...]
    step: Var
    inner: Var
    missing: int
    copy: ReductionStage | None
    load: BufferLoad

    @property
    def terms(self) -> int:
        """Products of all steps that are not missing."""
        return prod(extent for _, extent in self.axes)

    def waste(self) -> tuple[float, int]:
        """The share of missing products, and then the shortness of the axes."""
        return self.missing / self.terms, -self.terms


def steps_of(found: Product, analysis: BlockAnalysis, dtype: str, order: tuple[int, ...]) -> Steps | None:
    """The data in steps of products, in memory as `dtype`; None where no axis of terms can be divided so.

    The products of a step are in `order`: the data that comes first, and so on.
    """
    axes = [axis for axis in found.whole.summed if axis[1] > 1 and found.weight_axis(axis) is not None]
    known = [one for axis in axes if (one := _side_by_side(found, axis, analysis, dtype, order)) is not None]
    plain = min(known, key=Steps.waste, default=None)
    if plain is not None and not plain.missing:
        return plain
    rows = [one for axis in axes if (one := _rows_of_pixels(found, axis, dtype, order)) is not None]
    return min([*rows, *([] if plain is None else [plain])], key=Steps.waste, default=None)


def _rows_of_pixels(found: Product, taps: Axis, dtype: str, order: tuple[int, ...]) -> Steps | None:
    """Taps along a row and their channels as one axis: in a row of pixels, the channels of all of them lie in turn.

    The row is an axis of a copy then. Where channels are few, that fills more of the last step than each pixel does.
    """
    source, indices = found.data.source, found.data.indices
    if len(indices) < _PIXELS_AND_CHANNELS:
        return None
    pixel, last, channels = indices[-2], indices[-1], int(source.shape[-1])
    inner = next((axis for axis in found.whole.summed if last.same_as(axis[0]) and axis[1] == channels), None)
    whole = inner is not None or channels == 1
    others = [*indices[:-2], last]
    if not whole or step_along(pixel, taps[0]) != 1 or any(mentions(one, taps[0]) for one in others):
        return None
    axes = (taps, inner) if inner is not None else (taps,)
    count = len(order)
    missing = -prod(extent for _, extent in axes) % count
    index = str(taps[0].ty.dtype)
    step, term = variable("window_step", index), variable("window_dot", index)
    first = with_places(pixel, {taps[0]: tirx.IntImm(index, 0)})
    copy = _copied_rows(found, dtype, missing)
    at = [*indices[:-2], first * channels + step * count + _in_order(term, order)]
    return Steps(axes, step, term, missing, copy, tirx.BufferLoad(copy.out, at))


def windows_of(found: Product, dtype: str, order: tuple[int, ...]) -> Steps | None:
    """All terms of each result side by side in a copy (im2col), in steps; None where there are no windows of them.

    Copies of neighbouring windows share elements. Zeros fill the last step as terms of the first axis.
    """
    axes = tuple(axis for axis in found.whole.summed if axis[1] > 1)
    own = [axis for axis in found.whole.spatial if any(mentions(one, axis[0]) for one in found.data.indices)]
    steps = (step_along(one, axis[0]) for one in found.data.indices for axis in axes)
    if len(axes) < _OF_WINDOW or any(step is None for step in steps):
        return None
    count, index = len(order), found.whole.index_type
    (first, extent), rest = axes[0], axes[1:]
    inner = prod(extent for _, extent in rest)
    missing = -extent * inner % count
    if missing % inner:
        return None
    longer = ((first, extent + missing // inner), *rest)
    renamed = {axis: variable(f"i{place}", index) for place, (axis, _) in enumerate((*own, *longer))}
    value = _as(dtype, found.data.source, [with_places(one, renamed) for one in found.data.indices])
    if missing:
        value = tirx.if_then_else(renamed[first] < extent, value, tirx.const(0, dtype))
    places = tuple((renamed[axis], length) for axis, length in (*own, *longer))
    at = tuple(one for one, _ in places)
    copy = ReductionStage("operand", buffer_of("operand", places, dtype), at, places, (), value)
    step, term = variable("window_step", index), variable("window_dot", index)
    left, terms = step * count + _in_order(term, order), []
    for _, length in reversed(rest):
        terms.append(tirx.floormod(left, length))
        left = tirx.floordiv(left, length)
    indices = [*(axis for axis, _ in own), left, *reversed(terms)]
    return Steps(axes, step, term, missing, copy, tirx.BufferLoad(copy.out, indices))


_OF_WINDOW = 2  # axes


def _copied_rows(found: Product, dtype: str, missing: int) -> ReductionStage:
    """The copy of the data as `dtype`, in which pixels of a row and their channels are one axis, with zeros behind."""
    source = found.data.source
    *shape, pixels, channels = map(int, source.shape)
    row = pixels * channels
    axes = [(variable(f"i{place}", found.whole.index_type), extent) for place, extent in enumerate(shape)]
    axes.append((variable(f"i{len(shape)}", found.whole.index_type), row + missing))
    *outer, last = [one for one, _ in axes]
    value = _as(dtype, source, [*outer, tirx.floordiv(last, channels), tirx.floormod(last, channels)])
    if missing:
        value = tirx.if_then_else(last < row, value, tirx.const(0, dtype))
    places = tuple(one for one, _ in axes)
    return ReductionStage("operand", buffer_of("operand", axes, dtype), places, tuple(axes), (), value)


def _in_order(term: Var, order: tuple[int, ...]) -> Expr:
    """The place in a step of the data of the product `term`: every second one comes first, or they are in turn."""
    if order == tuple(range(len(order))):
        return term
    half = len(order) // 2
    assert order == (*range(0, len(order), 2), *range(1, len(order), 2))  # noqa: S101  the orders of instructions
    return tirx.floormod(term, half) * 2 + tirx.floordiv(term, half)


def _side_by_side(
    found: Product, axis: Axis, analysis: BlockAnalysis, dtype: str, order: tuple[int, ...]
) -> Steps | None:
    source, count = found.data.source, len(order)
    if not found.is_side_by_side(axis):
        return None
    missing = -axis[1] % count
    alone = found.data.indices[-1].same_as(axis[0]) and int(source.shape[-1]) == axis[1]
    if missing and not alone:
        return None
    name, index = str(axis[0].name), str(axis[0].ty.dtype)
    step, inner = variable(f"{name}_step", index), variable(f"{name}_dot", index)
    computed = is_computed(source, analysis)
    copy = copied(found, dtype, missing) if missing or type_of(source) != dtype or computed else None
    indices = [with_places(one, {axis[0]: step * count + _in_order(inner, order)}) for one in found.data.indices]
    return Steps((axis,), step, inner, missing, copy, tirx.BufferLoad(source if copy is None else copy.out, indices))


def is_computed(source: TvmBuffer, analysis: BlockAnalysis) -> bool:
    """Whether a stage of the kernel writes a tensor."""
    return any(write.source.same_as(source) for stage in analysis.stages for write in stage.block.writes)


def copied(found: Product, dtype: str, missing: int = 0) -> ReductionStage:
    """The copy of the data as `dtype`, with so many zeros at the end of each row."""
    source = found.data.source
    axes = [(variable(f"i{place}", found.whole.index_type), int(extent)) for place, extent in enumerate(source.shape)]
    row = axes[-1][1]
    axes[-1] = (axes[-1][0], row + missing)
    places = [one for one, _ in axes]
    value = _as(dtype, source, places)
    if missing:
        value = tirx.if_then_else(places[-1] < row, value, tirx.const(0, dtype))
    return ReductionStage("operand", buffer_of("operand", axes, dtype), tuple(places), tuple(axes), (), value)


def _as(dtype: str, source: TvmBuffer, places: Sequence[Expr]) -> Expr:
    load = tirx.BufferLoad(source, list(places))
    return load if type_of(source) == dtype else tirx.Cast(dtype, load)
