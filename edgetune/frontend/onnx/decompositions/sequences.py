"""Sequences whose elements are known one by one: their operators are wires between tensors, and parts of one.

PyTorch writes `chunk`, `split` and lists of tensors with them. A sequence is the list of its elements' names, so that a
place must be constant. A condition at run time chooses between sequences of one length; what an input of the model
brings is no such list.
"""

from __future__ import annotations

import onnx

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.decompositions.builder import Builder


def sequence_construct(b: Builder, node: onnx.NodeProto) -> None:
    """The inputs in their order; also `SequenceEmpty`, which has none."""
    b.output_sequence([name for name in node.input if name])


def split_to_sequence(b: Builder, _: onnx.NodeProto) -> None:
    """Parts of a tensor: of one place each, of one extent (the last may be shorter), or of given extents."""
    x = b.input(0)
    axis = int(b.attributes.get("axis", 0)) % len(b.shape(x))
    extent = b.shape(x)[axis]
    if not b.input(1):
        keeps = b.attributes.get("keepdims", 1)
        rows = [b.part(x, n, n + 1, axis) if keeps else b.take(x, n, axis) for n in range(extent)]
        return b.output_sequence(rows)
    given = b.needed(1, "split")
    if given.ndim:
        sizes = [int(size) for size in given]
    else:
        each = int(given)
        sizes = [min(each, extent - start) for start in range(0, extent, each)] if each > 0 else []
    if sum(sizes) != extent or min(sizes, default=0) < 0:
        raise UnsupportedOperator(f"{b.shown} splits {extent} places into parts of {given.tolist()}: correct its split")
    if len(sizes) == 1:
        return b.output_sequence([x])
    if b.opset >= 13:
        return b.output_sequence(b.ops("Split", len(sizes), x, b.constant(sizes, "int64"), axis=axis))
    return b.output_sequence(b.ops("Split", len(sizes), x, axis=axis, split=sizes))


def sequence_at(b: Builder, _: onnx.NodeProto) -> None:
    """One element."""
    elements = b.sequence(0)
    b.output(0, elements[_place(b, 1, len(elements))])


def sequence_insert(b: Builder, _: onnx.NodeProto) -> None:
    """The sequence with one more element, by default behind its last one."""
    elements = b.sequence(0)
    place = _place(b, 2, len(elements) + 1, before=len(elements)) if b.input(2) else len(elements)
    b.output_sequence([*elements[:place], b.input(1), *elements[place:]])


def sequence_erase(b: Builder, _: onnx.NodeProto) -> None:
    """The sequence without an element, by default the last one."""
    elements = b.sequence(0)
    place = _place(b, 1, len(elements)) if b.input(1) else len(elements) - 1
    if not elements:
        raise UnsupportedOperator(f"{b.shown} takes an element out of an empty sequence: correct the model")
    b.output_sequence([*elements[:place], *elements[place + 1 :]])


def sequence_length(b: Builder, _: onnx.NodeProto) -> None:
    """How many elements there are."""
    b.output(0, b.constant(len(b.sequence(0)), "int64"))


def concat_from_sequence(b: Builder, _: onnx.NodeProto) -> None:
    """The elements side by side along an axis, which may be a new one."""
    elements = b.sequence(0)
    if not elements:
        raise UnsupportedOperator(f"{b.shown} joins an empty sequence: correct the model")
    axis = int(b.attributes["axis"])
    if not b.attributes.get("new_axis", 0):
        b.output(0, b.op("Concat", *elements, axis=axis))
    else:
        b.output(0, b.stack(elements, axis % (len(b.shape(elements[0])) + 1)))


def identity(b: Builder, _: onnx.NodeProto) -> bool:
    """A sequence under another name; the identity of a tensor stays."""
    if not b.is_sequence(0):
        return False
    b.output_sequence(b.sequence(0))
    return True


def _place(b: Builder, index: int, count: int, before: int | None = None) -> int:
    """The input `index` as a place of `count`; a negative one counts back from `before`, or the end."""
    given = int(b.needed(index, "position").reshape(-1)[0])
    place = given + (count if before is None else before) * (given < 0)
    if not 0 <= place < count:
        raise UnsupportedOperator(f"{b.shown} names place {given} of a sequence, which has only {count}: correct it")
    return place
