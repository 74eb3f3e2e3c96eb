"""Loops of a program: the order of a run, where arguments are in each iteration, and the program without loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from edgetune.graph.parts import BufferPart, Part
from edgetune.graph.program import Call, Program

Iterations = Mapping[int, int]
"""The iteration that each loop around a call is in, by the number of the loop."""


def loops_around(program: Program, call: int) -> tuple[int, ...]:
    """Numbers of the loops that a call, by its number, is in, outer ones first."""
    return tuple(number for number, loop in enumerate(program.loops) if loop.start <= call < loop.stop)


def times_called(program: Program, call: int) -> int:
    """How often a call, by its number, runs."""
    return prod(program.loops[number].steps for number in loops_around(program, call))


def run_order(program: Program) -> Iterator[tuple[int, Iterations]]:
    """The calls of a run by number, in their order, with the iteration of each loop around them."""
    yield from _order(program, 0, len(program.calls), {}, 0)


def _order(program: Program, start: int, stop: int, around: Iterations, loop: int) -> Iterator[tuple[int, Iterations]]:
    """The calls from `start` to `stop` - 1, which are in the loops `around`; others begin with number `loop`."""
    at = start
    while at < stop:
        inner = next((n for n in range(loop, len(program.loops)) if program.loops[n].start >= at), None)
        first = stop if inner is None else min(program.loops[inner].start, stop)
        yield from ((number, around) for number in range(at, first))
        at = first
        if inner is not None and at < stop:
            one = program.loops[inner]
            for iteration in range(one.steps):
                yield from _order(program, one.start, one.stop, {**around, inner: iteration}, inner + 1)
            at = one.stop
            loop = next(
                (n for n in range(inner, len(program.loops)) if program.loops[n].start >= at), len(program.loops)
            )


def place_at(place: BufferPart, iterations: Iterations) -> BufferPart:
    """Where an argument is in some iterations: without movements."""
    offset = place.part.offset
    for movement in place.part.movements:
        iteration = iterations[movement.loop]
        if movement.first is not None and not iteration:
            return place_at(movement.first, iterations)
        offset += movement.at(iteration)
    return BufferPart(place.buffer, replace(place.part, offset=offset, movements=()))


def call_at(call: Call, iterations: Iterations) -> Call:
    """A call as it is in some iterations: its arguments do not move."""
    if not any(part.movements for part in call.parts.values()):
        return call
    arguments, parts = list(call.arguments), dict(call.parts)
    for number, part in call.parts.items():
        place = place_at(BufferPart(call.arguments[number], part), iterations)
        arguments[number], parts[number] = place.buffer, place.part
    return replace(call, arguments=tuple(arguments), parts=parts)


def without_loops(program: Program) -> Program:
    """The same program with the calls of all iterations one after another."""
    if not program.loops:
        return program
    calls = []
    for number, iterations in run_order(program):
        call = call_at(program.calls[number], iterations)
        steps = ", ".join(str(iteration) for iteration in iterations.values())
        calls.append(replace(call, label=f"{call.label} [{steps}]") if steps else call)
    divisions = tuple(map(without_loops, program.divisions))
    return replace(program, calls=tuple(calls), loops=(), divisions=divisions)


@dataclass(frozen=True)
class Stage:
    """A layer of a run: the call `start` alone, or the calls up to `stop` - 1, which are those of the loop `loop`."""

    start: int
    stop: int
    loop: int | None = None


def stages(program: Program) -> tuple[Stage, ...]:
    """The layers of a program in their order: loops within a loop are parts of that one's layer."""
    found: list[Stage] = []
    outer = {loop.start: number for number, loop in reversed(list(enumerate(program.loops)))}
    at = 0
    while at < len(program.calls):
        loop = outer.get(at)
        found.append(Stage(at, at + 1) if loop is None else Stage(at, program.loops[loop].stop, loop))
        at = found[-1].stop
    return tuple(found)


def stage_of_each_call(program: Program) -> tuple[int, ...]:
    """By call, the number of its layer."""
    return tuple(number for number, one in enumerate(stages(program)) for _ in range(one.start, one.stop))


@dataclass(frozen=True, eq=False)
class Written:
    """What a layer leaves in a buffer: the `elements` with these indices, in rising order, of a numpy dtype name.

    Of these, it writes only `some` where that is not 0: rows that a number names at run time.
    """

    buffer: int
    elements: np.ndarray
    dtype: str
    some: int = 0

    @property
    def first(self) -> int:
        """The first of these indices."""
        return int(self.elements[0]) if self.elements.size else 0

    @property
    def nbytes(self) -> int:
        """Bytes from the first element to the last, with the gaps between them."""
        return (int(self.elements[-1]) + 1 - self.first) * np.dtype(self.dtype).itemsize if self.elements.size else 0


def written_by(program: Program, stage: Stage) -> tuple[Written, ...]:
    """What a layer writes that is read after it: the outputs of a call in their order, those of a loop by buffer.

    Of a tensor of which a call writes a row, the whole counts as written.
    """
    if stage.loop is None:
        call = program.calls[stage.start]
        params = enumerate(program.kernels[call.kernel].params)
        return tuple(
            Written(call.arguments[n], *_elements(program, call, n)) for n, param in params if param.role == "output"
        )
    later = {buffer for call in program.calls[stage.stop :] for buffer in call.buffers}
    found: dict[int, list[np.ndarray]] = {}
    for number, iterations in run_order(program):
        if not stage.start <= number < stage.stop:
            continue
        call = call_at(program.calls[number], iterations)
        for n, param in enumerate(program.kernels[call.kernel].params):
            buffer = call.arguments[n]
            if param.role == "output" and (buffer in later or program.buffers[buffer].kind in {"output", "state"}):
                found.setdefault(buffer, []).append(call.parts.get(n, Part(0, ())).offset + param.elements)
    return tuple(Written(b, np.unique(np.concatenate(parts)), program.buffers[b].dtype) for b, parts in found.items())


def _elements(program: Program, call: Call, output: int) -> tuple[np.ndarray, str, int]:
    """The elements of a tensor that a call may write with the parameter `output`, their type, and how many it does."""
    part, param = call.parts.get(output, Part(0, ())), program.kernels[call.kernel].params[output]
    if part.row is not None:
        return np.arange(prod(program.buffers[call.arguments[output]].shape)), param.dtype, param.elements.size
    return part.offset + param.elements, param.dtype, 0
