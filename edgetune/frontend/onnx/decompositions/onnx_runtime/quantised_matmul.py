"""Products of quantised matrices of ONNX Runtime with floats: weights in steps of constant scales, data in any.

Weights stay constant integers behind a DequantizeLinear. Those of fewer than 8 bits have a byte each there.
"""

from __future__ import annotations

import math

import numpy as np
import onnx

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.decompositions.builder import Builder
from edgetune.frontend.onnx.decompositions.scales import dequantised, rounded_to_range

_BITS = (2, 4, 8)


def dynamic_quantize_matmul(b: Builder, _: onnx.NodeProto) -> None:
    """The data are rounded to 255 steps of their own range."""
    weights = _weights(b, b.input(1), b.input(2), b.input(3))
    _product(b, rounded_to_range(b, b.input(0)), weights, b.input(4))


def matmul_integer_to_float(b: Builder, _: onnx.NodeProto) -> None:
    """Both operands are integers, and each has a scale."""
    if math.prod(b.shape(b.input(2))) != 1:
        raise UnsupportedOperator(f"{b.shown} has a scale for each row of its data; give all of them one scale")
    data = dequantised(b, b.input(0), b.input(2), b.input(4))
    _product(b, data, _weights(b, b.input(1), b.input(3), b.input(5)), b.input(6))


def _weights(b: Builder, integers: str, scale: str, zero: str) -> str:
    return dequantised(b, integers, scale, zero, axis=len(b.shape(integers)) - 1)


def _product(b: Builder, data: str, weights: str, bias: str) -> None:
    result = b.op("MatMul", data, weights)
    b.output(0, b.op("Add", result, bias) if bias else result)


def matmul_nbits(b: Builder, _: onnx.NodeProto) -> None:
    """Weights (N, K) in blocks along K, several to a byte, each block with a scale and a zero point."""
    bits, block, rows, columns = (b.integer(name) for name in ("bits", "block_size", "K", "N"))
    if bits not in _BITS or block <= 0 or b.integer("weight_prepacked", 0) or b.input(4):
        raise UnsupportedOperator(
            f"{b.shown} has weights of {bits} bits in blocks of {block}, prepacked, or with group indices; give it "
            f"weights of {' or '.join(map(str, _BITS))} bits in blocks, in the order of the file"
        )
    blocks = -(-rows // block)
    packed = b.needed(1, "weights")
    if packed.size * 8 != columns * blocks * block * bits or math.prod(b.shape(b.input(2))) != columns * blocks:
        raise UnsupportedOperator(f"{b.shown} has weights or scales of another size than K, N and block_size say")
    middle = 1 << (bits - 1)
    whole = _unpacked(packed.reshape(columns * blocks, -1), bits, block) - middle
    scale = b.reshape(b.input(2), columns * blocks)
    offset, zero = "", ""
    if b.input(3):
        offset, zero = _zeros(b, bits, columns, blocks, middle)
    weights = b.constant(whole, "int8")
    scale = b.cast(scale, "float32")
    result = b.op("DequantizeLinear", weights, scale, *([zero] if zero else []), axis=0)
    if offset:
        result = b.op("Sub", result, b.reshape(b.op("Mul", offset, scale), columns * blocks, 1))
    result = b.first(b.reshape(result, columns, blocks * block), columns, rows)
    result = b.cast(result, b.dtype(b.input(0))) if b.dtype(b.input(0)) != np.float32 else result
    _product(b, b.input(0), b.moved(result, 1, 0), b.input(5))


def _zeros(b: Builder, bits: int, columns: int, blocks: int, middle: int) -> tuple[str, str]:
    """The distance of each block's zero point from the middle: one in float32, or one in int8; the other is ""."""
    given = b.needed(3, "zero points")
    if given.dtype != np.uint8:
        if given.size != columns * blocks:
            raise UnsupportedOperator(f"{b.shown} has another number of zero points than of blocks")
        return b.constant(given.reshape(-1).astype("float32") - middle), ""
    if given.size != columns * -(-blocks * bits // 8):
        raise UnsupportedOperator(f"{b.shown} has another number of zero points than of blocks")
    zeros = _unpacked(given.reshape(columns, -1), bits, blocks)
    return "", b.constant(zeros.reshape(-1) - middle, "int8")


def _unpacked(packed: np.ndarray, bits: int, count: int) -> np.ndarray:
    """The first `count` values of each row of bytes, the lowest bits of a byte first: int16 of (rows, count)."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    values = (packed[:, :, np.newaxis] >> shifts) & ((1 << bits) - 1)
    return np.asarray(values.reshape(len(packed), -1)[:, :count].astype(np.int16))
