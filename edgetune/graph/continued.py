"""Concatenations of what is left of a tensor with what is new: the new is written over the rest of that tensor.

Where channels are split, one half goes through layers, and both are put side by side again, the result lies where the
tensor was that was split, and nothing is copied. It takes that the tensor is written, and all who read the rest of it
are done, before the first that is new is written, and that the concatenation itself reads nothing of that tensor but
what stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgetune.graph.placement import PartsLayout, Place


def continued(layout: PartsLayout, number: int) -> dict[int, Place] | None:
    """Where the operands that stay lie in the tensor that a concatenation, a call by its number, continues.

    By tensor; all places are in the same one. None where there is no such tensor, or somebody would read it too late.
    """
    call, one = layout.program.calls[number], layout.concatenations[number]
    tensors = [call.arguments[operand.parameter] for operand in one.operands]
    kept = {}
    for tensor, operand in zip(tensors, one.operands, strict=True):
        place = layout.places.get(tensor, layout.cut.get(tensor))
        if place is None or layout.program.buffers[tensor].kind != "intermediate":
            continue
        if (place.offset, place.outer) == (operand.start, one.outer) and (one.outer == 1 or place.pitch == one.pitch):
            kept[tensor] = place
    sources = {place.whole for place in kept.values()}
    if len(sources) != 1 or len(set(tensors)) < len(tensors) or len(kept) == len(tensors):
        return None
    source, result = (layout.program.buffers[n] for n in (*sources, call.arguments[-1]))
    alike = (source.kind, source.dtype) == (result.kind, result.dtype) == ("intermediate", result.dtype)
    if not alike or prod(source.shape) != one.outer * one.pitch or {source.id, result.id} & layout.places.keys():
        return None
    new = [tensor for tensor in tensors if tensor not in kept]
    if any(source.id in _around(layout, tensor) for tensor in new):
        return None
    before = [*_writings(layout, source.id), *(n for n in _readings(layout, source.id, kept) if n != number)]
    behind = [next(_writings(layout, tensor), number) if tensor not in layout.places else number for tensor in new]
    return kept if max(before) < min(*behind, number) else None


def _around(layout: PartsLayout, tensor: int) -> Iterator[int]:
    """`tensor`, and the tensors that it is a part of, one within the other."""
    yield tensor
    while (place := layout.places.get(tensor)) is not None:
        tensor = place.whole
        yield tensor


def _readings(layout: PartsLayout, source: int, kept: Mapping[int, Place]) -> Iterator[int]:
    """Calls that read `source`, or a part of it that does not stay."""
    for number, call in enumerate(layout.program.calls):
        if number in layout.slices and call.arguments[-1] in kept:
            continue
        if number in layout.dropped:
            read = [call.arguments[parameter] for parameter, _ in layout.left(number)]
        else:
            params = layout.program.kernels[call.kernel].params
            read = [t for t, param in zip(call.arguments, params, strict=True) if param.role == "input"]
        if any(tensor not in kept and source in _around(layout, tensor) for tensor in read):
            yield number


def _writings(layout: PartsLayout, tensor: int) -> Iterator[int]:
    """Calls that write `tensor`, or a part of it: of a concatenation that is no call any more, all its operands."""
    for number, call in enumerate(layout.program.calls):
        if number in layout.dropped:
            written = [call.arguments[-1]] if any(True for _ in layout.left(number)) else []
        else:
            params = layout.program.kernels[call.kernel].params
            written = [t for t, param in zip(call.arguments, params, strict=True) if param.role == "output"]
        if any(tensor in _around(layout, one) for one in written):
            yield number
