"""Dot products: the sum runs in steps of several products, which one instruction adds to a lane.

The terms of one axis, which lie side by side in the data, are taken two or four at a time: these are the last reduction
axis of the new function. Terms that fill the last step have weights of zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from tvm import tirx

from edgetune.affine.expressions import with_places
from edgetune.graph.element_type import type_of
from edgetune.graph.reduction_stage import ReductionStage
from edgetune.schedule.algorithms.algorithm import Algorithm
from edgetune.schedule.algorithms.integer_products.function import product_of, with_sum
from edgetune.schedule.algorithms.integer_products.operand import Steps, steps_of
from edgetune.schedule.algorithms.integer_products.product import Product
from edgetune.schedule.sketches.block_analysis import DOT_PRODUCTS
from edgetune.tvm_types import PrimFunc, TvmBuffer


@dataclass(frozen=True)
class _Zeros:
    """Zeros after the elements of a constant along one axis."""

    axis: int
    count: int

    def apply(self, source: np.ndarray) -> np.ndarray:
        """`source` with them."""
        return np.pad(source, [(0, self.count if axis == self.axis else 0) for axis in range(source.ndim)])


def dot_product_algorithm(function: PrimFunc, name: str) -> Algorithm | None:
    """The algorithm called `name` of an unscheduled PrimFunc: "dot", the type of the data, and the products of a step.

    None if the function does not sum products of 8-bit integers with constant weights, if lanes do not share the data,
    or if that type does not hold it.
    """
    _, dtype, products = name.split("_")
    matched = product_of(function)
    if matched is None:
        return None
    analysis, found = matched
    fits = dtype in ("int16", type_of(found.data.source)) and found.shares_data
    steps = steps_of(found, analysis, dtype, int(products)) if fits else None
    axis = None if steps is None else found.weight_axis(steps.axis)
    if steps is None or axis is None:
        return None
    params = list(analysis.function.params)
    number = next(n for n, param in enumerate(params) if param.same_as(found.weights.source))
    params[number] = _longer(found.weights.source, axis, steps.missing)
    summed = _in_steps(found, steps, params[number], int(products))
    made = with_sum(analysis, found, steps.copy, summed, params).with_attr(DOT_PRODUCTS, int(products))
    return Algorithm(name, made, {number: _Zeros(axis, steps.missing)} if steps.missing else {})


def _longer(buffer: TvmBuffer, axis: int, more: int) -> TvmBuffer:
    """A buffer with more elements along an axis."""
    if not more:
        return buffer
    shape = [extent + (more if place == axis else 0) for place, extent in enumerate(buffer.shape)]
    return tirx.decl_buffer(shape, type_of(buffer), buffer.name)


def _in_steps(found: Product, steps: Steps, weights: TvmBuffer, count: int) -> ReductionStage:
    """The sum in steps of `count` products, which are its last axis."""
    axis, terms = steps.axis
    places = {axis: steps.step * count + steps.inner}
    load = tirx.BufferLoad(weights, [with_places(index, places) for index in found.weights.indices])
    others = [one for one in found.whole.summed if not one[0].same_as(axis)]
    summed = (*others, (steps.step, -(-terms // count)), (steps.inner, count))
    return replace(found.whole, summed=summed, term=tirx.Cast("int32", steps.load) * tirx.Cast("int32", load))
