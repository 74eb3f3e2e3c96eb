"""ArgMax and ArgMin where results lie side by side: an extreme, then the first place that holds it.

TVM's reduction carries value and place together, which nothing computes in lanes. Two reductions of one number each
have lanes along the results, and plain operators let layouts pass through. Where an element is NaN, which ONNX leaves
open, the result is some place of the axis.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

from edgetune.graph.rewrite import constant_of

_SIDE_BY_SIDE = 8
"""Results side by side from which on lanes outweigh that the input is read twice."""


class _Positions:
    """Mixin that precedes one of TVM's converters."""

    largest = True

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        x = inputs[0]
        shape = [int(extent) for extent in x.ty.shape]
        axis, keep = attr.get("axis", 0) % max(len(shape), 1), bool(attr.get("keepdims", 1))
        theirs: Any = super()
        if attr.get("select_last_index", 0) or 0 in shape or prod(shape[axis + 1 :]) < _SIDE_BY_SIDE:
            return theirs._impl_v12(bb, inputs, attr, params)
        extreme = bb.normalize((relax.op.max if cls.largest else relax.op.min)(x, axis, keepdims=True))
        holds = (relax.op.greater_equal if cls.largest else relax.op.less_equal)(x, extreme)
        extents = [extent if a == axis else 1 for a, extent in enumerate(shape)]
        places = constant_of(np.arange(shape[axis], dtype=np.int32).reshape(extents))
        none = relax.const(shape[axis], "int32")
        first = bb.normalize(relax.op.min(relax.op.where(holds, places, none), axis, keepdims=keep))
        found = relax.op.where(relax.op.less(first, none), first, relax.const(0, "int32"))
        return relax.op.astype(found, "int64")

    _impl_v11 = _impl_v12 = _impl_v1


class ArgMax(_Positions, tvm_onnx.ArgMax):
    """The first place of the largest element along an axis; 0 where all elements are minus infinity."""


class ArgMin(_Positions, tvm_onnx.ArgMin):
    """The first place of the smallest element along an axis; 0 where all elements are infinite."""

    largest = False
