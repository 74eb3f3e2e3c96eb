"""Products of lanes: each lane multiplies its own data, several lanes at a time.

In a depthwise convolution neighbouring results share no data. A core with integers of 8 bits in its own registers
(SXTB16, SMLABB and SMLATT of ARM) loads those of four lanes by one instruction, and adds each product to its sum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from tvm import tirx

from edgetune.codegen.dot_products import RESULTS_AT_A_TIME
from edgetune.schedule.algorithms.algorithm import Algorithm
from edgetune.schedule.algorithms.integer_products.function import product_of, with_sum
from edgetune.schedule.algorithms.integer_products.operand import copied, is_computed
from edgetune.schedule.algorithms.integer_products.product import WEIGHTS
from edgetune.tvm_types import PrimFunc


@dataclass(frozen=True)
class _Widened:
    """A constant in a wider type."""

    dtype: str

    def apply(self, source: np.ndarray) -> np.ndarray:
        """`source` so."""
        return source.astype(self.dtype)


def lanes_algorithm(function: PrimFunc, name: str) -> Algorithm | None:
    """The algorithm called `name` of an unscheduled PrimFunc: "lanes", the results of a step, the type of the weights.

    None if the function does not sum products of bytes of each lane with constant weights, or if rows of results are no
    whole steps.
    """
    _, results, dtype = name.split("_")
    matched = product_of(function)
    if matched is None:
        return None
    analysis, found = matched
    if not found.has_own_data or found.whole.spatial[-1][1] % int(results):
        return None
    source = found.data.source
    copy = copied(found, str(source.ty.dtype)) if is_computed(source, analysis) else None
    data = found.data if copy is None else tirx.BufferLoad(copy.out, found.data.indices)
    params = list(analysis.function.params)
    number = next(n for n, param in enumerate(params) if param.same_as(found.weights.source))
    if dtype != WEIGHTS:
        params[number] = tirx.decl_buffer(list(params[number].shape), dtype, params[number].name)
    weights = tirx.BufferLoad(params[number], found.weights.indices)
    term = tirx.Cast("int32", data) * tirx.Cast("int32", weights)
    summed = replace(found.whole, term=term)
    made = with_sum(analysis, found, copy, [summed], params).with_attr(RESULTS_AT_A_TIME, int(results))
    return Algorithm(name, made, {number: _Widened(dtype)} if dtype != WEIGHTS else {})
