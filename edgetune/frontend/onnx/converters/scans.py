"""Scans and TopK as tensor expressions: running sums and products, sorted selections; TVM uses its run-time library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax, te, tirx
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

from edgetune.errors import UnsupportedOperator


def constant_value(operator: str, what: str, value: Any) -> np.ndarray:
    """The value of a constant operand; otherwise raises UnsupportedOperator, which names operator and operand."""
    if not isinstance(value, GenericConst):
        raise UnsupportedOperator(f"operator {operator} computes its {what} at run time; make it constant in the model")
    array: np.ndarray = value.value.numpy()
    return array


def _scan(
    x: te.Tensor, axis: int, exclusive: bool, reverse: bool, combine: Callable[..., Any], neutral: int
) -> te.Tensor:
    """Each element from all that precede it: quadratic work, but parallel and without state."""
    extent = x.shape[axis]
    k = te.reduce_axis((0, extent), "k")

    def element(*i: Any) -> Any:
        here = i[axis]
        inside = (k > here if exclusive else k >= here) if reverse else (k < here if exclusive else k <= here)
        value = x(*(k if a == axis else v for a, v in enumerate(i)))
        return combine(tirx.if_then_else(inside, value, tirx.const(neutral, str(x.dtype))), axis=k)

    return te.compute(x.shape, element, name="scan")


class CumSum(tvm_onnx.OnnxOpConverter):
    """Running sums along a constant axis."""

    operation: Any = staticmethod(te.sum)
    neutral = 0

    @classmethod
    def _impl_v11(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        axis = int(constant_value(cls.__name__, "axis", inputs[1]).reshape(-1)[0]) % len(inputs[0].ty.shape)
        exclusive, reverse = bool(attr.get("exclusive", 0)), bool(attr.get("reverse", 0))

        def scan(x: te.Tensor) -> te.Tensor:
            return _scan(x, axis, exclusive, reverse, cls.operation, cls.neutral)

        return bb.emit_te(scan, inputs[0])


class CumProd(CumSum):
    """Running products along a constant axis."""

    operation: Any = staticmethod(te.comm_reducer(lambda a, b: a * b, lambda dtype: tirx.const(1, dtype), name="prod"))
    neutral = 1


def top_k(x: te.Tensor, axis: int, count: int, largest: bool) -> list[te.Tensor]:
    """The first `count` along `axis` in sorted order, and their positions; equal values keep their order.

    An element's rank is the number of elements before it in that order; position r holds the element of rank r.
    """
    extent = x.shape[axis]
    other = te.reduce_axis((0, extent), "other")

    def rank(*i: Any) -> Any:
        mine = x(*i)
        theirs = x(*(other if a == axis else v for a, v in enumerate(i)))
        beats = theirs > mine if largest else theirs < mine
        ahead = tirx.any(beats, tirx.all(theirs.equal(mine), other < i[axis]))
        return te.sum(tirx.if_then_else(ahead, tirx.const(1, "int32"), tirx.const(0, "int32")), axis=other)

    ranks = te.compute(x.shape, rank, name="rank")
    shape = [count if a == axis else e for a, e in enumerate(x.shape)]
    k = te.reduce_axis((0, extent), "k")

    def position(*i: Any) -> Any:
        at = tuple(k if a == axis else v for a, v in enumerate(i))
        found = ranks(*at).equal(i[axis].astype("int32"))
        return te.sum(tirx.if_then_else(found, k.astype("int32"), tirx.const(0, "int32")), axis=k)

    positions = te.compute(shape, position, name="position")
    values = te.compute(
        shape, lambda *i: x(*(positions(*i) if a == axis else v for a, v in enumerate(i))), name="selected"
    )
    return [values, te.compute(shape, lambda *i: positions(*i).astype("int64"), name="indices")]


class TopK(tvm_onnx.OnnxOpConverter):
    """The k largest or smallest along an axis, sorted, for a constant k."""

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        return cls._top(bb, inputs[0], int(attr["k"]), attr)

    @classmethod
    def _impl_v10(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        return cls._top(bb, inputs[0], int(constant_value("TopK", "k", inputs[1]).reshape(-1)[0]), attr)

    @classmethod
    def _top(cls, bb: relax.BlockBuilder, x: relax.Expr, count: int, attr: dict[str, Any]) -> relax.Expr:
        axis = attr.get("axis", -1) % len(x.ty.shape)
        return bb.emit_te(top_k, x, axis, count, bool(attr.get("largest", 1)))
