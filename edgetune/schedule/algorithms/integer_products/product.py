"""Pattern matching for dot products: recognises kernels that sum products of 8-bit integers with constant weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm import ir, tirx

from edgetune.affine.expressions import is_among, mentions
from edgetune.affine.steps import step_along
from edgetune.graph.element_type import type_of
from edgetune.graph.reduction_stage import Axis, ReductionStage, factors_of, reduction_of
from edgetune.schedule.sketches.block_analysis import BlockAnalysis, statements_of
from edgetune.tvm_types import BufferLoad, Expr, TvmBuffer

WEIGHTS = "int8"
"""The type of constant factors."""
_NARROW = ("int8", "uint8", "int16")
_OPERANDS = 2


@dataclass(frozen=True)
class Product:
    """A kernel's one sum of products: its stage, and the loads of the data and of the weights, which are constant."""

    whole: ReductionStage
    data: BufferLoad
    weights: BufferLoad

    def weight_axis(self, axis: Axis) -> int | None:
        """The axis of the weights that alone follows an axis of terms, element by element; None if there is none."""
        places = [place for place, index in enumerate(self.weights.indices) if mentions(index, axis[0])]
        return places[0] if len(places) == 1 and self.weights.indices[places[0]].same_as(axis[0]) else None

    def is_side_by_side(self, axis: Axis) -> bool:
        """Whether the data of an axis of terms lies side by side."""
        *others, last = self.data.indices
        return not any(mentions(index, axis[0]) for index in others) and step_along(last, axis[0]) == 1

    @property
    def has_own_data(self) -> bool:
        """Whether neighbouring results, which are lanes, read neighbouring bytes."""
        lanes = self.whole.spatial[-1][0]
        *others, last = self.data.indices
        return (
            last.same_as(lanes)
            and not any(mentions(index, lanes) for index in others)
            and type_of(self.data.source) == WEIGHTS
        )

    @property
    def shares_data(self) -> bool:
        """Whether neighbouring results, which are lanes, read the same data."""
        return not any(mentions(index, self.whole.spatial[-1][0]) for index in self.data.indices)


def find_product(analysis: BlockAnalysis) -> Product | None:
    """The sum of products of a kernel; None if it is another kernel or computes something else too."""
    if len(analysis.reductions) != 1 or len(analysis.outputs) != 1:
        return None
    name = analysis.reductions[0].name
    wholes = (reduction_of(statement) for statement in statements_of(analysis.function.body.block.body))
    whole = next((one for one in wholes if one is not None and one.name == name), None)
    found = None if whole is None else product_in(whole, analysis.packed())
    return None if found is None else _of_source(found, analysis)


def product_in(whole: ReductionStage, constants: Sequence[TvmBuffer]) -> Product | None:
    """The product of 8-bit integers that a reduction sums, where one factor is among `constants`; None if it has none.

    The constant factor is of type `WEIGHTS`.
    """
    if not whole.spatial or whole.combine is not tirx.Add or type_of(whole.out) != "int32":
        return None
    loads = [_widened(factor) for factor in factors_of(whole.term)]
    given = [load for load in loads if load is not None]
    weights = [load for load in given if is_among(load.source, constants)]
    if len(loads) != _OPERANDS or len(given) != _OPERANDS or len(weights) != 1 or type_of(weights[0].source) != WEIGHTS:
        return None
    data = next(load for load in given if not load.source.same_as(weights[0].source))
    return Product(whole, data, weights[0])


def _widened(factor: Expr) -> BufferLoad | None:
    """The load of an integer of 8 or 16 bits that is widened once."""
    load = factor.value if isinstance(factor, tirx.Cast) else None
    return load if isinstance(load, ir.TensorLoad) and type_of(load.source) in _NARROW else None


def _of_source(found: Product, analysis: BlockAnalysis) -> Product:
    """The product that reads what a plain copy reads, where its data is such a copy."""
    for stage in analysis.stages:
        store = stage.block.body
        made = any(write.source.same_as(found.data.source) for write in stage.block.writes)
        if not made or not isinstance(store, tirx.BufferStore) or not isinstance(store.value, ir.TensorLoad):
            continue
        places = [axis.var for axis in stage.spatial]
        plain = stage.writes_its_axes() and len(places) == len(store.value.indices)
        if plain and all(index.same_as(place) for index, place in zip(store.value.indices, places, strict=True)):
            return replace(found, data=tirx.BufferLoad(store.value.source, found.data.indices))
    return found
