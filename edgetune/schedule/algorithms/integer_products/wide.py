"""The wider form of products of bytes: floats, of which every sum of these is one, so that results are the same.

A core may multiply and add floats faster than bytes, with what it takes to convert both. The data is copied as floats,
the weights are floats in the package, and the sum becomes an integer again. It is exact while no sum is beyond 2^24,
below which each integer is a float (IEEE 754-2019, 3.6): whatever the weights are, whatever order adds them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from tvm import tirx

from edgetune.affine.expressions import mentions
from edgetune.graph.element_type import type_of
from edgetune.graph.reduction_stage import ReductionStage, buffer_of
from edgetune.schedule.algorithms.algorithm import Algorithm
from edgetune.schedule.algorithms.integer_products.function import product_of, with_sum
from edgetune.schedule.algorithms.integer_products.operand import copied
from edgetune.tvm_types import PrimFunc

_WIDE = "float32"
_BYTES = ("int8", "uint8")
_EXACT = 2**24


@dataclass(frozen=True)
class _Floats:
    """A constant as floats."""

    def apply(self, source: np.ndarray) -> np.ndarray:
        """`source` so."""
        return source.astype(_WIDE)


def wide_algorithm(function: PrimFunc, name: str) -> Algorithm | None:
    """The products of an unscheduled PrimFunc as floats; None if it has none of bytes, or if a sum may be no float.

    None as well where a weight has one product: it is loaded once, and four times as many bytes of it take longer.
    """
    matched = product_of(function)
    if matched is None:
        return None
    analysis, found = matched
    data, whole = type_of(found.data.source), found.whole
    lanes = {axis for axis, _ in whole.spatial if any(mentions(index, axis) for index in found.weights.indices)}
    reused = any(extent > 1 for axis, extent in whole.spatial if axis not in lanes)
    if not reused or data not in _BYTES or whole.terms * _largest(data) * _largest("int8") > _EXACT:
        return None
    params = list(analysis.function.params)
    number = next(n for n, param in enumerate(params) if param.same_as(found.weights.source))
    params[number] = tirx.decl_buffer(list(params[number].shape), _WIDE, params[number].name)
    copy = copied(found, _WIDE)
    term = tirx.BufferLoad(copy.out, found.data.indices) * tirx.BufferLoad(params[number], found.weights.indices)
    floats = buffer_of(f"{whole.name}_wide", whole.spatial, _WIDE)
    places = tuple(one for one, _ in whole.spatial)
    summed = ReductionStage(f"{whole.name}_wide", floats, places, whole.spatial, whole.summed, term)
    back = replace(whole, summed=(), term=tirx.Cast("int32", tirx.BufferLoad(floats, list(places))))
    return Algorithm(name, with_sum(analysis, found, copy, [summed, back], params), {number: _Floats()})


def _largest(dtype: str) -> int:
    """The largest size of an integer."""
    limits = np.iinfo(dtype)
    return max(-int(limits.min), int(limits.max))
