"""Elementwise converters: Clip and variadic operators as binary operators (TVM: opaque calls, stack and reduce)."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

from edgetune.errors import UnsupportedOperator


class Clip(tvm_onnx.Clip):
    """min(max(x, low), high) with scalar bounds; TVM converts bounds that are not constants."""

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        dtype = inputs[0].ty.dtype
        low, high = attr.get("min"), attr.get("max")
        return _clip(
            inputs[0],
            None if low is None else relax.const(low, dtype),
            None if high is None else relax.const(high, dtype),
        )

    @classmethod
    def _impl_v13(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        low, high = inputs[1], inputs[2]
        if any(b is not None and not _is_usable(b) for b in (low, high)):
            return super()._impl_v13(bb, inputs, attr, params)
        return _clip(inputs[0], low, high)


def _is_usable(bound: relax.Expr) -> bool:
    return isinstance(bound, GenericConst) and not np.isnan(bound.value.numpy().astype("float64")).any()


def _clip(x: relax.Expr, low: relax.Expr | None, high: relax.Expr | None) -> relax.Expr:
    if low is not None:
        x = relax.op.maximum(x, low)
    return x if high is None else relax.op.minimum(x, high)


class ThresholdedRelu(tvm_onnx.OnnxOpConverter):
    """x where it is above alpha, 0 elsewhere, also for NaN and minus infinity, of which TVM makes NaN."""

    @classmethod
    def _impl_v10(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        x, dtype = inputs[0], str(inputs[0].ty.dtype)
        above = relax.op.greater(x, relax.const(float(attr.get("alpha", 1.0)), dtype))
        return relax.op.where(above, x, relax.const(0.0, dtype))


class Dropout(tvm_onnx.Dropout):
    """Inference: the identity; the mask, if requested, is all true."""

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        if attr["tvm_custom"]["num_outputs"] == 1:
            return inputs[0]
        shape = [int(extent) for extent in inputs[0].ty.shape]
        return relax.Tuple([inputs[0], relax.const(np.ones(shape, "bool"))])

    @classmethod
    def _impl_v12(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        if len(inputs) > 2 and inputs[2] is not None and _is_true(inputs[2]):
            raise UnsupportedOperator(
                "operator Dropout is in training mode, or may be at run time; export the model for inference"
            )
        return cls._impl_v1(bb, inputs, attr, params)


def _is_true(flag: relax.Expr) -> bool:
    return not isinstance(flag, GenericConst) or bool(flag.value.numpy())


class _Variadic(tvm_onnx.OnnxOpConverter):
    operator: Any

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        return reduce(lambda a, b: bb.normalize(cls.operator(a, b)), list(inputs))


class Sum(_Variadic):
    """Adds, left to right."""

    operator = relax.op.add


class Max(_Variadic):
    """Maxima, left to right."""

    operator = relax.op.maximum


class Min(_Variadic):
    """Minima, left to right."""

    operator = relax.op.minimum


class Mean(Sum):
    """Sum divided by the count."""

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        total = super()._impl_v1(bb, inputs, attr, params)
        return relax.op.divide(total, relax.const(len(inputs), inputs[0].ty.dtype))
