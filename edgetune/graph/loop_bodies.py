"""Loops at their place: puts the calls of a loop's body where a program calls the loop, with arguments that move.

Until then, a loop is one call of a function that nobody looks into. So all that lays out the tensors around it serves
them as they are.

A state that is emitted as well is read where the iteration before wrote it; any other has two rows, which take turns.
Neither is copied. What is emitted, but of which only the slice of the last iteration is read, is not stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
from tvm import te, tirx

from edgetune.graph.kernels import copy_function, kernel_of, named, plain_function
from edgetune.graph.loops import times_called
from edgetune.graph.parts import BufferPart, Movement, Part
from edgetune.graph.program import Buffer, Call, Kernel, Loop, Param, Program
from edgetune.graph.workload import workload_hash
from edgetune.tvm_types import PrimFunc

_LOOP = "edgetune.loop"
"""Attribute of an opaque function: the name of the loop."""


@dataclass(frozen=True)
class LoopBody:
    """The body of a loop as a program; the other fields are those of `ImportedLoop`."""

    program: Program
    steps: int
    state_outputs: tuple[int, ...]
    scanned_backwards: tuple[bool, ...]
    emitted: tuple[tuple[int, bool], ...]
    label: str

    @property
    def slices(self) -> dict[int, int]:
        """Of the parameters of the loop, by number, how many elements lie together: of an iteration, or else all."""
        results = (*self.state_outputs, *(output for output, _ in self.emitted))
        specs = (*self.program.inputs, *(self.program.outputs[number] for number in results))
        return {number: prod(spec.shape) for number, spec in enumerate(specs)}


Tensor = tuple[tuple[int, ...], str]


def opaque_function(name: str, read: Sequence[Tensor], written: Sequence[Tensor]) -> PrimFunc:
    """A function of tensors (shape, numpy dtype name) that nobody looks into, in place of the loop `name`."""
    tensors = [te.placeholder(shape, dtype, name=f"read_{number}") for number, (shape, dtype) in enumerate(read)]
    results = te.extern(
        [shape for shape, _ in written],
        tensors,
        lambda *_: tirx.call_packed(name),
        name="loop",
        dtype=[dtype for _, dtype in written],
    )
    made = list(results) if isinstance(results, list | tuple) else [results]
    return te.create_prim_func([*tensors, *made]).with_attr(_LOOP, name)


def with_bodies(program: Program, bodies: Mapping[str, LoopBody]) -> Program:
    """`program` with the calls of `bodies` in place of those of their opaque functions, by name."""
    return _Splicing(program, bodies).program() if bodies else program


@dataclass
class _Splicing:
    old: Program
    bodies: Mapping[str, LoopBody]
    buffers: list[Buffer] = field(default_factory=list)
    kernels: dict[str, Kernel] = field(default_factory=dict)  # by workload
    calls: list[tuple[str, Call]] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    moved: dict[int, BufferPart] = field(default_factory=dict)
    """Where tensors of the program around a loop are that have no memory of their own."""

    def program(self) -> Program:
        self.buffers += self.old.buffers
        self.constants = dict(self.old.constants)
        for number, call in enumerate(self.old.calls):
            kernel = self.old.kernels[call.kernel]
            name = str((kernel.function.attrs or {}).get(_LOOP, ""))
            if name:
                self._splice(number, kernel, self.bodies[name])
            else:
                self._add(kernel, call, {})
        used = {buffer for _, call in self.calls for buffer in call.buffers}
        kept = [b for b in self.buffers if b.id in used or b.kind in {"input", "output"}]
        ordered = [b for b in kept if b.kind != "output"] + [b for b in kept if b.kind == "output"]
        numbers = {buffer.id: number for number, buffer in enumerate(ordered)}
        index = {key: number for number, key in enumerate(self.kernels)}
        result = replace(
            self.old,
            buffers=tuple(replace(buffer, id=numbers[buffer.id]) for buffer in ordered),
            calls=tuple(replace(call.in_buffers(numbers), kernel=index[key]) for key, call in self.calls),
            constants={numbers[b]: array for b, array in self.constants.items() if b in numbers},
            loops=tuple(self.loops),
        )
        return replace(result, kernels=named([self._weighed(result, k) for k in self.kernels.values()]))

    def _weighed(self, program: Program, kernel: Kernel) -> Kernel:
        """A kernel with what its calls say of it."""
        weight: Counter[str] = Counter()
        unaligned: set[int] = set()
        for number, (key, call) in enumerate(self.calls):
            if key == kernel.workload:
                weight[key] += times_called(program, number)
                unaligned |= {n for n, p in call.parts.items() if p.is_unaligned(kernel.params[n].dtype)}
        return replace(kernel, weight=weight[kernel.workload], unaligned=tuple(sorted(unaligned)))

    def _add(self, kernel: Kernel, call: Call, places: Mapping[int, BufferPart]) -> None:
        """Adds a call whose buffers are at `places`, or where the program around the loop has them."""
        self.kernels.setdefault(kernel.workload, kernel)
        arguments, parts = list(call.arguments), {}
        for number, buffer in enumerate(call.arguments):
            part = call.parts.get(number)
            own = BufferPart(buffer, part or Part(0, kernel.params[number].shape))
            place = _at(own, places or self.moved)
            arguments[number] = place.buffer
            if part is not None or place.part.movements or self._is_part(place):
                parts[number] = place.part
        self.calls.append((kernel.workload, replace(call, arguments=tuple(arguments), parts=parts)))

    def _is_part(self, place: BufferPart) -> bool:
        return bool(place.part.offset) or prod(place.part.shape) < prod(self.buffers[place.buffer].shape)

    def _splice(self, number: int, kernel: Kernel, body: LoopBody) -> None:
        call, start, loop = self.old.calls[number], len(self.calls), len(self.loops)
        given = [
            _at(BufferPart(buffer, call.parts.get(n, Part(0, kernel.params[n].shape))), self.moved)
            for n, buffer in enumerate(call.arguments)
        ]
        self.loops.append(Loop(start, start, body.steps, body.label))
        inner = {buffer.id: self._new(buffer, body.program) for buffer in body.program.buffers}
        places = {old: BufferPart(new, Part(0, ())) for old, new in inner.items()}
        states, inputs = len(body.state_outputs), len(body.program.inputs)
        results = self._results(number, kernel, body, given[inputs:], loop)
        places |= {b.id: place for b, place in zip(body.program.output_buffers(), results, strict=True)}
        for n, buffer in enumerate(body.program.input_buffers()):
            if n < states:
                places[buffer.id] = _before(results[body.state_outputs[n]], loop, given[n])
            elif n < states + len(body.scanned_backwards):
                backwards = body.scanned_backwards[n - states]
                shape = body.program.inputs[n].shape
                places[buffer.id] = _slice(given[n], kernel.params[n], shape, (loop, body.steps), backwards=backwards)
            else:
                places[buffer.id] = given[n]
        for nested in body.program.loops:
            self.loops.append(replace(nested, start=nested.start + start, stop=nested.stop + start))
        for own in body.program.calls:
            shifted = {n: _with_loops_from(part, loop + 1) for n, part in own.parts.items()}
            self._add(body.program.kernels[own.kernel], replace(own, parts=shifted), places)
        self.loops[loop] = replace(self.loops[loop], stop=len(self.calls))
        for n, output in enumerate(body.state_outputs):
            self._end(number, inputs + n, _after(results[output], loop, body.steps))

    def _new(self, buffer: Buffer, program: Program) -> int:
        """A buffer of the program for one of a body; it is not used for inputs and outputs of the body."""
        kind = buffer.kind if buffer.kind == "constant" else "intermediate"
        self.buffers.append(replace(buffer, id=len(self.buffers), kind=kind))
        if buffer.id in program.constants:
            self.constants[len(self.buffers) - 1] = program.constants[buffer.id]
        return len(self.buffers) - 1

    def _results(
        self, number: int, kernel: Kernel, body: LoopBody, given: Sequence[BufferPart], loop: int
    ) -> list[BufferPart]:
        """Where each output of the body is, with the movements in `loop`."""
        states, inputs = len(body.state_outputs), len(body.program.inputs)
        emitted: dict[int, BufferPart] = {}
        for n, (output, backwards) in enumerate(body.emitted):
            place, parameter = given[states + n], inputs + states + n
            shape = body.program.outputs[output].shape
            piece = _slice(place, kernel.params[parameter], shape, (loop, body.steps), backwards=backwards)
            if not self._is_read_at_the_end(number, parameter, place, _after(piece, loop, body.steps)):
                emitted[output] = piece
                continue
            row = self._row(body, output, loop)
            last = _after(row, loop, body.steps)
            offset = last.part.offset - _after(piece, loop, body.steps).part.offset
            self.moved[place.buffer] = BufferPart(last.buffer, Part(offset, ()))
            emitted[output] = row
        return [
            emitted[output] if output in emitted else self._row(body, output, loop)
            for output in range(len(body.program.outputs))
        ]

    def _row(self, body: LoopBody, output: int, loop: int) -> BufferPart:
        """An output of the body in memory of its own: two rows that take turns."""
        spec = body.program.outputs[output]
        rows, size = (2, prod(spec.shape)) if output in body.state_outputs else (1, 0)
        states = [n + 1 for n, one in enumerate(body.state_outputs) if one == output]
        name = f"state {states[0]} of {body.label}" if states else f"result of {body.label}"
        self.buffers.append(Buffer(len(self.buffers), name, (rows, *spec.shape), spec.dtype, "intermediate"))
        movements = (Movement(loop, size, rows),) if rows > 1 else ()
        return BufferPart(len(self.buffers) - 1, Part(0, spec.shape, movements))

    def _is_read_at_the_end(self, number: int, parameter: int, place: BufferPart, last: BufferPart) -> bool:
        """Whether only the slice of the last iteration is read of what a call, by its number, emits."""
        call = self.old.calls[number]
        if self.buffers[place.buffer].kind != "intermediate" or parameter in call.parts:
            return False
        end = last.part.offset + prod(last.part.shape)
        for other in self.old.calls:
            for n, buffer in enumerate(other.arguments):
                if buffer != place.buffer or (other is call and n == parameter):
                    continue
                part, shape = other.parts.get(n), self.old.kernels[other.kernel].params[n].shape
                if part is None or not last.part.offset <= part.offset <= part.offset + prod(shape) <= end:
                    return False
        return True

    def _end(self, number: int, parameter: int, last: BufferPart) -> None:
        """Puts the last value of a state, which is at `last`, where a call, by its number, returns it."""
        call = self.old.calls[number]
        result = call.arguments[parameter]
        is_alone = self.buffers[result].kind == "intermediate" and parameter not in call.parts
        if is_alone and not self._is_overwritten(number, last):
            self.moved[result] = last
            return
        shape, dtype = last.part.shape, self.buffers[result].dtype
        function = plain_function(copy_function(shape, dtype), (False,))
        kernel = kernel_of(("copy",), workload_hash(function), function, (False,), 0)
        self.kernels.setdefault(kernel.workload, kernel)
        parts = {0: last.part} | ({1: call.parts[parameter]} if parameter in call.parts else {})
        copied = Call(0, (last.buffer, result), f"{call.label} (copy)", parts)
        self.calls.append((kernel.workload, copied))

    def _is_overwritten(self, number: int, place: BufferPart) -> bool:
        """Whether a call after that of this number writes to `place`: another tensor has the rest of its memory."""
        own = place.part.offset + np.arange(prod(place.part.shape))
        for call in self.old.calls[number + 1 :]:
            for n, param in enumerate(self.old.kernels[call.kernel].params):
                if param.role == "output" and call.arguments[n] == place.buffer:
                    written = param.elements + (call.parts[n].offset if n in call.parts else 0)
                    if np.intersect1d(own, written).size:
                        return True
        return False


def _slice(
    place: BufferPart, param: Param, shape: tuple[int, ...], loop: tuple[int, int], *, backwards: bool
) -> BufferPart:
    """The slice, of `shape`, of one iteration of a parameter that is at `place`; `loop`: its number, its steps."""
    elements = param.rows.pitch if param.rows is not None else prod(shape)
    if backwards:
        first = place.part.offset + (loop[1] - 1) * elements
        return _moving(BufferPart(place.buffer, replace(place.part, offset=first, shape=shape)), loop[0], -elements)
    return _moving(BufferPart(place.buffer, replace(place.part, shape=shape)), loop[0], elements)


def _moving(place: BufferPart, loop: int, elements: int) -> BufferPart:
    movement = Movement(loop, elements)
    return BufferPart(place.buffer, replace(place.part, movements=(*place.part.movements, movement)))


def _before(result: BufferPart, loop: int, first: BufferPart) -> BufferPart:
    """Where the iteration before wrote `result`; in the first iteration, `first`."""
    movements = tuple(
        replace(m, ahead=m.rows - 1 if m.rows else -1, first=first) if m.loop == loop else m
        for m in result.part.movements
    )
    return BufferPart(result.buffer, replace(result.part, movements=movements))


def _after(place: BufferPart, loop: int, steps: int) -> BufferPart:
    """Where the last iteration has `place`."""
    own = [movement for movement in place.part.movements if movement.loop == loop]
    rest = tuple(movement for movement in place.part.movements if movement.loop != loop)
    offset = place.part.offset + sum(movement.at(steps - 1) for movement in own)
    return BufferPart(place.buffer, Part(offset, place.part.shape, rest))


def _at(place: BufferPart, places: Mapping[int, BufferPart]) -> BufferPart:
    """`place`, whose buffers are at `places`."""
    part = place.part.with_firsts(lambda first: _at(first, places))
    return _within(places[place.buffer], part) if place.buffer in places else BufferPart(place.buffer, part)


def _within(whole: BufferPart, part: Part) -> BufferPart:
    """A part of the tensor at `whole`."""
    around = whole.part.with_firsts(lambda first: _within(first, part))
    movements = (*around.movements, *part.movements)
    return BufferPart(whole.buffer, Part(whole.part.offset + part.offset, part.shape, movements))


def _with_loops_from(part: Part, first: int) -> Part:
    """A part whose loops have numbers from `first` on."""
    shifted = part.with_firsts(lambda place: BufferPart(place.buffer, _with_loops_from(place.part, first)))
    return replace(shifted, movements=tuple(replace(m, loop=m.loop + first) for m in shifted.movements))
