"""Live ranges for memory planning: size, first call and last call of each tensor and scratch block in the arena."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgetune.graph.program import Program

ARENA_ALIGNMENT = 64

Key = tuple[str, int]  # "buffer" and a tensor's id, or "scratch" and a call's number


@dataclass(frozen=True)
class Block:
    """A memory block of `size` bytes (a multiple of the alignment), alive from call `first` to `last`, inclusive.

    The number of calls as `last` is the time behind all of them.
    """

    key: Key
    size: int
    first: int
    last: int

    def overlaps(self, other: Block) -> bool:
        """Whether both are alive during some call."""
        return self.first <= other.last and other.first <= self.last


def blocks_of(program: Program, scratch: Mapping[int, int], in_place: Mapping[int, int]) -> list[Block]:
    """One block for each chain of tensors that share their memory, and one for the scratch of each call.

    `scratch` is bytes by kernel. Tensors in `in_place` share the memory of the operand that they overwrite.
    """
    blocks = [
        Block(("buffer", buffer), _aligned(program.buffers[buffer].nbytes), first, last)
        for buffer, (first, last) in shared_live_ranges(live_ranges(program), in_place).items()
    ]
    for index, call in enumerate(program.calls):
        if scratch.get(call.kernel, 0) > 0:
            blocks.append(Block(("scratch", index), _aligned(scratch[call.kernel]), index, index))
    return blocks


def live_ranges(program: Program) -> dict[int, tuple[int, int]]:
    """First and last call that touches each tensor in the arena, by its id.

    A tensor that an iteration of a loop leaves for a later one is alive during the whole loop (see `kept_in_loops`).
    Inputs in the arena are written before the run, so they are alive from call 0 on, all together. Outputs are read
    after it: they are alive to the end, which is the number of calls, and no call may write over them.
    """
    ranges: dict[int, tuple[int, int]] = {}
    for index, call in enumerate(program.calls):
        for buffer in call.buffers:
            if program.in_arena(buffer):
                ranges[buffer] = (ranges.get(buffer, (index, index))[0], index)
    for loop, buffers in zip(reversed(program.loops), reversed(kept_in_loops(program)), strict=True):
        for buffer in buffers & ranges.keys():
            first, last = ranges[buffer]
            ranges[buffer] = (min(first, loop.start), max(last, loop.stop - 1))
    end = len(program.calls)
    for one in (*program.input_buffers(), *program.output_buffers()):
        if program.in_arena(one.id):
            first, last = ranges.get(one.id, (0, 0))  # an input may have no reader
            ranges[one.id] = (0, last) if one.kind == "input" else (first, end)
    return ranges


def kept_in_loops(program: Program) -> list[frozenset[int]]:
    """For each loop, the tensors that its calls touch and that are alive from iteration to iteration.

    They move with the loop, calls outside of it touch them, or an iteration reads them before it writes them.
    """
    kept = []
    for number, loop in enumerate(program.loops):
        inside = program.calls[loop.start : loop.stop]
        around = (*program.calls[: loop.start], *program.calls[loop.stop :])
        outside = {buffer for call in around for buffer in call.buffers}
        written: set[int] = set()
        found: set[int] = set()
        for call in inside:
            params = program.kernels[call.kernel].params
            for n, place in call.places:
                moves = any(movement.loop == number for movement in place.part.movements)
                read_first = params[n].role != "output" and place.buffer not in written
                if moves or read_first or place.buffer in outside:
                    found.add(place.buffer)
            written |= {buffer for n, buffer in enumerate(call.arguments) if params[n].role == "output"}
        kept.append(frozenset(found))
    return kept


def shared_live_ranges(
    ranges: Mapping[int, tuple[int, int]], in_place: Mapping[int, int]
) -> dict[int, tuple[int, int]]:
    """First and last call of each chain of tensors that overwrite each other, by the chain's first tensor."""
    shared: dict[int, tuple[int, int]] = {}
    for buffer, (first, last) in ranges.items():
        owner = owner_of(buffer, in_place)
        earliest, latest = shared.get(owner, (first, last))
        shared[owner] = (min(first, earliest), max(last, latest))
    return shared


def owner_of(buffer: int, in_place: Mapping[int, int]) -> int:
    """The first tensor in a chain of tensors that overwrite each other."""
    while buffer in in_place:
        buffer = in_place[buffer]
    return buffer


def live_bytes(program: Program, in_place: Mapping[int, int] | None = None) -> list[int]:
    """Bytes in the arena alive during each call: what it reads and writes there, and tensors that are read later.

    `in_place` maps tensors to the operand that they overwrite: the two count once.
    """
    totals = [0] * len(program.calls)
    for buffer, (first, last) in shared_live_ranges(live_ranges(program), in_place or {}).items():
        for call in range(first, min(last + 1, len(totals))):
            totals[call] += program.buffers[buffer].nbytes
    return totals


def _aligned(size: int) -> int:
    return max(-(-size // ARENA_ALIGNMENT), 1) * ARENA_ALIGNMENT
