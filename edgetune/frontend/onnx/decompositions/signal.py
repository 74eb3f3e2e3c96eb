"""Fourier transforms as products with constant matrices: sizes are known, and small on the intended devices."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.decompositions.builder import Builder


def dft(b: Builder, _: onnx.NodeProto) -> None:
    """Input (..., n, ..., 1 or 2), transformed along one axis."""
    x = b.input(0)
    shape = b.shape(x)
    rank = len(shape)
    axis = (
        int(b.needed(2, "axis").reshape(-1)[0])
        if b.input(2)
        else int(b.attributes.get("axis", 1 if b.opset < 20 else -2))
    )
    axis %= rank
    half = b.attributes.get("inverse", 0) and b.attributes.get("onesided", 0)
    whole = 2 * (shape[axis] - 1) if half else shape[axis]
    length = int(b.needed(1, "length").reshape(-1)[0]) if b.input(1) else whole
    b.output(0, _transform(b, x, axis, length))


def _transform(b: Builder, x: str, axis: int, length: int) -> str:
    shape = b.shape(x)
    rank = len(shape)
    dtype = b.dtype(x)
    inverse, onesided = b.attributes.get("inverse", 0), b.attributes.get("onesided", 0)
    taken = min(length, shape[axis])
    # Onesided inverse: the input holds half of a spectrum; the other half is its conjugate mirror.
    real_result = bool(inverse and onesided)
    rows = taken if not real_result else min(shape[axis], length // 2 + 1)
    columns = length // 2 + 1 if onesided and not inverse else length
    angle = (2 if inverse else -2) * np.pi * np.outer(np.arange(rows), np.arange(columns)) / length
    factor = np.ones((rows, 1))
    if real_result:
        factor = np.where((np.arange(rows) == 0) | (2 * np.arange(rows) == length), 1.0, 2.0)[:, None]
    norm = length if inverse else 1
    cosine = b.constant(factor * np.cos(angle) / norm, dtype)
    sine = b.constant(factor * np.sin(angle) / norm, dtype)
    perm = [i for i in range(rank - 1) if i != axis]
    parts = []
    for index in range(shape[-1]):
        part = b.part(b.take(x, index, rank - 1), 0, rows, axis)
        parts.append(b.op("Transpose", part, perm=[*perm, axis]))
    real = b.op("MatMul", parts[0], cosine)
    imaginary = b.op("MatMul", parts[0], sine)
    if len(parts) > 1:
        real = b.op("Sub", real, b.op("MatMul", parts[1], sine))
        imaginary = b.op("Add", imaginary, b.op("MatMul", parts[1], cosine))
    back = np.argsort([*perm, axis]).tolist()
    results = [b.op("Transpose", r, perm=back) for r in ([real] if real_result else [real, imaginary])]
    return b.stack(results, rank - 1)


def stft(b: Builder, _: onnx.NodeProto) -> None:
    """Signal (batch, n, 1 or 2) to (batch, frames, bins, 2); a real one may be (batch, n)."""
    signal, window = b.input(0), b.input(2)
    if len(b.shape(signal)) == 2:
        signal = b.reshape(signal, *b.shape(signal), 1)
    shape = b.shape(signal)
    step = int(b.needed(1, "frame step").reshape(-1)[0])
    length = int(b.needed(3, "frame length").reshape(-1)[0]) if b.input(3) else b.shape(window)[0]
    b.attributes.setdefault("onesided", 1)
    if window and b.shape(window) != (length,):
        raise UnsupportedOperator(
            f"{b.shown} has a window of {prod(b.shape(window))} values and frames of {length}; make both equal"
        )
    if length > shape[1] or step < 1:
        raise UnsupportedOperator(
            f"{b.shown} takes frames of {length} values, one each {step}, from a signal of {shape[1]}; give a longer "
            "signal, or a step of at least 1"
        )
    frames = 1 + (shape[1] - length) // step
    index = np.arange(frames)[:, None] * step + np.arange(length)[None, :]
    framed = b.op("Gather", signal, b.constant(index, "int64"), axis=1)
    if window:
        framed = b.op("Mul", framed, b.reshape(window, 1, 1, length, 1))
    b.output(0, _transform(b, framed, 2, length))
