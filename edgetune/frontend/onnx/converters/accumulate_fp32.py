"""Accumulation in float32: converters for 16-bit operators that TVM computes in 16 bits throughout, or not at all."""

from __future__ import annotations

from typing import Any

from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

_HALF = ("float16", "bfloat16")


class MatMul(tvm_onnx.MatMul):
    """Products of 16-bit floats, summed in float32 and rounded once."""

    @classmethod
    def _impl_v13(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        dtype = str(inputs[0].ty.dtype)
        if dtype not in _HALF:
            return super()._impl_v13(bb, inputs, attr, params)
        return relax.op.astype(relax.op.matmul(inputs[0], inputs[1], out_dtype="float32"), dtype)


class Elu(tvm_onnx.OnnxOpConverter):
    """x where positive, alpha * (exp(x) - 1) elsewhere, in any float type."""

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        x, dtype = inputs[0], str(inputs[0].ty.dtype)
        return _elu(x, dtype, float(attr.get("alpha", 1.0)))


class Selu(tvm_onnx.OnnxOpConverter):
    """gamma times Elu."""

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        x, dtype = inputs[0], str(inputs[0].ty.dtype)
        inner = _elu(x, dtype, float(attr.get("alpha", 1.67326319217681884765625)))
        return relax.op.multiply(relax.const(float(attr.get("gamma", 1.05070102214813232421875)), dtype), inner)


def _elu(x: relax.Expr, dtype: str, alpha: float) -> relax.Expr:
    zero, one = relax.const(0.0, dtype), relax.const(1.0, dtype)
    below = relax.op.subtract(relax.op.exp(relax.op.minimum(x, zero)), one)
    return relax.op.add(relax.op.maximum(x, zero), relax.op.multiply(relax.const(alpha, dtype), below))
