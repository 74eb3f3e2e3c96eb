"""Which tensors lie within others: operands of concatenations in their results, slices in what they are slices of.

A layout only says so; `edgetune.graph.in_parts` makes the program in which it is so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from edgetune.graph.concatenation import concatenation_of
from edgetune.graph.continued import continued
from edgetune.graph.memory_plan import live_bytes, taken_over
from edgetune.graph.overwritable import overwritable
from edgetune.graph.program import Call, Part, Program
from edgetune.graph.slicing import slice_of
from edgetune.graph.strided import shape_with_gaps


@dataclass(frozen=True)
class Place:
    """Where a tensor lies in the buffer `whole`: in `outer` rows, `pitch` elements apart, the first one at `offset`."""

    whole: int
    offset: int
    outer: int
    pitch: int

    def one_row(self) -> Place:
        """The place itself; where it is a single row, with the pitch left out, which means nothing then."""
        return self if self.outer > 1 else replace(self, pitch=0)


class PartsLayout:
    """Which tensors are parts of which, and which calls (by number) are `dropped` for that."""

    def __init__(self, program: Program) -> None:
        self.program = program
        joins = [concatenation_of(kernel) for kernel in program.kernels]
        cuts = [slice_of(kernel) for kernel in program.kernels]
        calls = list(enumerate(program.calls))
        self.concatenations = {number: join for number, call in calls if (join := joins[call.kernel]) is not None}
        self.slices = {number: cut for number, call in calls if (cut := cuts[call.kernel]) is not None}
        self.cut = {
            program.calls[number].arguments[-1]: Place(
                program.calls[number].arguments[0], cut.offset, cut.outer, cut.pitch
            )
            for number, cut in self.slices.items()
        }
        self.places: dict[int, Place] = {}
        self.dropped: set[int] = set()
        self._overwritten: set[int] = set()  # their first content is gone when a later tensor lies there
        able = {number: overwritable(kernel) for number, kernel in enumerate(program.kernels) if not joins[number]}
        # What is written over an operand is known when loops are. With the copies no package needs less than this.
        self._room = max(live_bytes(program, taken_over(program, able)), default=0)

    def place_slice(self, number: int) -> None:
        """Make what a slice, a call by its number, copies a part of what it is copied from, where that is possible.

        What nothing reads but a concatenation can be written into place instead, which takes no more copies.
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
        """Make the operands of a concatenation, a call by its number, parts of its result, where that is possible.

        The result is a tensor that some of them are slices of, if what is new may be written over the rest of it.
        """
        before = self._state()
        kept = continued(self, number)
        if kept is not None:
            whole, source = self.program.calls[number].arguments[-1], next(iter(kept.values())).whole
            size = prod(self.program.buffers[source].shape)
            self.dropped |= {n for n in self.slices if self.program.calls[n].arguments[-1] in kept}
            self.places |= {**kept, whole: Place(source, 0, 1, size)}
            if self._write_in_place(number):
                self._overwritten.add(source)
                return
            self.places, self.dropped = before
            before = self._state()
        if not self._write_in_place(number):
            self.places, self.dropped = before

    def _write_in_place(self, number: int) -> bool:
        """Whether at least one operand that is no part of anything could be made a part of the result."""
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
            self.places[tensor] = Place(whole, operand.start, one.outer, one.pitch)
            if self._possible():
                placed += 1
            else:
                del self.places[tensor]
        return placed > 0 and self._fits()

    def _state(self) -> tuple[dict[int, Place], set[int]]:
        return dict(self.places), set(self.dropped)

    def _fits(self) -> bool:
        return self._possible() and self._needed() <= self._room

    def place_of(self, tensor: int) -> Place | None:
        """Where a tensor lies in the largest buffer that it is a part of; None where it is a buffer of its own."""
        place = self.places.get(tensor)
        return None if place is None else self._within(place)

    def _within(self, place: Place) -> Place:
        """A place in the largest buffer around it."""
        above = self.place_of(place.whole)
        if above is None:
            return place
        pitch = place.pitch if above.outer == 1 else above.pitch
        return Place(above.whole, above.offset + place.offset, place.outer, pitch)

    def left(self, number: int) -> Iterator[tuple[int, Place]]:
        """Operands of a concatenation that is dropped that nobody writes into place, and where they belong."""
        if number in self.slices:
            return
        call, one = self.program.calls[number], self.concatenations[number]
        for operand in one.operands:
            belongs = self._within(Place(call.arguments[-1], operand.start, one.outer, one.pitch))
            place = self.place_of(call.arguments[operand.parameter])
            if place is None or place.one_row() != belongs.one_row():
                yield operand.parameter, belongs

    def _possible(self) -> bool:
        """Whether rows within rows are as many, and every parameter that gets gaps has an axis for them."""
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

    def _placed(self, number: int, call: Call) -> Iterator[tuple[tuple[int, ...], Place | None]]:
        """Shapes of what a call, or the copies that are left of it, reads and writes, and where that lies."""
        params = self.program.kernels[call.kernel].params
        if number not in self.dropped:
            yield from ((param.shape, self.place_of(t)) for t, param in zip(call.arguments, params, strict=True))
            return
        for parameter, place in self.left(number):
            yield params[parameter].shape, self.place_of(call.arguments[parameter])
            yield params[parameter].shape, place

    def _needed(self) -> int:
        """Bytes of tensors that live while there is one with parts, if nothing is written over an operand.

        At all other times the same tensors live as with the copies.
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
