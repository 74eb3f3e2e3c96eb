"""Tensor decompositions: LpNormalization, GroupNormalization, Split, Slice, SpaceToDepth, Det and Col2Im."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.decompositions.builder import Builder

_LARGEST_DETERMINANT = 6


def lp_normalization(b: Builder, _: onnx.NodeProto) -> None:
    """Divides by the norm along an axis; 0 where the norm is 0."""
    x = b.input(0)
    axis = int(b.attributes.get("axis", -1)) % len(b.shape(x))
    norm = b.total(b.op("Abs", x), axis)
    if b.attributes.get("p", 2) == 2:
        norm = b.op("Sqrt", b.total(b.op("Mul", x, x), axis))
    zero, one = b.constant(0, b.dtype(x)), b.constant(1, b.dtype(x))
    empty = b.op("Equal", norm, zero)
    quotient = b.op("Div", x, b.op("Where", empty, one, norm))
    b.output(0, b.op("Where", empty, zero, quotient))


def group_normalization(b: Builder, _: onnx.NodeProto) -> bool:
    """A scale and an offset for each group, as before opset 21: groups are the channels of another normalisation."""
    if b.opset >= 21:
        return False
    x, groups = b.input(0), int(b.attributes["num_groups"])
    grouped = b.reshape(x, b.shape(x)[0], groups, -1)
    epsilon = b.attributes.get("epsilon", 1e-5)
    result = b.op("InstanceNormalization", grouped, b.input(1), b.input(2), epsilon=epsilon)
    b.output(0, b.reshape(result, *b.shape(x)))
    return True


def split(b: Builder, node: onnx.NodeProto) -> bool:
    """Split with parts of no elements."""
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
    """An empty slice, or one backwards from before the first element: TVM rejects these, or misinterprets them.

    Bounds as ONNX defines them: negative ones count from the end. Then a start is clamped to 0 and the extent
    (for negative steps: less 1), an end to 0 (-1) and the extent (less 1).
    """
    bounds = _bounds_of_slice(b)
    if bounds is None:
        return False  # bounds are computed at run time, or the import rejects them by name
    x = b.input(0)
    shape = list(b.shape(x))
    starts = []
    for axis, start, end, step in bounds:
        extent, last = shape[axis], shape[axis] - (step < 0)
        first = max(min(start + extent * (start < 0), last), 0)
        stop = max(min(end + extent * (end < 0), last), -(step < 0))
        shape[axis] = len(range(first, stop, step)) if extent else 0
        starts.append(first if start < -extent else start)
    if not all(shape):
        b.output(0, b.constant(np.zeros(shape), b.dtype(x)))
        return True
    if starts == [start for _, start, _, _ in bounds] or b.opset < 10:
        return False
    axes, _, ends, steps = zip(*bounds, strict=True)
    b.output(0, b.op("Slice", x, *(b.constant(given, "int64") for given in (starts, ends, axes, steps))))
    return True


def _bounds_of_slice(b: Builder) -> list[tuple[int, int, int, int]] | None:
    """(axis, start, end, step) of each axis that is sliced; None where they are not known or not valid."""
    names = [b.input(number) for number in range(1, 5)]
    given: list[Any] = [b.value(name) if name else None for name in names]
    if any(name and bound is None for name, bound in zip(names, given, strict=True)):
        return None
    if b.opset < 10:
        given = [b.attributes.get(name) for name in ("starts", "ends", "axes", "steps")]
    known = [np.asarray(bound) for bound in given if bound is not None]
    if given[0] is None or given[1] is None:
        return None
    if any(bound.ndim != 1 or bound.dtype.kind != "i" or len(bound) != len(known[0]) for bound in known):
        return None
    starts, ends = (list(map(int, bound)) for bound in given[:2])
    rank = len(b.shape(b.input(0)))
    axes = [int(axis) for axis in given[2]] if given[2] is not None else list(range(len(starts)))
    steps = [int(step) for step in given[3]] if given[3] is not None else [1] * len(starts)
    distinct = {axis % rank for axis in axes if -rank <= axis < rank}
    if len(distinct) != len(axes) or not all(steps):
        return None
    return [(a % rank, start, end, step) for a, start, end, step in zip(axes, starts, ends, steps, strict=True)]


def space_to_depth(b: Builder, _: onnx.NodeProto) -> bool:
    """SpaceToDepth: the position in the block becomes the inner part of the new channels."""
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
