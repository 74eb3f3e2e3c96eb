"""Norms, determinants and the like in simpler operators."""

from __future__ import annotations

import numpy as np
import onnx

from edgetune.errors import UnsupportedOperator
from edgetune.models.decompositions.builder import Builder

_LARGEST_DETERMINANT = 6


def lp_normalization(b: Builder, _: onnx.NodeProto) -> None:
    """Divides by the norm along an axis, 0 where the norm is 0."""
    x = b.input(0)
    axis = int(b.attributes.get("axis", -1)) % len(b.shape(x))
    norm = b.total(b.op("Abs", x), axis)
    if b.attributes.get("p", 2) == 2:
        norm = b.op("Sqrt", b.total(b.op("Mul", x, x), axis))
    zero, one = b.constant(0, b.dtype(x)), b.constant(1, b.dtype(x))
    empty = b.op("Equal", norm, zero)
    quotient = b.op("Div", x, b.op("Where", empty, one, norm))
    b.output(0, b.op("Where", empty, zero, quotient))


def split(b: Builder, node: onnx.NodeProto) -> bool:
    """With parts of no elements."""
    given = b.value(b.input(1)) if b.input(1) else None
    if given is None or given.all():
        return False
    x = b.input(0)
    axis = int(b.attributes.get("axis", 0)) % len(b.shape(x))
    start = 0
    for index in range(len(node.output)):
        stop = start + int(given[index])
        shape = [0 if a == axis else e for a, e in enumerate(b.shape(x))]
        b.output(index, b.part(x, start, stop, axis) if stop > start else b.constant(np.zeros(shape), b.dtype(x)))
        start = stop
    return True


def slice_(b: Builder, _: onnx.NodeProto) -> bool:
    """Without any element, be it because it ends before it begins."""
    x = b.input(0)
    given = [b.input(number) for number in range(1, 5)]
    bounds = [b.value(name) if name else None for name in given]
    if any(name and bound is None for name, bound in zip(given, bounds, strict=True)):
        return False  # found out at run time
    if b.opset < 10:
        bounds = [b.attributes.get(name) for name in ("starts", "ends", "axes", "steps")]
    starts, ends, axes, steps = bounds
    shape = list(b.shape(x))
    if starts is None or ends is None or not shape or (steps is not None and not all(steps)):
        return False
    axes = np.arange(len(starts)) if axes is None else axes
    steps = np.ones(len(starts), int) if steps is None else steps
    if len({len(given) for given in (starts, ends, axes, steps)}) > 1:
        return False
    for axis, *bound in zip(axes, starts, ends, steps, strict=True):
        within = slice(*map(int, bound)).indices(shape[int(axis) % len(shape)])
        shape[int(axis) % len(shape)] = len(range(*within))
    if all(shape):
        return False
    b.output(0, b.constant(np.zeros(shape), b.dtype(x)))
    return True


def space_to_depth(b: Builder, _: onnx.NodeProto) -> bool:
    """With the place in the block as the inner part of the new channels."""
    if b.text("mode", "DCR") != "CRD":
        return False
    batch, channels, height, width = b.shape(b.input(0))
    block = int(b.attributes["blocksize"])
    cells = b.reshape(b.input(0), batch, channels, height // block, block, width // block, block)
    moved = b.op("Transpose", cells, perm=[0, 1, 3, 5, 2, 4])
    b.output(0, b.reshape(moved, batch, channels * block * block, height // block, width // block))
    return True


def det(b: Builder, _: onnx.NodeProto) -> None:
    """Determinants of (..., n, n) by expansion along the first row."""
    x = b.input(0)
    shape = b.shape(x)
    size = shape[-1]
    if size > _LARGEST_DETERMINANT:
        raise UnsupportedOperator(f"Det of {size} x {size} matrices is not supported; at most {_LARGEST_DETERMINANT}")
    rank = len(shape)
    rows = [b.take(x, i, rank - 2) for i in range(size)]
    cells = [[b.take(r, j, rank - 2) for j in range(size)] for r in rows]
    b.output(0, _expanded(b, cells))


def _expanded(b: Builder, cells: list[list[str]]) -> str:
    if len(cells) == 1:
        return cells[0][0]
    total = ""
    for column, cell in enumerate(cells[0]):
        minor = _expanded(b, [[c for j, c in enumerate(row) if j != column] for row in cells[1:]])
        term = b.op("Mul", cell, minor)
        total = term if not total else b.op("Sub" if column % 2 else "Add", total, term)
    return total


def col2im(b: Builder, _: onnx.NodeProto) -> None:
    """(n, c * product of block, l) to images: a transposed convolution with a kernel of ones and zeros."""
    image = [int(v) for v in b.needed(1, "image shape")]
    block = [int(v) for v in b.needed(2, "block shape")]
    rank = len(image)
    strides = list(b.attributes.get("strides", [1] * rank))
    dilations = list(b.attributes.get("dilations", [1] * rank))
    pads = list(b.attributes.get("pads", [0] * 2 * rank))
    batch, columns, _ = b.shape(b.input(0))
    cells = int(np.prod(block))
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, block, strict=True)]
    counts = [
        (image[i] + pads[i] + pads[rank + i] - reach[i]) // strides[i] + 1 for i in range(rank)
    ]  # fmt: skip
    spare = [image[i] + pads[i] + pads[rank + i] - reach[i] - (counts[i] - 1) * strides[i] for i in range(rank)]
    flat_columns = b.reshape(b.input(0), batch * (columns // cells), cells, *counts)
    kernel = np.eye(cells).reshape(cells, 1, *block)
    result = b.op(
        "ConvTranspose", flat_columns, b.constant(kernel, b.dtype(b.input(0))),
        strides=strides, dilations=dilations, pads=pads, output_padding=spare,
    )  # fmt: skip
    b.output(0, b.reshape(result, batch, columns // cells, *image))
