"""Operands of integer products: the copy of a kernel's data in the type that an instruction reads."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx

from edgetune.affine.expressions import with_places
from edgetune.graph.element_type import type_of
from edgetune.graph.reduction_stage import Axis, ReductionStage, buffer_of, variable
from edgetune.schedule.algorithms.integer_products.product import Product
from edgetune.schedule.sketches.block_analysis import BlockAnalysis
from edgetune.tvm_types import BufferLoad, Expr, TvmBuffer, Var


@dataclass(frozen=True)
class Steps:
    """The data in steps of several products along an axis of terms, which lie side by side.

    `copy` is the stage that copies the data, if one does, and `load` the data of a product. `step` is the variable of
    the steps, `inner` that of the products of one. `missing` terms fill the last step.
    """

    axis: Axis
    step: Var
    inner: Var
    missing: int
    copy: ReductionStage | None
    load: BufferLoad


def steps_of(found: Product, analysis: BlockAnalysis, dtype: str, count: int) -> Steps | None:
    """The data in steps of `count` products, in memory as `dtype`; None where no axis of terms can be divided so."""
    axes = [axis for axis in found.whole.summed if axis[1] > 1 and found.weight_axis(axis) is not None]
    known = [one for axis in axes if (one := _side_by_side(found, axis, analysis, dtype, count)) is not None]
    return min(known, key=lambda one: (one.missing / one.axis[1], -one.axis[1]), default=None)


def _side_by_side(found: Product, axis: Axis, analysis: BlockAnalysis, dtype: str, count: int) -> Steps | None:
    source = found.data.source
    if not found.is_side_by_side(axis):
        return None
    missing = -axis[1] % count
    alone = found.data.indices[-1].same_as(axis[0]) and int(source.shape[-1]) == axis[1]
    if missing and not alone:
        return None
    name, index = str(axis[0].name), str(axis[0].ty.dtype)
    step, inner = variable(f"{name}_step", index), variable(f"{name}_dot", index)
    made = any(write.source.same_as(source) for stage in analysis.stages for write in stage.block.writes)
    copy = copied(found, dtype, missing) if missing or type_of(source) != dtype or made else None
    indices = [with_places(one, {axis[0]: step * count + inner}) for one in found.data.indices]
    return Steps(axis, step, inner, missing, copy, tirx.BufferLoad(source if copy is None else copy.out, indices))


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


def _as(dtype: str, source: TvmBuffer, places: list[Var]) -> Expr:
    load = tirx.BufferLoad(source, places)
    return load if type_of(source) == dtype else tirx.Cast(dtype, load)
