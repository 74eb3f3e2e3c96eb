"""Layout of views: which tensors lie within others, as operands in a concatenation's result or slices in their source.

This module only decides; `edgetune.graph.views` builds the program. It also finds the operands that a kernel's output
could overwrite at best, before the kernel's loops are known.

In-place concatenation: when an operand is a slice of a tensor whose remainder is dead, the other operands overwrite
that remainder. If channels are split, one half goes through layers and both halves are concatenated again, the result
takes the place of the split tensor, and nothing is copied. Conditions: before the first new operand is written, the
tensor is written and all readers of its remainder have run, and the concatenation itself reads only the unchanged part
of that tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx

from edgetune.graph.concatenation import concatenation_of
from edgetune.graph.memory_plan import live_bytes, taken_over
from edgetune.graph.program import Call, Kernel, Part, Program
from edgetune.graph.slicing import slice_of
from edgetune.graph.strided import shape_with_gaps


def in_place_candidates(kernel: Kernel) -> list[int]:
    """Parameters, by number, whose memory the one output of `kernel` may take, if its loops turn out to allow it.

    They have the output's shape and type. Their readers neither reduce over them (as a convolution does) nor change the
    shape (as padding does), because an output element would then read other input elements.
    """
    outputs = [param for param in kernel.params if param.role == "output"]
    if len(outputs) != 1:
        return []
    alike = [
        number
        for number, param in enumerate(kernel.params)
        if param.role == "input" and (param.shape, param.dtype) == (outputs[0].shape, outputs[0].dtype)
    ]
    return [number for number in alike if _elementwise(kernel.function, kernel.function.params[number])]


def _elementwise(function: Any, operand: Any) -> bool:
    spread: list[Any] = []

    def visit(block: s_tir.SBlock) -> None:
        if any(read.source.same_as(operand) for read in block.reads):
            sizes = [prod(int(extent) for extent in write.source.shape) for write in block.writes]
            summed = prod(int(axis.dom.extent) for axis in block.iter_vars if axis.iter_type == tirx.IterVar.CommReduce)
            if summed > 1 or sizes != [prod(int(extent) for extent in operand.shape)]:
                spread.append(block)

    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, visit))
    return not spread


@dataclass(frozen=True)
class ViewPlace:
    """A tensor's place in the buffer `whole`: `outer` rows, `pitch` elements apart, the first at element `offset`."""

    whole: int
    offset: int
    outer: int
    pitch: int

    def one_row(self) -> ViewPlace:
        """The place itself; if it is a single row, without the pitch, which has no meaning then."""
        return self if self.outer > 1 else replace(self, pitch=0)


class PartsLayout:
    """Which tensors are parts of which, and which calls (by number) are therefore `dropped`."""

    def __init__(self, program: Program) -> None:
        self.program = program
        joins = [concatenation_of(kernel) for kernel in program.kernels]
        cuts = [slice_of(kernel) for kernel in program.kernels]
        calls = list(enumerate(program.calls))
        self.concatenations = {number: join for number, call in calls if (join := joins[call.kernel]) is not None}
        self.slices = {number: cut for number, call in calls if (cut := cuts[call.kernel]) is not None}
        self.cut = {
            program.calls[number].arguments[-1]: ViewPlace(
                program.calls[number].arguments[0], cut.offset, cut.outer, cut.pitch
            )
            for number, cut in self.slices.items()
        }
        self.places: dict[int, ViewPlace] = {}
        self.dropped: set[int] = set()
        self._overwritten: set[int] = set()  # a later tensor overwrites their first content
        able = {
            number: in_place_candidates(kernel) for number, kernel in enumerate(program.kernels) if not joins[number]
        }
        # Which operands are overwritten is known only with the loops. With copies, no package needs less than this.
        self._room = max(live_bytes(program, taken_over(program, able)), default=0)

    def place_slice(self, number: int) -> None:
        """Make the result of a slice, a call by its number, a part of its source, if possible.

        A tensor that only concatenations read can be written in place instead, with no more copies.
        """
        tensor = self.program.calls[number].arguments[-1]
        readers = {n for n, call in enumerate(self.program.calls) if tensor in call.arguments and n != number}
        if self.program.buffers[tensor].kind != "intermediate" or readers <= self.concatenations.keys():
            return
        before = self._state()
        self.dropped.add(number)
        self.places[tensor] = self.cut[tensor]
        if not self._fits():
            self.places, self.dropped = before

    def place_operands(self, number: int) -> None:
        """Make the operands of a concatenation, a call by its number, parts of its result, if possible.

        The result is the tensor of which some operands are slices, if the new operands may overwrite its remainder.
        """
        before = self._state()
        kept = in_place_concatenations(self, number)
        if kept is not None:
            whole, source = self.program.calls[number].arguments[-1], next(iter(kept.values())).whole
            size = prod(self.program.buffers[source].shape)
            self.dropped |= {n for n in self.slices if self.program.calls[n].arguments[-1] in kept}
            self.places |= {**kept, whole: ViewPlace(source, 0, 1, size)}
            if self._write_in_place(number):
                self._overwritten.add(source)
                return
            self.places, self.dropped = before
            before = self._state()
        if not self._write_in_place(number):
            self.places, self.dropped = before

    def _write_in_place(self, number: int) -> bool:
        """Whether at least one operand that is not yet a part of anything became a part of the result."""
        call, one = self.program.calls[number], self.concatenations[number]
        whole = call.arguments[-1]
        self.dropped.add(number)
        placed = 0
        for operand in one.operands:
            tensor = call.arguments[operand.parameter]
            if (
                self.program.buffers[tensor].kind != "intermediate"
                or tensor in self.places
                or tensor in self._overwritten
                or call.arguments.count(tensor) > 1
            ):
                continue
            self.places[tensor] = ViewPlace(whole, operand.start, one.outer, one.pitch)
            if self._possible():
                placed += 1
            else:
                del self.places[tensor]
        return placed > 0 and self._fits()

    def _state(self) -> tuple[dict[int, ViewPlace], set[int]]:
        return dict(self.places), set(self.dropped)

    def _fits(self) -> bool:
        return self._possible() and self._needed() <= self._room

    def place_of(self, tensor: int) -> ViewPlace | None:
        """The place of a tensor in the largest buffer that contains it; None if it has its own buffer."""
        place = self.places.get(tensor)
        return None if place is None else self._within(place)

    def _within(self, place: ViewPlace) -> ViewPlace:
        """A place, converted to the largest buffer around it."""
        above = self.place_of(place.whole)
        if above is None:
            return place
        pitch = place.pitch if above.outer == 1 else above.pitch
        return ViewPlace(above.whole, above.offset + place.offset, place.outer, pitch)

    def left(self, number: int) -> Iterator[tuple[int, ViewPlace]]:
        """Operands of a dropped concatenation that no kernel writes in place, and the places where they belong."""
        if number in self.slices:
            return
        call, one = self.program.calls[number], self.concatenations[number]
        for operand in one.operands:
            belongs = self._within(ViewPlace(call.arguments[-1], operand.start, one.outer, one.pitch))
            place = self.place_of(call.arguments[operand.parameter])
            if place is None or place.one_row() != belongs.one_row():
                yield operand.parameter, belongs

    def _possible(self) -> bool:
        """Whether nested rows have equal counts, and every parameter that gets gaps has an axis for them."""
        for place in self.places.values():
            above = self.places.get(place.whole)
            rows = place.outer * place.pitch == prod(self.program.buffers[place.whole].shape)
            if above is not None and above.outer != 1 and not (rows and above.outer == place.outer):
                return False
        return all(
            at is None or at.outer == 1 or shape_with_gaps(shape, at.outer, at.pitch) is not None
            for number, call in enumerate(self.program.calls)
            for shape, at in self._placed(number, call)
        )

    def _placed(self, number: int, call: Call) -> Iterator[tuple[tuple[int, ...], ViewPlace | None]]:
        """Shapes and places of what a call, or the remaining copies of a dropped call, reads and writes."""
        params = self.program.kernels[call.kernel].params
        if number not in self.dropped:
            yield from ((param.shape, self.place_of(t)) for t, param in zip(call.arguments, params, strict=True))
            return
        for parameter, place in self.left(number):
            yield params[parameter].shape, self.place_of(call.arguments[parameter])
            yield params[parameter].shape, place

    def _needed(self) -> int:
        """Most bytes of tensors alive together with a tensor that has parts, if no output overwrites an operand.

        At all other times the same tensors are alive as with the copies.
        """
        calls = []
        for number, call in enumerate(self.program.calls):
            if number in self.dropped:
                for parameter, belongs in self.left(number):
                    source = call.arguments[parameter]
                    within = self.place_of(source)
                    read = source if within is None else within.whole
                    calls.append(replace(call, arguments=(read, belongs.whole)))
                continue
            places = {n: place for n, tensor in enumerate(call.arguments) if (place := self.place_of(tensor))}
            arguments = tuple(places[n].whole if n in places else tensor for n, tensor in enumerate(call.arguments))
            calls.append(replace(call, arguments=arguments, parts={n: Part(p.offset, ()) for n, p in places.items()}))
        live = live_bytes(replace(self.program, calls=tuple(calls)))
        wholes = {place.whole for tensor in self.places if (place := self.place_of(tensor))}
        found = [[number for number, call in enumerate(calls) if whole in call.arguments] for whole in wholes]
        return max((bytes_ for at in found for bytes_ in live[at[0] : at[-1] + 1]), default=0)


def in_place_concatenations(layout: PartsLayout, number: int) -> dict[int, ViewPlace] | None:
    """Where the unchanged operands lie in the tensor that a concatenation, a call by its number, extends in place.

    The result is by tensor, and all places are in the same tensor. None if there is no such tensor, or if a call would
    read it after it is overwritten.
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
    """`tensor`, then each tensor that contains it, from inner to outer."""
    yield tensor
    while (place := layout.places.get(tensor)) is not None:
        tensor = place.whole
        yield tensor


def _readings(layout: PartsLayout, source: int, kept: Mapping[int, ViewPlace]) -> Iterator[int]:
    """Calls that read `source`, or a part of it that is not kept."""
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
    """Calls that write `tensor` or a part of it; for a dropped concatenation, the calls that write its operands."""
    for number, call in enumerate(layout.program.calls):
        if number in layout.dropped:
            written = [call.arguments[-1]] if any(True for _ in layout.left(number)) else []
        else:
            params = layout.program.kernels[call.kernel].params
            written = [t for t, param in zip(call.arguments, params, strict=True) if param.role == "output"]
        if any(tensor in _around(layout, one) for one in written):
            yield number
