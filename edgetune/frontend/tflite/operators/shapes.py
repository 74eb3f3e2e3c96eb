"""Operators that move elements, or make tensors of one value: integers stay integers where their scale stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import helper

from edgetune.frontend.tflite.step import OperatorStep, Translator
from edgetune.frontend.tflite.translation import MisfitError


def reshape(step: OperatorStep) -> None:
    """RESHAPE: the shape is input 1, or an option."""
    if step.has(1):
        shape = step.numbers(1)
    else:
        shape = step.constant(np.asarray(step.option("NewShape", step.output().shape)).reshape(-1), np.int64)
    step.move(lambda value: step.op("Reshape", value, shape, allowzero=1))


def squeeze(step: OperatorStep) -> None:
    """SQUEEZE: of the axes that are named, or of all of extent 1."""
    axes = np.asarray(step.option("SqueezeDims", 0)).reshape(-1)
    if isinstance(step.option("SqueezeDims", 0), int):
        axes = np.asarray([axis for axis, extent in enumerate(step.input(0).shape) if extent == 1])
    step.move(lambda value: step.op("Squeeze", value, step.constant(axes, np.int64)) if axes.size else value)


def expand_dims(step: OperatorStep) -> None:
    """EXPAND_DIMS."""
    axis = step.constant(step.value(1, "axis").reshape(-1), np.int64)
    step.move(lambda value: step.op("Unsqueeze", value, axis))


def transpose(step: OperatorStep) -> None:
    """TRANSPOSE."""
    order = [int(axis) for axis in step.value(1, "order of axes")]
    step.move(lambda value: step.op("Transpose", value, perm=order))


def _joined(step: OperatorStep, axis: int, *, stacked: bool) -> None:
    """All inputs side by side, along a new axis where they are stacked: integers where all have the result's scale."""
    positions = range(step.inputs)
    plain = all(step.input(position).quantisation == step.output().quantisation for position in positions)
    plain = plain and not step.option("FusedActivationFunction", 0)
    values = [step.raw(position) if plain else step.real(position) for position in positions]
    if stacked:
        values = [step.op("Unsqueeze", value, step.constant([axis], np.int64)) for value in values]
    (step.give_raw if plain else step.give)(step.op("Concat", *values, axis=axis))


def concatenation(step: OperatorStep) -> None:
    """CONCATENATION along an axis."""
    _joined(step, int(step.option("Axis", 0)), stacked=False)


def pack(step: OperatorStep) -> None:
    """PACK along a new axis."""
    _joined(step, int(step.option("Axis", 0)), stacked=True)


def _parted(step: OperatorStep, position: int, extents: Sequence[int], axis: int) -> None:
    if step.outputs != len(extents):
        raise MisfitError(f"has {step.outputs} outputs and {len(extents)} parts")
    plain = all(step.input(position).quantisation == step.output(output).quantisation for output in range(step.outputs))
    value = step.raw(position) if plain else step.real(position)
    parts = step.ops("Split", len(extents), value, step.constant(extents, np.int64), axis=axis)
    for output, part in enumerate(parts):
        (step.give_raw if plain else step.give)(part, output)


def split(step: OperatorStep) -> None:
    """SPLIT: into equal parts along the axis that input 0 names."""
    axis = int(step.value(0, "axis").reshape(()))
    extent, parts = step.input(1).shape[axis], step.option("NumSplits", step.outputs)
    if not parts or extent % parts:
        raise MisfitError(f"cuts {extent} elements into {parts} parts")
    _parted(step, 1, [extent // parts] * parts, axis)


def split_v(step: OperatorStep) -> None:
    """SPLIT_V: into parts of given extents, one of which may be -1."""
    axis = int(step.value(2, "axis").reshape(()))
    extents = [int(extent) for extent in step.value(1, "extents").reshape(-1)]
    if -1 in extents:
        extents[extents.index(-1)] = step.input(0).shape[axis] - sum(extents) - 1
    _parted(step, 0, extents, axis)


def unpack(step: OperatorStep) -> None:
    """UNPACK: slices along an axis, without it."""
    axis, count = int(step.option("Axis", 0)), step.outputs
    plain = all(step.same_quantisation(0, output) for output in range(count))
    value = step.raw() if plain else step.real()
    parts = step.ops("Split", count, value, axis=axis, num_outputs=count)
    for output, part in enumerate(parts):
        made = step.op("Squeeze", part, step.constant([axis], np.int64))
        (step.give_raw if plain else step.give)(made, output)


def slice_(step: OperatorStep) -> None:
    """SLICE: of `size` elements from `begin` on; a size of -1 takes the rest."""
    begin, size = step.numbers(1), step.numbers(2)
    axes = step.constant(range(step.rank()), np.int64)
    whole = step.op("Equal", size, step.constant(-1, np.int64))
    end = step.op("Where", whole, step.constant(np.iinfo(np.int64).max, np.int64), step.op("Add", begin, size))
    step.move(lambda value: step.op("Slice", value, begin, end, axes))


def strided_slice(step: OperatorStep) -> None:
    """STRIDED_SLICE: the masks say where a bound is left out, an axis is left out, or is new (tf.strided_slice)."""
    strides = [int(stride) for stride in step.value(3, "strides").reshape(-1)]
    masks = {name: int(step.option(f"{name}Mask", 0)) for name in ("Begin", "End", "Ellipsis", "NewAxis", "ShrinkAxis")}
    if masks["Ellipsis"] & (masks["Ellipsis"] - 1) or 0 in strides:
        raise MisfitError("has two ellipses or a stride of 0")
    if step.option("Offset", default=False):
        raise MisfitError("gives its ends as offsets")
    where = range(len(strides))
    flags = {name: [bool(mask >> bit & 1) for bit in where] for name, mask in masks.items()}
    counted = [bit for bit in where if not flags["Ellipsis"][bit] and not flags["NewAxis"][bit]]
    rest = step.rank() - len(counted) if any(flags["Ellipsis"]) else 0
    axes, lost, new, axis, made = {}, [], [], 0, 0
    for bit in where:
        if flags["Ellipsis"][bit]:
            axis, made = axis + rest, made + rest
        elif flags["NewAxis"][bit]:
            new.append(made)
            made += 1
        else:
            axes[bit] = axis
            if flags["ShrinkAxis"][bit]:
                lost.append(axis)
            else:
                made += 1
            axis += 1
    if axis > step.rank() or rest < 0:
        raise MisfitError(f"slices {axis} axes of {step.rank()}")
    begin, end = _bounds(step, [*axes], [strides[bit] for bit in axes], flags)
    operands = [begin, end, step.constant([*axes.values()], np.int64)]
    operands.append(step.constant([1 if flags["ShrinkAxis"][bit] else strides[bit] for bit in axes], np.int64))

    def made_of(value: str) -> str:
        value = step.op("Slice", value, *operands) if axes else value
        value = step.op("Squeeze", value, step.constant(lost, np.int64)) if lost else value
        return step.op("Unsqueeze", value, step.constant(new, np.int64)) if new else value

    step.move(made_of)


def _bounds(
    step: OperatorStep, bits: Sequence[int], strides: Sequence[int], flags: Mapping[str, Sequence[bool]]
) -> tuple[str, str]:
    """First and last bound of each sliced axis. A bound that is left out is the end of the axis in its direction."""
    far, near = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    chosen = step.constant(bits, np.int64)
    begin, end = (step.op("Gather", step.numbers(position), chosen) for position in (1, 2))
    forward = [stride > 0 for stride in strides]
    shrinks = [flags["ShrinkAxis"][bit] for bit in bits]
    after = step.op("Add", begin, step.constant(1, np.int64))
    last = step.op("Equal", begin, step.constant(-1, np.int64))
    after = step.op("Where", last, step.constant(far, np.int64), after)
    end = step.op("Where", step.constant(shrinks, np.bool_), after, end)
    left_out = [flags["End"][bit] and not shrink for bit, shrink in zip(bits, shrinks, strict=True)]
    ends = step.constant([far if ahead else near for ahead in forward], np.int64)
    end = step.op("Where", step.constant(left_out, np.bool_), ends, end)
    left_out = [flags["Begin"][bit] and not shrink for bit, shrink in zip(bits, shrinks, strict=True)]
    begins = step.constant([0 if ahead else far for ahead in forward], np.int64)
    return step.op("Where", step.constant(left_out, np.bool_), begins, begin), end


def tile(step: OperatorStep) -> None:
    """TILE."""
    times = step.numbers(1)
    step.move(lambda value: step.op("Tile", value, times))


def pad(step: OperatorStep) -> None:
    """PAD and PADV2: with 0, which in integers is the zero point, or with a constant of input 2."""
    widths = step.value(1, "widths")
    pads = step.constant(np.concatenate([widths[:, 0], widths[:, 1]]), np.int64)
    if step.has(2):
        step.give(step.op("Pad", step.real(0), pads, step.real(2)))
        return
    if step.same_quantisation() and step.input(0).quantisation is not None:
        step.give_raw(step.op("Pad", step.raw(0), pads, step.zero_point(0)))
    else:
        step.move(lambda value: step.op("Pad", value, pads))


def mirror_pad(step: OperatorStep) -> None:
    """MIRROR_PAD: with the elements beside the border, the outermost one once (reflect) or twice (symmetric)."""
    widths, twice = step.value(1, "widths"), step.option("Mode", 0) == 1
    if np.any(widths < 0) or np.any(widths > np.asarray(step.input(0).shape)[:, None]):
        raise MisfitError(f"mirrors {widths.tolist()} elements of {list(step.input(0).shape)}")

    def made_of(value: str) -> str:
        for axis, (before, after) in enumerate(widths):
            extent = step.input(0).shape[axis]
            if before or after:
                places = np.pad(np.arange(extent), (int(before), int(after)), "symmetric" if twice else "reflect")
                value = step.op("Gather", value, step.constant(places, np.int64), axis=axis)
        return value

    step.move(made_of)


def shape(step: OperatorStep) -> None:
    """SHAPE."""
    made = step.op("Shape", step.raw())
    step.give_raw(step.op("Cast", made, to=_type_of(step)))


def rank(step: OperatorStep) -> None:
    """RANK."""
    step.give_raw(step.op("Identity", step.constant(step.rank(), step.output().dtype)))


def fill(step: OperatorStep) -> None:
    """FILL: one value in all elements."""
    step.give_raw(step.op("Expand", step.raw(1), step.numbers(0)))


def range_(step: OperatorStep) -> None:
    """RANGE: from a start, to a limit that it does not reach, by steps."""
    step.give_raw(step.op("Range", step.raw(0), step.raw(1), step.raw(2)))


def broadcast_to(step: OperatorStep) -> None:
    """BROADCAST_TO."""
    extents = step.numbers(1)
    step.move(lambda value: step.op("Expand", value, extents))


def reverse_v2(step: OperatorStep) -> None:
    """REVERSE_V2: along all axes that are named."""
    axes = step.value(1, "axes").reshape(-1)
    least = np.iinfo(np.int64).min
    bounds = [step.constant([number] * axes.size, np.int64) for number in (-1, least)]
    operands = [*bounds, step.constant(axes, np.int64), step.constant([-1] * axes.size, np.int64)]
    step.move(lambda value: step.op("Slice", value, *operands))


def reverse_sequence(step: OperatorStep) -> None:
    """REVERSE_SEQUENCE: the first elements of each row, as many as input 1 says."""
    time, batch = int(step.option("SeqDim", 0)), int(step.option("BatchDim", 0))
    if time == batch or not {time, batch} <= set(range(step.rank())):
        raise MisfitError(f"reverses axis {time} of rows along axis {batch}")
    forth = [batch, time, *(axis for axis in range(step.rank()) if axis not in {batch, time})]
    back = [forth.index(axis) for axis in range(step.rank())]
    lengths = step.numbers(1)

    def made_of(value: str) -> str:
        if {time, batch} == {0, 1}:
            return step.op("ReverseSequence", value, lengths, time_axis=time, batch_axis=batch)
        value = step.op("ReverseSequence", step.op("Transpose", value, perm=forth), lengths, time_axis=1, batch_axis=0)
        return step.op("Transpose", value, perm=back)

    step.move(made_of)


def _blocks(step: OperatorStep) -> tuple[list[int], np.ndarray]:
    return [int(extent) for extent in step.value(1, "block")], step.value(2, "borders")


def space_to_batch_nd(step: OperatorStep) -> None:
    """SPACE_TO_BATCH_ND: pads, and moves the places within a block into the batch (tf.space_to_batch_nd)."""
    block, borders = _blocks(step)
    extents, axes = step.input(0).shape, len(block)
    around = [
        (0, 0),
        *((int(before), int(after)) for before, after in borders),
        *([(0, 0)] * (len(extents) - 1 - axes)),
    ]
    pads = step.constant([one[0] for one in around] + [one[1] for one in around], np.int64)
    whole = [extents[1 + axis] + sum(around[1 + axis]) for axis in range(axes)]
    if any(extent % size for extent, size in zip(whole, block, strict=True)):
        raise MisfitError(f"has the padded extents {whole} and blocks {block}")
    rest = list(extents[1 + axes :])
    apart = [extents[0]] + [part for extent, size in zip(whole, block, strict=True) for part in (extent // size, size)]
    order = [2 + 2 * axis for axis in range(axes)] + [0] + [1 + 2 * axis for axis in range(axes)]
    order += range(1 + 2 * axes, 1 + 2 * axes + len(rest))
    final = [-1] + [extent // size for extent, size in zip(whole, block, strict=True)] + rest
    plain = step.same_quantisation() and step.input(0).quantisation is not None

    def made_of(value: str) -> str:
        value = step.op("Pad", value, pads, *([step.zero_point(0)] if plain else []))
        value = step.op("Reshape", value, step.constant(apart + rest, np.int64))
        return step.op("Reshape", step.op("Transpose", value, perm=order), step.constant(final, np.int64))

    step.move(made_of)


def batch_to_space_nd(step: OperatorStep) -> None:
    """BATCH_TO_SPACE_ND: the inverse, which crops at the end (tf.batch_to_space_nd)."""
    block, borders = _blocks(step)
    extents, axes = step.input(0).shape, len(block)
    if extents[0] % int(np.prod(block)):
        raise MisfitError(f"has a batch of {extents[0]} and blocks {block}")
    rest = list(extents[1 + axes :])
    batch = extents[0] // int(np.prod(block))
    apart = [*block, batch, *extents[1 : 1 + axes], *rest]
    order = [axes] + [part for axis in range(axes) for part in (axes + 1 + axis, axis)]
    order += range(2 * axes + 1, 2 * axes + 1 + len(rest))
    joined = [batch] + [extents[1 + axis] * block[axis] for axis in range(axes)] + rest
    starts = [int(before) for before, _ in borders]
    ends = [joined[1 + axis] - int(borders[axis][1]) for axis in range(axes)]
    bounds = [step.constant(numbers, np.int64) for numbers in (starts, ends, range(1, 1 + axes))]

    def made_of(value: str) -> str:
        value = step.op("Reshape", value, step.constant(apart, np.int64))
        value = step.op("Reshape", step.op("Transpose", value, perm=order), step.constant(joined, np.int64))
        return step.op("Slice", value, *bounds)

    step.move(made_of)


def _require_small(rows: int, columns: int) -> None:
    if rows * columns > _MOST_MASKED:
        raise MisfitError(f"has a mask of {rows} x {columns} elements")


_MOST_MASKED = 1 << 22
"""Elements of a matrix whose diagonal is a mask: a byte each."""


def matrix_diag(step: OperatorStep) -> None:
    """MATRIX_DIAG: the last axis becomes the diagonal of matrices."""
    _require_small(step.input(0).shape[-1], step.input(0).shape[-1])
    mask = step.constant(np.eye(step.input(0).shape[-1], dtype=np.bool_), np.bool_)
    zero = step.constant(0, step.input(0).dtype)
    value = step.op("Unsqueeze", step.raw(), step.constant([-1], np.int64))
    step.give_raw(step.op("Where", mask, value, zero))


def matrix_set_diag(step: OperatorStep) -> None:
    """MATRIX_SET_DIAG: the diagonal of matrices is replaced by rows of input 1."""
    rows, columns = step.input(0).shape[-2:]
    _require_small(rows, columns)
    value = step.raw(1)
    if columns > rows:
        padding = [0] * (2 * step.rank(1))
        padding[-1] = columns - rows
        value = step.op("Pad", value, step.constant(padding, np.int64))
    value = step.op("Unsqueeze", value, step.constant([-2], np.int64))
    step.give_raw(step.op("Where", step.constant(np.eye(rows, columns), np.bool_), value, step.raw(0)))


def broadcast_args(step: OperatorStep) -> None:
    """BROADCAST_ARGS: the shape that two constant shapes broadcast to."""
    one, other = (tuple(int(extent) for extent in step.value(position, "shapes")) for position in (0, 1))
    try:
        made = np.broadcast_shapes(one, other)
    except ValueError:
        raise MisfitError(f"broadcasts the shapes {one} and {other}") from None
    step.give_raw(step.op("Cast", step.constant(made, np.int64), to=_type_of(step)))


def _type_of(step: OperatorStep) -> int:
    return int(helper.np_dtype_to_tensor_dtype(step.output().dtype))


TRANSLATORS: Mapping[str, Translator] = {
    "BATCH_TO_SPACE_ND": batch_to_space_nd,
    "BROADCAST_ARGS": broadcast_args,
    "BROADCAST_TO": broadcast_to,
    "CONCATENATION": concatenation,
    "EXPAND_DIMS": expand_dims,
    "FILL": fill,
    "MATRIX_DIAG": matrix_diag,
    "MATRIX_SET_DIAG": matrix_set_diag,
    "MIRROR_PAD": mirror_pad,
    "PACK": pack,
    "PAD": pad,
    "PADV2": pad,
    "RANGE": range_,
    "RANK": rank,
    "RESHAPE": reshape,
    "REVERSE_SEQUENCE": reverse_sequence,
    "REVERSE_V2": reverse_v2,
    "SHAPE": shape,
    "SLICE": slice_,
    "SPACE_TO_BATCH_ND": space_to_batch_nd,
    "SPLIT": split,
    "SPLIT_V": split_v,
    "SQUEEZE": squeeze,
    "STRIDED_SLICE": strided_slice,
    "TILE": tile,
    "TRANSPOSE": transpose,
    "UNPACK": unpack,
}
"""Operators that move elements."""
