"""A run of a program call by call in one array of bytes, where the memory plan has the tensors.

Bytes that no living tensor has are garbage before every call. So a tensor that is alive for too short a time, and one
that is written over another which is still read, give other outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from edgetune.graph.evaluate import ReferenceFunction
from edgetune.graph.loops import call_at, run_order
from edgetune.graph.memory.live_ranges import live_ranges, shared_live_ranges
from edgetune.graph.memory.plan import MemoryPlan
from edgetune.graph.program import Call, Program

_GARBAGE = 0xFF  # NaN as floats, -1 as integers


class _Arena:
    """The memory of a run: the arena, and the tensors outside of it."""

    def __init__(self, program: Program, memory: MemoryPlan, feed: Mapping[str, np.ndarray]) -> None:
        self.program, self.memory = program, memory
        self.bytes = np.full(memory.arena_bytes, _GARBAGE, np.uint8)
        self.outside = {number: array.reshape(-1) for number, array in program.constants.items()}
        for buffer in (*program.input_buffers(), *program.output_buffers()):
            if not program.in_arena(buffer.id):
                self.outside[buffer.id] = np.full(buffer.nbytes, _GARBAGE, np.uint8).view(buffer.dtype)
        for buffer, spec in zip(program.input_buffers(), program.inputs, strict=True):
            self.tensor(buffer.id)[:] = feed[spec.name].reshape(-1)
        self._ranges = shared_live_ranges(live_ranges(program), memory.in_place)

    def forget(self, call: int) -> None:
        """Makes garbage of all that is not alive during a call, by its number."""
        alive = np.zeros(len(self.bytes), bool)
        for buffer, (first, last) in self._ranges.items():
            if first <= call <= last:
                start = self.memory.offsets[buffer]
                alive[start : start + self.program.buffers[buffer].nbytes] = True
        self.bytes[~alive] = _GARBAGE

    def tensor(self, buffer: int) -> np.ndarray:
        """The elements of a tensor, which may be written."""
        if buffer in self.outside:
            return self.outside[buffer]
        start, whole = self.memory.offsets[buffer], self.program.buffers[buffer]
        return self.bytes[start : start + whole.nbytes].view(whole.dtype)

    def places(self, call: Call, number: int) -> np.ndarray:
        """The indices of the elements that a call touches of an argument, by its number."""
        param = self.program.kernels[call.kernel].params[number]
        found = param.elements + (call.parts[number].offset if number in call.parts else 0)
        size = prod(self.program.buffers[call.arguments[number]].shape)
        assert not found.size or 0 <= found.min() <= found.max() < size, f"{call.label} leaves argument {number}"
        return found


def run_in_arena(
    program: Program, memory: MemoryPlan, feed: Mapping[str, np.ndarray], functions: Sequence[ReferenceFunction]
) -> dict[str, np.ndarray]:
    """Outputs by name; `functions` are those of the kernels."""
    arena = _Arena(program, memory, feed)
    for index, iterations in run_order(program):
        arena.forget(index)
        call = call_at(program.calls[index], iterations)
        params = program.kernels[call.kernel].params
        reads, writes = [], []
        for number, param in enumerate(params):
            if param.role == "output":
                writes.append(number)
                continue
            array = np.zeros(prod(param.shape), param.dtype)
            array[param.elements] = arena.tensor(call.arguments[number])[arena.places(call, number)]
            reads.append(array.reshape(param.shape))
        made = functions[call.kernel].run(reads, [(params[n].shape, params[n].dtype) for n in writes])
        for number, result in zip(writes, made, strict=True):
            found = result.reshape(-1)[params[number].elements]
            arena.tensor(call.arguments[number])[arena.places(call, number)] = found
    arena.forget(len(program.calls))
    ends = zip(program.output_buffers(), program.outputs, strict=True)
    return {spec.name: arena.tensor(buffer.id).reshape(spec.shape) for buffer, spec in ends}
