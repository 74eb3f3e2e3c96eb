"""How quantisation operators of PyTorch become ONNX: the exporter's `custom_translation_table`.

PT2E writes operators of `quantized_decomposed`, torchao those of `torchao`. The exporter has translations for some of
the first, which ignore `quant_min` and `quant_max`; the second it decomposes into arithmetic. These keep QuantizeLinear
and DequantizeLinear, so that integers stay integers in a package. Only the process of the exporter imports this file.

Arguments have PyTorch's names: by them, and by their types, the exporter passes them.
"""
# ruff: noqa: A002

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional, Union

import numpy as np
import torch
from onnxscript import ir
from onnxscript import opset21 as op
from onnxscript.onnx_types import TensorType

_FLOAT = ir.DataType.FLOAT
_RANGES = {
    ir.DataType.INT8: (-128, 127),
    ir.DataType.UINT8: (0, 255),
    ir.DataType.INT16: (-32768, 32767),
    ir.DataType.UINT16: (0, 65535),
}
_OF_FOUR_BITS = {ir.DataType.INT8: (-8, 7, ir.DataType.INT4), ir.DataType.UINT8: (0, 15, ir.DataType.UINT4)}


def table() -> dict[Any, Callable[..., Any]]:
    """The translations by operator. torchao's are left out where it is not installed."""
    decomposed, aten = torch.ops.quantized_decomposed, torch.ops.aten
    found: dict[Any, Callable[..., Any]] = {
        decomposed.quantize_per_tensor.default: quantize_per_tensor,
        decomposed.quantize_per_tensor.tensor: quantize_per_tensor_tensor,
        decomposed.quantize_per_tensor.tensor2: quantize_per_tensor_tensor2,
        decomposed.dequantize_per_tensor.default: dequantize_per_tensor,
        decomposed.dequantize_per_tensor.tensor: dequantize_per_tensor_tensor,
        decomposed.dequantize_per_tensor.tensor2: dequantize_per_tensor_tensor2,
        decomposed.quantize_per_channel.default: quantize_per_channel,
        decomposed.dequantize_per_channel.default: dequantize_per_channel,
        decomposed.dequantize_per_channel_group.default: dequantize_per_channel_group,
        decomposed.choose_qparams.tensor: choose_qparams,
        decomposed.choose_qparams_symmetric.tensor: choose_qparams_symmetric,
        aten._int_mm.default: int_mm,
        aten._to_copy.default: to_copy,
    }
    if hasattr(torch.ops.torchao, "dequantize_affine"):
        found[torch.ops.torchao.dequantize_affine.default] = dequantize_affine
    return found


def quantize_per_tensor(
    input: TensorType, scale: float, zero_point: int, quant_min: int, quant_max: int, dtype: int
) -> TensorType:
    """`clamp(round(input / scale) + zero_point, quant_min, quant_max)`."""
    return _quantised(
        input, _constant(scale, input.dtype), _constant(zero_point, dtype), quant_min, quant_max, dtype, None
    )


def quantize_per_tensor_tensor(
    input: TensorType, scale: TensorType, zero_point: TensorType, quant_min: int, quant_max: int, dtype: int
) -> TensorType:
    """The same, with a scale and a zero point that are computed."""
    scalar, zero = op.CastLike(op.Squeeze(scale), input), op.Cast(op.Squeeze(zero_point), to=dtype)
    return _quantised(input, scalar, zero, quant_min, quant_max, dtype, None)


def quantize_per_tensor_tensor2(
    input: TensorType,
    scale: TensorType,
    zero_point: TensorType,
    quant_min: TensorType,
    quant_max: TensorType,
    dtype: int,
) -> TensorType:
    """The same, with limits that are tensors: those of the type itself, as PT2E calls it."""
    del quant_min, quant_max
    return quantize_per_tensor_tensor(input, scale, zero_point, *_RANGES[ir.DataType(dtype)], dtype)


def dequantize_per_tensor(
    input: TensorType,
    scale: float,
    zero_point: int,
    quant_min: int,
    quant_max: int,
    dtype: int,
    out_dtype: int = -1,
) -> TensorType:
    """`(input - zero_point) * scale`."""
    del quant_min, quant_max
    return _dequantised(input, _constant(scale, _FLOAT), _constant(zero_point, dtype), dtype, out_dtype)


def dequantize_per_tensor_tensor(
    input: TensorType,
    scale: TensorType,
    zero_point: TensorType,
    quant_min: int,
    quant_max: int,
    dtype: int,
    out_dtype: int = -1,
) -> TensorType:
    """The same, with a scale and a zero point that are computed."""
    del quant_min, quant_max
    scalar = op.Cast(op.Squeeze(scale), to=_FLOAT)
    return _dequantised(input, scalar, op.Cast(op.Squeeze(zero_point), to=dtype), dtype, out_dtype)


def dequantize_per_tensor_tensor2(
    input: TensorType,
    scale: TensorType,
    zero_point: TensorType,
    quant_min: TensorType,
    quant_max: TensorType,
    dtype: int,
    out_dtype: int = -1,
) -> TensorType:
    """The same: the limits have no effect."""
    del quant_min, quant_max
    return dequantize_per_tensor_tensor(input, scale, zero_point, 0, 0, dtype, out_dtype)


def quantize_per_channel(
    input: TensorType,
    scales: TensorType,
    zero_points: TensorType,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: int,
) -> TensorType:
    """As `quantize_per_tensor`, with a scale and a zero point for each index of `axis`."""
    scale, zero = op.CastLike(scales, input), op.Cast(zero_points, to=dtype)
    return _quantised(input, scale, zero, quant_min, quant_max, dtype, axis)


def dequantize_per_channel(
    input: TensorType,
    scales: TensorType,
    zero_points: Optional[TensorType],  # noqa: UP045  the exporter reads this form
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: int,
    out_dtype: int = -1,
) -> TensorType:
    """As `dequantize_per_tensor`, with a scale and a zero point for each index of `axis`."""
    del quant_min, quant_max
    zero = None if zero_points is None else op.Cast(zero_points, to=dtype)
    return _dequantised(input, op.Cast(scales, to=_FLOAT), zero, dtype, out_dtype, axis=axis)


def dequantize_per_channel_group(
    input: TensorType,
    scales: TensorType,
    zero_points: Optional[TensorType],  # noqa: UP045
    quant_min: int,
    quant_max: int,
    dtype: int,
    group_size: int,
    output_dtype: int,
) -> TensorType:
    """As `dequantize_per_tensor`, with a scale and a zero point for each `group_size` elements of a row."""
    values, kind = _stored(input, quant_min, quant_max, dtype)
    zero = None if zero_points is None else op.Cast(zero_points, to=kind)
    scale = op.Cast(scales, to=_FLOAT)
    return _dequantised(values, scale, zero, kind, output_dtype, axis=1, block_size=group_size)


def choose_qparams(
    input: TensorType, quant_min: int, quant_max: int, eps: float, dtype: int
) -> tuple[TensorType, TensorType]:
    """Scale (float64) and zero point (int64), both of shape (1), that cover the range of `input` and zero."""
    del dtype
    least, most = _range(input)
    scale = op.Max(op.Div(op.Sub(most, least), _constant(quant_max - quant_min, _FLOAT)), _constant(eps, _FLOAT))
    zero = op.Sub(_constant(quant_min, _FLOAT), op.Round(op.Div(least, scale)))
    bounded = op.Min(op.Max(zero, _constant(quant_min, _FLOAT)), _constant(quant_max, _FLOAT))
    one = op.Constant(value_ints=[1])
    return _wide(scale), op.Reshape(op.Cast(bounded, to=ir.DataType.INT64), one)


def choose_qparams_symmetric(
    input: TensorType, quant_min: int, quant_max: int, eps: float, dtype: int
) -> tuple[TensorType, TensorType]:
    """As `choose_qparams`, for a range that is symmetric around zero."""
    least, most = _range(input)
    half = _constant((quant_max - quant_min) / 2, _FLOAT)
    scale = op.Max(op.Div(op.Max(op.Neg(least), most), half), _constant(eps, _FLOAT))
    middle = 128 if ir.DataType(dtype) == ir.DataType.UINT8 else 0
    zero = op.Constant(value=ir.tensor(np.array([middle], np.int64)))
    return _wide(scale), zero


def int_mm(self: TensorType, mat2: TensorType) -> TensorType:
    """The product of int8 matrices, in int32."""
    return op.MatMulInteger(self, mat2)


def to_copy(
    self: TensorType,
    dtype: int = -1,
    layout: str = "",
    device: str = "",
    pin_memory: bool = False,
    non_blocking: bool = False,
    memory_format: str = "",
) -> TensorType:
    """A conversion. That of 8-bit integers to float is a dequantisation by 1: torchao writes it for its weights."""
    del layout, device, pin_memory, non_blocking, memory_format
    if dtype == -1:
        return op.Identity(self)
    if dtype == _FLOAT and self.dtype in {ir.DataType.INT8, ir.DataType.UINT8}:
        return op.DequantizeLinear(self, _constant(1.0, _FLOAT))
    return op.Cast(self, to=dtype)


def dequantize_affine(
    input: TensorType,
    block_size: Sequence[int],
    scale: TensorType,
    zero_point: Optional[TensorType],  # noqa: UP045
    input_dtype: int,
    quant_min: Optional[Union[int, float]] = None,  # noqa: UP007, UP045
    quant_max: Optional[Union[int, float]] = None,  # noqa: UP007, UP045
    output_dtype: int = _FLOAT,
) -> TensorType:
    """As `dequantize_per_tensor`, with a scale and a zero point for each block of `block_size` elements."""
    del input_dtype  # the type of the values that it describes, which are stored in the type of `input`
    shape = [int(extent) for extent in input.shape]
    blocks = [extent // block for extent, block in zip(shape, block_size, strict=True)]
    values, kind = _stored(input, quant_min, quant_max, input.dtype)
    split = [axis for axis, count in enumerate(blocks) if count > 1]
    scale = op.Cast(scale, to=_FLOAT)
    zero = None if zero_point is None else op.Cast(zero_point, to=kind)
    if not split:
        return _dequantised(values, _reshaped(scale, []), _reshaped(zero, []), kind, output_dtype)
    if len(split) == 1 and block_size[split[0]] == 1:
        return _dequantised(values, _reshaped(scale, [-1]), _reshaped(zero, [-1]), kind, output_dtype, axis=split[0])
    inside = [axis for axis, block in enumerate(block_size) if block > 1]
    if len(inside) == 1:
        (axis,) = inside
        ones = (_reshaped(scale, blocks), _reshaped(zero, blocks))
        return _dequantised(values, *ones, kind, output_dtype, axis=axis, block_size=block_size[axis])
    # Blocks over several axes: each extent becomes (blocks, elements of a block), and the scale has one per block.
    parts = [part for count, block in zip(blocks, block_size, strict=True) for part in (count, block)]
    per_block = [part for count in blocks for part in (count, 1)]
    difference = op.Cast(_reshaped(input, parts), to=_FLOAT)
    if zero_point is not None:
        difference = op.Sub(difference, op.Cast(_reshaped(zero_point, per_block), to=_FLOAT))
    return op.Cast(_reshaped(op.Mul(difference, _reshaped(scale, per_block)), shape), to=output_dtype)


def _stored(values: TensorType, least: float | None, most: float | None, kind: int) -> tuple[TensorType, int]:
    """`values` in the smallest type that holds the integers `least` to `most`, and that type."""
    small = _OF_FOUR_BITS.get(ir.DataType(kind))
    if small is None or least is None or most is None or least < small[0] or most > small[1]:
        return values, kind
    return op.Cast(values, to=small[2]), small[2]


def _quantised(
    values: TensorType,
    scale: TensorType,
    zero: TensorType,
    least: int,
    most: int,
    kind: int,
    axis: int | None,
) -> TensorType:
    """Limits other than those of the type are limits of the float, so that the quantised tensor has one reader less."""
    limits = _RANGES.get(ir.DataType(kind))
    placed = {} if axis is None else {"axis": axis}
    if limits is not None and (least, most) != limits:
        spread, centre = (_along(one, values, axis) for one in (scale, op.CastLike(zero, scale)))
        low, high = (op.Mul(op.Sub(_constant(one, values.dtype), centre), spread) for one in (least, most))
        values = op.Min(op.Max(values, low), high)
    if limits is not None:
        return op.QuantizeLinear(values, scale, zero, **placed)
    spread, centre = (_along(one, values, axis) for one in (scale, op.CastLike(zero, scale)))
    steps = op.Add(op.Round(op.Div(values, spread)), centre)
    bounded = op.Min(op.Max(steps, _constant(least, values.dtype)), _constant(most, values.dtype))
    return op.Cast(bounded, to=kind)


def _dequantised(
    values: TensorType,
    scale: TensorType,
    zero: TensorType | None,
    kind: int,
    out_dtype: int | None,
    *,
    axis: int | None = None,
    block_size: int = 0,
) -> TensorType:
    if ir.DataType(kind) in _RANGES or ir.DataType(kind) in {ir.DataType.INT4, ir.DataType.UINT4}:
        placed = {} if axis is None else {"axis": axis, "block_size": block_size}
        result = op.DequantizeLinear(values, scale, zero, **placed)
    else:  # ONNX's operator has no zero point for int32
        result = op.Cast(values, to=_FLOAT)
        if zero is not None:
            result = op.Sub(result, op.Cast(_along(zero, values, axis), to=_FLOAT))
        result = op.Mul(result, _along(scale, values, axis))
    return result if out_dtype in {-1, None, _FLOAT} else op.Cast(result, to=out_dtype)


def _along(one: TensorType, values: TensorType, axis: int | None) -> TensorType:
    """`one`, with an element for each index of `axis` of `values`, in a shape that broadcasts; a scalar as it is."""
    return one if axis is None else _reshaped(one, [-1 if at == axis else 1 for at in range(len(values.shape))])


def _reshaped(one: TensorType | None, shape: Sequence[int]) -> TensorType | None:
    return None if one is None else op.Reshape(one, op.Constant(value=ir.tensor(np.array(shape, np.int64))))


def _range(values: TensorType) -> tuple[TensorType, TensorType]:
    """The least and the largest of `values` and zero, as float32 scalars."""
    given, zero = op.Cast(values, to=_FLOAT), _constant(0.0, _FLOAT)
    return op.Min(op.ReduceMin(given, keepdims=False), zero), op.Max(op.ReduceMax(given, keepdims=False), zero)


def _wide(scale: TensorType) -> TensorType:
    """A computed scale in PyTorch's type of it."""
    return op.Cast(op.Reshape(scale, op.Constant(value_ints=[1])), to=ir.DataType.DOUBLE)


def _constant(value: float, kind: int) -> TensorType:
    return op.Constant(value=ir.tensor(value, dtype=ir.DataType(kind)))
