"""Sums in steps: a kernel's sum of products, of which each step is several along one axis of terms."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from tvm import tirx

from edgetune.codegen.dot_products import DOT_PRODUCTS
from edgetune.graph.element_type import type_of
from edgetune.graph.reduction_stage import ReductionStage
from edgetune.schedule.algorithms.algorithm import Algorithm
from edgetune.schedule.algorithms.integer_products.function import with_sum
from edgetune.schedule.algorithms.integer_products.operand import Steps
from edgetune.schedule.algorithms.integer_products.product import Product
from edgetune.schedule.sketches.block_analysis import BlockAnalysis
from edgetune.tvm_types import TvmBuffer


@dataclass(frozen=True)
class _Filled:
    """A constant whose axes from `first` to before `end` are one, with `count` zeros behind its elements.

    The elements of a step are in `order`.
    """

    first: int
    end: int
    count: int
    order: tuple[int, ...]

    def apply(self, source: np.ndarray) -> np.ndarray:
        """`source` so."""
        joined = source.reshape(*source.shape[: self.first], -1, *source.shape[self.end :])
        filled = np.pad(joined, [(0, self.count if axis == self.first else 0) for axis in range(joined.ndim)])
        steps = np.arange(filled.shape[self.first]).reshape(-1, len(self.order))
        return np.take(filled, steps[:, self.order].ravel(), axis=self.first)

    @property
    def changes(self) -> bool:
        """Whether the constant is another one then."""
        return self.count > 0 or self.end > self.first + 1 or self.order != tuple(range(len(self.order)))


def summed_in_steps(
    name: str, analysis: BlockAnalysis, found: Product, steps: Steps, order: tuple[int, ...]
) -> Algorithm | None:
    """The algorithm called `name`, which sums the products of a step in `order`; weights of zero fill the last step.

    None where the weights do not follow the axes of terms by axes of their own, in their order.
    """
    places = [found.weight_axis(axis) for axis in steps.axes]
    first = places[0]
    if first is None or places != [*range(first, first + len(places))]:
        return None
    count = len(order)
    filled = _Filled(first, first + len(places), steps.missing, order)
    params = list(analysis.function.params)
    number = next(n for n, param in enumerate(params) if param.same_as(found.weights.source))
    params[number] = _longer(found.weights.source, filled, steps) if filled.changes else params[number]
    summed = _in_steps(found, steps, params[number], filled, count)
    made = with_sum(analysis, found, steps.copy, [summed], params).with_attr(DOT_PRODUCTS, count)
    return Algorithm(name, made, {number: filled} if filled.changes else {})


def _longer(buffer: TvmBuffer, filled: _Filled, steps: Steps) -> TvmBuffer:
    length = tirx.IntImm(str(steps.step.ty.dtype), steps.terms + steps.missing)
    shape = [*buffer.shape[: filled.first], length, *buffer.shape[filled.end :]]
    return tirx.decl_buffer(shape, type_of(buffer), buffer.name)


def _in_steps(found: Product, steps: Steps, weights: TvmBuffer, filled: _Filled, count: int) -> ReductionStage:
    """The sum in steps of `count` products, which are its last axis."""
    indices = [*found.weights.indices]
    indices[filled.first : filled.end] = [steps.step * count + steps.inner]
    load = tirx.BufferLoad(weights, indices)
    others = [one for one in found.whole.summed if not any(one[0].same_as(axis) for axis, _ in steps.axes)]
    summed = (*others, (steps.step, -(-steps.terms // count)), (steps.inner, count))
    return replace(found.whole, summed=summed, term=tirx.Cast("int32", steps.load) * tirx.Cast("int32", load))
