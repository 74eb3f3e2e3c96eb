"""Quantisation converters: QuantizeLinear and DequantizeLinear as elementwise arithmetic, so that layouts pass through.

The arithmetic is ONNX's definition. `edgetune.graph.dequantised` and
`edgetune.graph.moved_integers` recognise exactly these chains: change them together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32")


def _along(values: np.ndarray, rank: int, axis: int) -> np.ndarray:
    """Shapes a vector to broadcast along `axis` of a tensor of `rank` axes; scalars stay scalars."""
    if values.size == 1:
        return values.reshape(())
    shape = [1] * rank
    shape[axis] = values.size
    return values.reshape(shape)


def _constant_parameters(inputs: Any) -> bool:
    """Whether scale and zero point are constants."""
    return all(isinstance(p, GenericConst) for p in list(inputs)[1:3] if p is not None)


def _plain(inputs: Any, attr: dict[str, Any]) -> bool:
    """Whether scale and zero point are constants of one value or one per channel (not blocked)."""
    parameters = [p for p in list(inputs)[1:3] if p is not None]
    return (
        not attr.get("block_size", 0) and _constant_parameters(inputs) and all(len(p.ty.shape) <= 1 for p in parameters)
    )


def _blocks(values: np.ndarray, axis: int) -> np.ndarray:
    """Scales or zero points of blocks along `axis`, which has an axis of its elements behind it."""
    return np.expand_dims(values, axis + 1) if values.size > 1 else values.reshape(())


def _in_blocks(shape: list[int], axis: int, block: int) -> list[int]:
    """`shape` with blocks, and the elements of each, instead of `axis`."""
    return [*shape[:axis], shape[axis] // block, block, *shape[axis + 1 :]]


def _zero_point(inputs: Any) -> GenericConst | None:
    return inputs[2] if len(inputs) > 2 else None


def _in_every_version(converter: Any) -> Any:
    """Gives `converter` one entry per opset version in which TVM's has one; TVM finds them by name."""
    for name in [name for name in dir(converter) if name.startswith("_impl_v")]:
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
        if dtype not in _INTEGERS or str(inputs[1].ty.dtype) != "float32" or attr.get("output_dtype", 0) > 1:
            return theirs(bb, inputs, attr, params)
        if attr.get("block_size", 0) and _constant_parameters(inputs):
            return _dequantised_blocks(bb, inputs, attr)
        if not _plain(inputs, attr):
            return theirs(bb, inputs, attr, params)
        rank = len(inputs[0].ty.shape)
        axis = attr.get("axis", 1) if rank > 1 else 0
        value = relax.op.astype(inputs[0], "int32")
        zero_point = _zero_point(inputs)
        if zero_point is not None and np.any(zero_point.value.numpy()):
            value = relax.op.subtract(value, relax.const(_along(zero_point.value.numpy().astype("int32"), rank, axis)))
        scale = relax.const(_along(inputs[1].value.numpy().astype("float32"), rank, axis))
        return relax.op.multiply(relax.op.astype(value, "float32"), scale)


def _dequantised_blocks(bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any]) -> relax.Expr:
    """Each block of the integers minus its zero point, times its scale; the last block may be shorter than others."""
    shape = [int(extent) for extent in inputs[0].ty.shape]
    axis, block = attr.get("axis", 1) % len(shape), int(attr["block_size"])
    zero_point, whole = _zero_point(inputs), shape[axis] % block == 0
    value = relax.op.astype(inputs[0], "int32")
    if whole:
        value = bb.normalize(relax.op.reshape(value, _in_blocks(shape, axis, block)))

    def spread(values: np.ndarray) -> np.ndarray:
        return _blocks(values, axis) if whole else values.take(np.arange(shape[axis]) // block, axis)

    if zero_point is not None and np.any(zero_point.value.numpy()):
        value = relax.op.subtract(value, relax.const(spread(zero_point.value.numpy().astype("int32"))))
    scale = relax.const(spread(inputs[1].value.numpy().astype("float32")))
    value = relax.op.multiply(relax.op.astype(value, "float32"), scale)
    return relax.op.reshape(value, shape) if whole else value


@_in_every_version
class QuantizeLinear(tvm_onnx.QuantizeLinear):
    """saturate(round_half_even(x / scale) + zero_point)."""

    @classmethod
    def _elementwise(
        cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any, theirs: Any
    ) -> relax.Expr:
        zero_point = _zero_point(inputs)
        dtype = "uint8" if zero_point is None else str(zero_point.ty.dtype)
        types = {str(inputs[0].ty.dtype), str(inputs[1].ty.dtype)}
        others = attr.get("output_dtype", 0) or attr.get("precision", 0)
        if dtype not in _INTEGERS[:4] or not _plain(inputs, attr) or types != {"float32"} or others:
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
