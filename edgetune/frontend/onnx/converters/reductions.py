"""Reduction converters: maxima and minima that keep infinities, and those of bool, as tensor expressions."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax, te, tirx, topi
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

from edgetune.frontend.onnx.converters.scans import constant_value
from edgetune.graph.rewrite import constant_of


class ReduceMax(tvm_onnx.OnnxOpConverter):
    """Maximum from -inf; TVM starts from the lowest finite number, which is wrong where all elements are -inf."""

    largest = True

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        return cls._reduced(bb, inputs[0], attr.get("axes"), attr)

    @classmethod
    def _impl_v18(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        axes = inputs[1]
        given = None if axes is None else constant_value(cls.__name__, "axes", axes).reshape(-1).tolist()
        if not given and attr.get("noop_with_empty_axes", 0):
            return inputs[0]
        return cls._reduced(bb, inputs[0], given, attr)

    @classmethod
    def _reduced(cls, bb: relax.BlockBuilder, x: relax.Expr, axes: Any, attr: dict[str, Any]) -> relax.Expr:
        rank, dtype = len(x.ty.shape), str(x.ty.dtype)
        chosen = sorted({int(a) % rank for a in axes}) if axes else list(range(rank))
        keep = bool(attr.get("keepdims", 1))
        if any(int(x.ty.shape[a]) == 0 for a in chosen):
            return cls._of_nothing(x, chosen, keep)
        if dtype == "bool":
            inner = relax.op.astype(x, "int32")
            reduce = relax.op.max if cls.largest else relax.op.min
            return relax.op.astype(bb.normalize(reduce(inner, chosen, keep)), "bool")
        if not np.issubdtype(np.dtype(dtype), np.floating):
            return (relax.op.max if cls.largest else relax.op.min)(x, chosen, keep)
        return bb.emit_te(reduce_max if cls.largest else reduce_min, x, chosen, keep)

    @classmethod
    def _of_nothing(cls, x: relax.Expr, axes: list[int], keep: bool) -> relax.Expr:
        """The initial value of a reduction, in the shape of the result."""
        dtype = np.dtype(str(x.ty.dtype))
        shape = [1 if a in axes else int(e) for a, e in enumerate(x.ty.shape) if keep or a not in axes]
        if dtype.kind == "b":
            start: Any = not cls.largest
        elif dtype.kind in "iu":
            start = np.iinfo(dtype).min if cls.largest else np.iinfo(dtype).max
        else:
            start = -np.inf if cls.largest else np.inf
        return constant_of(np.full(shape, start, dtype))


class ReduceMin(ReduceMax):
    """The same for minima."""

    largest = False


def _larger(a: Any, b: Any) -> Any:
    return tirx.max(a, b)


def _smaller(a: Any, b: Any) -> Any:
    return tirx.min(a, b)


# Reducers of floats that start from the infinities.
maximum = te.comm_reducer(_larger, lambda dtype: tirx.const(-np.inf, dtype), name="maximum")
minimum = te.comm_reducer(_smaller, lambda dtype: tirx.const(np.inf, dtype), name="minimum")


def reduce_max(x: te.Tensor, axes: list[int], keep: bool) -> te.Tensor:
    """Maxima along `axes`, from -inf."""
    return _along(x, axes, keep, maximum)


def reduce_min(x: te.Tensor, axes: list[int], keep: bool) -> te.Tensor:
    """Minima along `axes`, from inf."""
    return _along(x, axes, keep, minimum)


def _along(x: te.Tensor, axes: list[int], keep: bool, reducer: Any) -> te.Tensor:
    inner = {a: te.reduce_axis((0, x.shape[a]), f"k{a}") for a in axes}
    shape = [e for a, e in enumerate(x.shape) if a not in inner]

    def element(*i: Any) -> Any:
        rest = iter(i)
        return reducer(
            x(*(inner[a] if a in inner else next(rest) for a in range(len(x.shape)))), axis=list(inner.values())
        )

    result = te.compute(shape, element, name="reduced")
    return topi.reshape(result, [1 if a in inner else e for a, e in enumerate(x.shape)]) if keep else result
