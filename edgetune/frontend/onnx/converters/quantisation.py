"""Quantisation converters: QuantizeLinear and DequantizeLinear as elementwise arithmetic, so that layouts pass through.

The arithmetic is ONNX's definition. `edgetune.graph.quantised` recognises exactly these chains: change both together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

_VERSIONS = (10, 13, 19)
_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32")


def _along(values: np.ndarray, rank: int, axis: int) -> np.ndarray:
    """Shapes a vector to broadcast along `axis` of a tensor of `rank` axes; scalars stay scalars."""
    if values.size == 1:
        return values.reshape(())
    shape = [1] * rank
    shape[axis] = values.size
    return values.reshape(shape)


def _plain(inputs: Any, attr: dict[str, Any]) -> bool:
    """Whether scale and zero point are constants of one value or one per channel (not blocked)."""
    parameters = [p for p in list(inputs)[1:3] if p is not None]
    return not attr.get("block_size", 0) and all(
        isinstance(p, GenericConst) and len(p.ty.shape) <= 1 for p in parameters
    )


def _zero_point(inputs: Any) -> GenericConst | None:
    return inputs[2] if len(inputs) > 2 else None


def _in_every_version(converter: Any) -> Any:
    """Gives `converter` one entry per opset version in which the operator changed; TVM finds them by name."""
    for version in _VERSIONS:
        name = f"_impl_v{version}"
        theirs = getattr(super(converter, converter), name)

        def convert(
            cls: Any, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any, theirs: Any = theirs
        ) -> relax.Expr:
            return cls._elementwise(bb, inputs, attr, params, theirs)

        setattr(converter, name, classmethod(convert))
    return converter


@_in_every_version
class DequantizeLinear(tvm_onnx.DequantizeLinear):
    """(int32(q) - zero_point) * scale; the subtraction is left out where the zero point is 0."""

    @classmethod
    def _elementwise(
        cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any, theirs: Any
    ) -> relax.Expr:
        dtype = str(inputs[0].ty.dtype)
        if dtype not in _INTEGERS or not _plain(inputs, attr) or str(inputs[1].ty.dtype) != "float32":
            return theirs(bb, inputs, attr, params)
        rank = len(inputs[0].ty.shape)
        axis = attr.get("axis", 1) if rank > 1 else 0
        value = relax.op.astype(inputs[0], "int32")
        zero_point = _zero_point(inputs)
        if zero_point is not None and np.any(zero_point.value.numpy()):
            value = relax.op.subtract(value, relax.const(_along(zero_point.value.numpy().astype("int32"), rank, axis)))
        scale = relax.const(_along(inputs[1].value.numpy().astype("float32"), rank, axis))
        return relax.op.multiply(relax.op.astype(value, "float32"), scale)


@_in_every_version
class QuantizeLinear(tvm_onnx.QuantizeLinear):
    """saturate(round_half_even(x / scale) + zero_point)."""

    @classmethod
    def _elementwise(
        cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any, theirs: Any
    ) -> relax.Expr:
        zero_point = _zero_point(inputs)
        dtype = "uint8" if zero_point is None else str(zero_point.ty.dtype)
        if dtype not in _INTEGERS[:4] or not _plain(inputs, attr) or str(inputs[0].ty.dtype) != "float32":
            return theirs(bb, inputs, attr, params)
        rank = len(inputs[0].ty.shape)
        axis = attr.get("axis", 1) if rank > 1 else 0
        scale = relax.const(_along(inputs[1].value.numpy().astype("float32"), rank, axis))
        value = relax.op.round(relax.op.divide(inputs[0], scale))
        if zero_point is not None and np.any(zero_point.value.numpy()):
            value = relax.op.add(value, relax.const(_along(zero_point.value.numpy().astype("float32"), rank, axis)))
        limits = np.iinfo(dtype)
        value = relax.op.maximum(value, relax.const(float(limits.min), "float32"))
        value = relax.op.minimum(value, relax.const(float(limits.max), "float32"))
        return relax.op.astype(value, dtype)
