"""ArgMax and ArgMin where results lie side by side: an extreme, then the first place that holds it.

A reduction that carries value and place together, as TVM's does, is nothing that lanes compute. Two reductions of one
number each have lanes along the results, and plain operators let layouts pass through.

ONNX leaves open what NaN does. Here, as in ONNX Runtime, the result is 0 where the first element is NaN, and other NaN
are left out. TVM's own reduction would begin again after each.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

from edgetune.graph.places_of_extremes import place_of_extreme
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
        last, floating = bool(attr.get("select_last_index", 0)), "float" in str(x.ty.dtype)
        if last or 0 in shape or prod(shape[axis + 1 :]) < _SIDE_BY_SIDE:
            if not floating or 0 in shape:
                return theirs._impl_v12(bb, inputs, attr, params)
            name = "argmax" if cls.largest else "argmin"
            return bb.emit_te(place_of_extreme, x, axis, keep, cls.largest, last, primfunc_name_hint=name)
        extreme = bb.normalize((relax.op.max if cls.largest else relax.op.min)(x, axis, keepdims=True))
        holds = (relax.op.greater_equal if cls.largest else relax.op.less_equal)(x, extreme)
        extents = [extent if a == axis else 1 for a, extent in enumerate(shape)]
        places = constant_of(np.arange(shape[axis], dtype=np.int32).reshape(extents))
        none = relax.const(shape[axis], "int32")
        first = bb.normalize(relax.op.min(relax.op.where(holds, places, none), axis, keepdims=keep))
        found = relax.op.where(relax.op.less(first, none), first, relax.const(0, "int32"))
        if floating:
            begin = bb.normalize(relax.op.isnan(bb.normalize(relax.op.strided_slice(x, [axis], [0], [1]))))
            begin = begin if keep else bb.normalize(relax.op.squeeze(begin, axis))
            found = relax.op.where(begin, relax.const(0, "int32"), found)
        return relax.op.astype(found, "int64")

    _impl_v11 = _impl_v12 = _impl_v1


class ArgMax(_Positions, tvm_onnx.ArgMax):
    """The first place of the largest element along an axis; 0 where all elements are minus infinity."""


class ArgMin(_Positions, tvm_onnx.ArgMin):
    """The first place of the smallest element along an axis; 0 where all elements are infinite."""

    largest = False
