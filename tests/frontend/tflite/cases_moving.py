"""Forms of the operators that move elements, or read and write them at computed places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.frontend.tflite.branches import Branches, Cases


def _moved(b: Branches, operator: str, shape: tuple[int, ...], *more: Any, kind: str = "", **options: Any) -> None:
    """One tensor, and constants of places."""
    x = b.x(*shape)
    b.make(operator, [x, *(b.ints(one) for one in more)], x, kind=kind, exact=True, **options)


def reshape(b: Branches) -> None:
    for shape in ([6, 20], [-1, 5], [2, 3, 4, 5, 1]):
        _moved(b, "RESHAPE", (2, 3, 4, 5), shape, kind="ReshapeOptions")
    x = b.x(4, 6)
    b.make("RESHAPE", [x], x, kind="ReshapeOptions", exact=True, NewShape=np.array([3, -1], np.int32))


def squeeze(b: Branches) -> None:
    for axes in ([0], [-1, 0], []):
        options = {"SqueezeDims": np.array(axes, np.int32)} if axes else {}
        _moved(b, "SQUEEZE", (1, 5, 7, 1), kind="SqueezeOptions", **options)


def expand_dims(b: Branches) -> None:
    for axis in (0, -1, 2):
        _moved(b, "EXPAND_DIMS", (4, 5, 6), axis, kind="ExpandDimsOptions")


def transpose(b: Branches) -> None:
    for order in ((0, 3, 1, 2), (3, 2, 1, 0), (1, 0, 2, 3)):
        _moved(b, "TRANSPOSE", (2, 3, 4, 5), order, kind="TransposeOptions")
    _moved(b, "TRANSPOSE", (3, 4, 2, 3, 2), (4, 2, 0, 1, 3), kind="TransposeOptions")


def concatenation(b: Branches) -> None:
    for axis in (0, 1, -1):
        x = b.x(3, 4, 5)
        shape = [3, 4, 5]
        shape[axis] = 2
        inputs = [x, b.like(x, *shape), b.like(x, 3, 4, 5)]
        b.make("CONCATENATION", inputs, x, kind="ConcatenationOptions", exact=True, Axis=axis)
    if b.is_float:
        inputs = [b.x(3, 4), b.x(3, 6, low=-2, high=3)]
        b.make("CONCATENATION", inputs, (-4, 4), kind="ConcatenationOptions", Axis=1)


def pack(b: Branches) -> None:
    for axis in (0, 1, -1):
        x = b.x(3, 4)
        inputs = [x, b.like(x, 3, 4), b.like(x, 3, 4)]
        b.make("PACK", inputs, x, kind="PackOptions", exact=True, Axis=axis, ValuesCount=3)


def unpack(b: Branches) -> None:
    for axis in (0, 1, -1):
        x = b.x(3, 4, 5)
        count = (3, 4, 5)[axis]
        b.make("UNPACK", [x], *([x] * count), kind="UnpackOptions", exact=True, Axis=axis, Num=count)


def split(b: Branches) -> None:
    for axis, parts in ((1, 2), (-1, 3), (0, 2)):
        x = b.x(2, 4, 9)
        inputs = [b.ints(axis), x]
        b.make("SPLIT", inputs, *([x] * parts), kind="SplitOptions", exact=True, NumSplits=parts)


def split_v(b: Branches) -> None:
    for axis, sizes in ((1, [1, 3, 4]), (-1, [2, -1]), (0, [2]), (2, [5, 1, 1, 2])):
        x = b.x(2, 8, 9)
        inputs = [x, b.ints(sizes), b.ints(axis)]
        b.make("SPLIT_V", inputs, *([x] * len(sizes)), kind="SplitVOptions", exact=True, NumSplits=len(sizes))


def slice_(b: Branches) -> None:
    for begin, size in (((0, 1, 2), (2, 2, 3)), ((1, 0, 3), (-1, 3, -1)), ((2, 3, 5), (1, 1, 1))):
        _moved(b, "SLICE", (3, 4, 6), begin, size, kind="SliceOptions")


def strided_slice(b: Branches) -> None:
    forms: list[tuple[list[int], list[int], list[int], dict[str, int]]] = [
        ([0, 1, 2], [2, 4, 6], [1, 2, 3], {}),
        ([-1, 3, 5], [-4, 0, -7], [-1, -2, -1], {}),
        ([1, 1, 1], [9, 9, 9], [1, 1, 1], {}),
        ([1, 2, 3], [2, 3, 4], [1, 1, 2], {"BeginMask": 0b101, "EndMask": 0b011}),
        ([2, 2, 2], [0, 0, 0], [-1, -1, -2], {"BeginMask": 0b001, "EndMask": 0b110}),
        ([1, -1, 0], [2, 0, 6], [1, 1, 1], {"ShrinkAxisMask": 0b011}),
        ([-2, 0, -1], [0, 4, 0], [1, 1, 1], {"ShrinkAxisMask": 0b101, "EndMask": 0b001}),
        ([0, 0, 1], [0, 0, 5], [1, 1, 2], {"EllipsisMask": 0b001, "NewAxisMask": 0b010}),
        ([1, 0, 2], [3, 0, 5], [1, 1, 1], {"EllipsisMask": 0b010}),
        ([0, 1, 0, 0], [0, 3, 0, 0], [1, 1, 1, 1], {"NewAxisMask": 0b1001, "EndMask": 0b100}),
        ([1, 0], [3, 2], [1, 1], {}),
        ([0, 0, 2, 0], [1, 0, 0, 0], [1, 1, 1, 1],
         {"EllipsisMask": 0b0010, "NewAxisMask": 0b1000, "ShrinkAxisMask": 0b0100}),
    ]  # fmt: skip
    for begin, end, strides, masks in forms:
        _moved(b, "STRIDED_SLICE", (3, 4, 6), begin, end, strides, kind="StridedSliceOptions", **masks)


def tile(b: Branches) -> None:
    for times in ((2, 1, 3), (1, 2, 1)):
        _moved(b, "TILE", (2, 3, 4), times, kind="TileOptions")


def pad(b: Branches) -> None:
    for widths in (((0, 0), (1, 2), (2, 0)), ((1, 1), (0, 0), (0, 3))):
        _moved(b, "PAD", (3, 4, 5), widths, kind="PadOptions")


def padv2(b: Branches) -> None:
    x = b.x(3, 4, 5)
    value = b.writer.constant(37 if not b.is_float else 1.5, b.type, b.writer.tensors[x].quantised)
    b.make("PADV2", [x, b.ints(((0, 0), (1, 2), (2, 0))), value], x, kind="PadV2Options", exact=True)


def mirror_pad(b: Branches) -> None:
    for mode in (0, 1):
        _moved(b, "MIRROR_PAD", (3, 4, 5), ((1, 2), (0, 3), (2, 0)), kind="MirrorPadOptions", Mode=mode)


def shape(b: Branches) -> None:
    for type_, number in (("INT32", 2), ("INT64", 4)):
        b.make("SHAPE", [b.x(2, 3, 4)], type_, kind="ShapeOptions", exact=True, OutType=number)


def rank(b: Branches) -> None:
    b.make("RANK", [b.x(2, 3, 4)], "INT32", kind="RankOptions", exact=True)


def fill(b: Branches) -> None:
    b.make("FILL", [b.ints([3, 4]), b.x()], "FLOAT32", kind="FillOptions", exact=True)
    b.make("FILL", [b.ints([5]), b.fed(7, "INT32")], "INT32", kind="FillOptions", exact=True)


def range_(b: Branches) -> None:
    b.make("RANGE", [b.ints(1), b.ints(20), b.ints(3)], "INT32", kind="RangeOptions", exact=True)
    numbers = [b.writer.constant(value, "FLOAT32") for value in (3.0, -1.0, -0.5)]
    b.make("RANGE", numbers, "FLOAT32", kind="RangeOptions", exact=True)


def broadcast_to(b: Branches) -> None:
    _moved(b, "BROADCAST_TO", (3, 1, 5), (2, 3, 4, 5), kind="BroadcastToOptions")
    _moved(b, "BROADCAST_TO", (4, 1), (4, 6), kind="BroadcastToOptions")


def broadcast_args(b: Branches) -> None:
    b.make("BROADCAST_ARGS", [b.ints([3, 1, 5]), b.ints([4, 1])], "INT32", exact=True)


def reverse_v2(b: Branches) -> None:
    for axes in ([0], [2], [-2]):
        _moved(b, "REVERSE_V2", (3, 4, 5), axes, kind="ReverseV2Options")


def reverse_sequence(b: Branches) -> None:
    for time, batch, shape in ((1, 0, (3, 5, 4)), (0, 1, (5, 3, 4)), (2, 0, (3, 4, 5)), (1, 2, (4, 5, 3))):
        options = {"SeqDim": time, "BatchDim": batch}
        _moved(b, "REVERSE_SEQUENCE", shape, [2, 5, 3], kind="ReverseSequenceOptions", **options)


def space_to_batch_nd(b: Branches) -> None:
    for extents, block, borders in (
        ((1, 4, 6, 3), (2, 3), ((0, 0), (0, 0))),
        ((2, 5, 4, 3), (3, 2), ((1, 0), (2, 0))),
        ((2, 5, 4), (3,), ((1, 3),)),
    ):
        _moved(b, "SPACE_TO_BATCH_ND", extents, block, borders, kind="SpaceToBatchNDOptions")


def batch_to_space_nd(b: Branches) -> None:
    for extents, block, borders in (
        ((6, 2, 2, 3), (2, 3), ((0, 0), (0, 0))),
        ((12, 2, 3, 3), (3, 2), ((1, 0), (2, 1))),
        ((6, 4, 4), (3,), ((1, 2),)),
    ):
        _moved(b, "BATCH_TO_SPACE_ND", extents, block, borders, kind="BatchToSpaceNDOptions")


def matrix_diag(b: Branches) -> None:
    _moved(b, "MATRIX_DIAG", (3, 4), kind="MatrixDiagOptions")


def matrix_set_diag(b: Branches) -> None:
    for rows, columns in ((4, 4), (3, 5), (5, 3)):
        x = b.x(2, rows, columns)
        diagonal = b.like(x, 2, min(rows, columns))
        b.make("MATRIX_SET_DIAG", [x, diagonal], x, kind="MatrixSetDiagOptions", exact=True)


def gather(b: Branches) -> None:
    forms: list[tuple[tuple[int, ...], Any, int, int]] = [
        ((5, 4, 3), [3, 0, 4, 3], 0, 0),
        ((3, 5, 4), [[1, 4], [0, 2]], 1, 0),
        ((3, 4, 5), [2, 1], -1, 0),
        ((3, 4, 5), 2, 1, 0),
        ((3, 5, 4), [[1, 4], [0, 2], [3, 3]], 1, 1),
        ((2, 3, 5), np.arange(18).reshape(2, 3, 3) % 5, 2, 2),
        ((3, 4, 5), [[1, 4], [0, 2], [3, 3]], 2, 1),
        ((3, 4, 5), [[1, 4], [0, 2], [3, 3]], -1, -1),
    ]
    for shape, places, axis, batch in forms:
        _moved(b, "GATHER", shape, places, kind="GatherOptions", Axis=axis, BatchDims=batch)
    x = b.x(6, 4)
    b.make("GATHER", [x, b.fed([5, 0, 2], "INT64")], x, kind="GatherOptions", exact=True)


def gather_nd(b: Branches) -> None:
    for places in ([[0, 1], [2, 3]], [[2], [0], [1]], [[[0, 1, 2]], [[2, 3, 4]]]):
        _moved(b, "GATHER_ND", (3, 4, 5), places, kind="GatherNdOptions")


def embedding_lookup(b: Branches) -> None:
    table = b.constant(7, 5)
    b.make("EMBEDDING_LOOKUP", [b.fed([3, 0, 6, 6], "INT32"), table], table, exact=True)


def scatter_nd(b: Branches) -> None:
    x = b.x(4)
    b.make("SCATTER_ND", [b.ints([[4], [3], [1], [7]]), x, b.ints([8])], x, kind="ScatterNdOptions")
    x = b.x(2, 3)
    b.make("SCATTER_ND", [b.ints([[2], [0]]), x, b.ints([4, 3])], x, kind="ScatterNdOptions")


def one_hot(b: Branches) -> None:
    on, off = (b.writer.constant(value, "FLOAT32") for value in (2.5, -1.0))
    for places, axis in (([1, 0, 3, 2], -1), ([[0, 5], [2, -1]], 0), ([[0, 1], [2, 3]], 1)):
        inputs = [b.ints(places), b.ints(4), on, off]
        b.make("ONE_HOT", inputs, "FLOAT32", kind="OneHotOptions", exact=True, Axis=axis)


_FLOAT, _ALL = {"FLOAT32"}, {"FLOAT32", "INT8", "UINT8", "INT16"}
_NARROW, _UNSIGNED = {"FLOAT32", "INT8", "UINT8"}, {"FLOAT32", "UINT8", "INT16"}

CASES: Mapping[str, tuple[Cases, set[str]]] = {
    "BATCH_TO_SPACE_ND": (batch_to_space_nd, _ALL),
    "BROADCAST_ARGS": (broadcast_args, _FLOAT),
    "BROADCAST_TO": (broadcast_to, _ALL),
    "CONCATENATION": (concatenation, _ALL),
    "EMBEDDING_LOOKUP": (embedding_lookup, _ALL),
    "EXPAND_DIMS": (expand_dims, _ALL),
    "FILL": (fill, _FLOAT),
    "GATHER": (gather, _ALL),
    "GATHER_ND": (gather_nd, _ALL),
    "MATRIX_DIAG": (matrix_diag, _ALL),
    "MATRIX_SET_DIAG": (matrix_set_diag, _ALL),
    "MIRROR_PAD": (mirror_pad, _ALL),
    "ONE_HOT": (one_hot, _FLOAT),
    "PACK": (pack, _ALL),
    "PAD": (pad, _ALL),
    "PADV2": (padv2, _ALL),
    "RANGE": (range_, _FLOAT),
    "RANK": (rank, _ALL),
    "RESHAPE": (reshape, _ALL),
    "REVERSE_SEQUENCE": (reverse_sequence, _UNSIGNED),
    "REVERSE_V2": (reverse_v2, _ALL),
    "SCATTER_ND": (scatter_nd, _NARROW),
    "SHAPE": (shape, _ALL),
    "SLICE": (slice_, _ALL),
    "SPACE_TO_BATCH_ND": (space_to_batch_nd, _ALL),
    "SPLIT": (split, _ALL),
    "SPLIT_V": (split_v, _ALL),
    "SQUEEZE": (squeeze, _ALL),
    "STRIDED_SLICE": (strided_slice, _ALL),
    "TILE": (tile, _ALL),
    "TRANSPOSE": (transpose, _ALL),
    "UNPACK": (unpack, _ALL),
}
"""Forms of an operator, and the types that LiteRT's reference kernels take."""
