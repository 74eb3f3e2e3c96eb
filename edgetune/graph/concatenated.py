"""Concatenations without copies: who computes an operand writes it where it belongs in the result.

A tensor becomes a part of the result of the concatenation that reads it, and of that of the next one where it was the
result of a concatenation itself. Whoever else reads it finds it there. Where other operands stand beside it in the
rows of the result it has gaps, and the kernels that write or read it are kernels of their own. The result lives as
soon as its first part is written: where that took more memory than the copies, they stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

from edgetune.graph.concatenation import concatenation_of
from edgetune.graph.kernels import copy_function, kernel_of, plain_function
from edgetune.graph.memory_plan import live_bytes, plan, taken_over
from edgetune.graph.program import Buffer, Call, Kernel, Part, Program, Rows
from edgetune.graph.strided import rows_of, shape_with_gaps, with_gaps
from edgetune.graph.workload import workload_hash


@dataclass(frozen=True)
class Place:
    """Where a tensor lies in the buffer `whole`: in `outer` rows, `pitch` elements apart, the first one at `offset`."""

    whole: int
    offset: int
    outer: int
    pitch: int


def without_copies(program: Program) -> Program:
    """`program` with as many operands of concatenations as possible written into place; itself where there are none."""
    layout = _Layout(program)
    for number in layout.concatenations:
        layout.consider(number)
    if not layout.dropped:
        return program
    made = _Rebuilding(program, layout).program()
    # The bound does not grow; the plan may, if seldom.
    return program if plan(made, {}).arena_bytes > plan(program, {}).arena_bytes else made


class _Layout:
    """Which tensors are parts of which, and which calls (by number) are `dropped` for that."""

    def __init__(self, program: Program) -> None:
        self.program = program
        found = [concatenation_of(kernel) for kernel in program.kernels]
        self.concatenations = {
            number: one for number, call in enumerate(program.calls) if (one := found[call.kernel]) is not None
        }
        self.places: dict[int, Place] = {}
        self.dropped: set[int] = set()
        alike = {
            number: [n for n, param in enumerate(kernel.params[:-1]) if _alike(kernel, n) and param.role == "input"]
            for number, kernel in enumerate(program.kernels)
        }
        # What is written over an operand is known when loops are. With the copies no package needs less than this.
        able = {number: found for number, found in alike.items() if found}
        self._room = max(live_bytes(program, taken_over(program, able)), default=0)

    def consider(self, number: int) -> None:
        """Make the operands of a concatenation, a call by its number, parts of its result, where that is possible."""
        call, one = self.program.calls[number], self.concatenations[number]
        whole = call.arguments[-1]
        self.dropped.add(number)
        before = dict(self.places)
        for operand in one.operands:
            tensor = call.arguments[operand.parameter]
            if (
                self.program.buffers[tensor].kind != "intermediate"
                or tensor in self.places
                or call.arguments.count(tensor) > 1
            ):
                continue
            self.places[tensor] = Place(whole, operand.start, one.outer, one.pitch)
            if not self._possible():
                del self.places[tensor]
        if self.places == before or self._needed() > self._room:
            self.dropped.remove(number)
            self.places = before

    def place_of(self, tensor: int) -> Place | None:
        """Where a tensor lies in the largest buffer that it is a part of; None where it is a buffer of its own."""
        place = self.places.get(tensor)
        if place is None:
            return None
        above = self.place_of(place.whole)
        if above is None:
            return place
        pitch = place.pitch if above.outer == 1 else above.pitch
        return Place(above.whole, above.offset + place.offset, place.outer, pitch)

    def left(self, number: int) -> Iterator[tuple[int, Place]]:
        """Operands of a call that is dropped that nobody writes into place, and where they belong."""
        call, one = self.program.calls[number], self.concatenations[number]
        whole = call.arguments[-1]
        above = self.place_of(whole)
        for operand in one.operands:
            tensor = call.arguments[operand.parameter]
            if tensor in self.places and self.places[tensor].whole == whole:
                continue
            pitch = one.pitch if above is None or above.outer == 1 else above.pitch
            offset = operand.start + (0 if above is None else above.offset)
            yield operand.parameter, Place(whole if above is None else above.whole, offset, one.outer, pitch)

    def _possible(self) -> bool:
        """Whether rows within rows are as many, and every parameter that gets gaps has an axis for them."""
        for place in self.places.values():
            above = self.places.get(place.whole)
            if above is not None and above.outer not in {1, place.outer}:
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


def _alike(kernel: Kernel, number: int) -> bool:
    """Whether the one output of a kernel that is no concatenation may be written over this parameter."""
    outputs = [param for param in kernel.params if param.role == "output"]
    param = kernel.params[number]
    one = len(outputs) == 1 and outputs[0].dtype == param.dtype
    return one and prod(outputs[0].shape) == prod(param.shape)


@dataclass
class _Rebuilding:
    """The making of a program in which tensors lie as a layout says."""

    old: Program
    layout: _Layout
    made: dict[str, tuple[str, Kernel]] = field(default_factory=dict)  # by workload: operators, and any such kernel
    calls: list[tuple[str, Call]] = field(default_factory=list)

    def program(self) -> Program:
        """The program; buffers that are parts of others are gone."""
        for number, call in enumerate(self.old.calls):
            if number not in self.layout.dropped:
                self._call(call)
                continue
            for parameter, place in self.layout.left(number):
                self._copy(call, parameter, place)
        used = {argument for _, call in self.calls for argument in call.arguments}
        kept = [b for b in self.old.buffers if b.id in used or b.kind in {"input", "output"}]
        renumbered = {buffer.id: number for number, buffer in enumerate(kept)}
        kernels, index = self._kernels()
        labels = {self.old.calls[number].arguments[-1]: self.old.calls[number].label for number in self.layout.dropped}
        return replace(
            self.old,
            buffers=tuple(_renamed(b, renumbered[b.id], labels) for b in kept),
            kernels=kernels,
            calls=tuple(
                replace(call, kernel=index[key], arguments=tuple(renumbered[a] for a in call.arguments))
                for key, call in self.calls
            ),
            constants={renumbered[i]: array for i, array in self.old.constants.items() if i in renumbered},
        )

    def _call(self, call: Call) -> None:
        kernel = self.old.kernels[call.kernel]
        places = {n: place for n, tensor in enumerate(call.arguments) if (place := self.layout.place_of(tensor))}
        self._add("_".join(kernel.sources), kernel, call, places)

    def _copy(self, call: Call, parameter: int, place: Place) -> None:
        source = call.arguments[parameter]
        param = self.old.kernels[call.kernel].params[parameter]
        mask = (source in self.old.constants,)
        function = plain_function(copy_function(param.shape, param.dtype), mask)
        kernel = kernel_of("copy", 1, "", function, mask, 0)
        places = {1: place}
        if within := self.layout.place_of(source):
            places[0] = within
        copied = Call(0, (source, place.whole), f"{call.label} (copy of operand {parameter})")
        self._add("copy", kernel, copied, places)

    def _add(self, operators: str, kernel: Kernel, call: Call, places: dict[int, Place]) -> None:
        shapes: dict[int, tuple[int, ...]] = {}
        rows: dict[int, Rows] = {}
        for number, place in places.items():
            shape = kernel.params[number].shape
            if place.outer > 1:
                wide = shape_with_gaps(shape, place.outer, place.pitch)
                assert wide is not None, "the layout has only places that are possible"  # noqa: S101
                shapes[number], rows[number] = wide, rows_of(shape, place.outer, place.pitch)
        function = with_gaps(kernel.function, shapes) if shapes else kernel.function
        key = workload_hash(function) if shapes or not kernel.workload else kernel.workload
        if key not in self.made:
            mask = [param.role == "constant" for param in kernel.params if param.role != "output"]
            self.made[key] = operators, kernel_of(operators, 1, key, function, mask, 0, rows)
        parts = {n: Part(place.offset, kernel.params[n].shape) for n, place in places.items()}
        arguments = tuple(places[n].whole if n in places else a for n, a in enumerate(call.arguments))
        self.calls.append((key, replace(call, arguments=arguments, parts=parts)))

    def _kernels(self) -> tuple[tuple[Kernel, ...], dict[str, int]]:
        taken: Counter[str] = Counter()
        calls = Counter(key for key, _ in self.calls)
        kernels = []
        for key, (operators, kernel) in self.made.items():
            taken[operators] += 1
            name = operators if taken[operators] == 1 else f"{operators}_{taken[operators]}"
            kernels.append(replace(kernel, name=name, weight=calls[key]))
        return tuple(kernels), {key: number for number, key in enumerate(self.made)}


def _renamed(buffer: Buffer, number: int, labels: dict[int, str]) -> Buffer:
    """A buffer under its new number; one that is written in parts is called after its concatenation."""
    name = buffer.name if buffer.kind != "intermediate" else labels.get(buffer.id, buffer.name)
    return replace(buffer, id=number, name=name)
