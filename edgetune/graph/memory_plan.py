"""Static memory plan: where in the arena every intermediate tensor and every kernel's scratch lives."""

from __future__ import annotations

import random
from bisect import insort
from dataclasses import dataclass

from edgetune.graph.program import Program

ARENA_ALIGNMENT = 64
_LOCAL_SEARCH_STEPS = 2000


@dataclass(frozen=True)
class MemoryPlan:
    """Offsets in bytes into the arena, each a multiple of `ARENA_ALIGNMENT`.

    `bound_bytes` is the largest sum of live outputs of kernels over all calls, no scratch: no plan can be smaller.
    `peak_call` is the index of a call where the bound is reached.
    """

    offsets: dict[int, int]
    scratch_offsets: dict[int, int]
    arena_bytes: int
    bound_bytes: int
    peak_call: int


@dataclass(frozen=True)
class _Block:
    """Something that needs `size` bytes (a multiple of the alignment) from call `first` to call `last`, inclusive."""

    key: tuple[str, int]
    size: int
    first: int
    last: int

    def meets(self, other: _Block) -> bool:
        return self.first <= other.last and other.first <= self.last


def live_bytes(program: Program) -> list[int]:
    """Bytes of intermediate tensors alive during each call: its inputs and outputs, and what later calls still read."""
    totals = [0] * len(program.calls)
    for buffer_id, (first, last) in _lifetimes(program).items():
        for call in range(first, last + 1):
            totals[call] += program.buffers[buffer_id].nbytes
    return totals


def scratch_limits(program: Program, slack: float = 1.10) -> dict[int, int]:
    """Scratch bytes that each kernel (by index) may use for an arena within `slack` times its lower bound."""
    live = live_bytes(program)
    allowed = int(max(live, default=0) * slack)
    limits: dict[int, int] = {}
    for call, used in zip(program.calls, live, strict=True):
        limits[call.kernel] = min(limits.get(call.kernel, allowed), max(allowed - used - ARENA_ALIGNMENT, 0))
    return limits


def plan(program: Program, scratch: dict[int, int]) -> MemoryPlan:
    """Places every intermediate tensor, and the scratch of each call whose kernel (by index) asks for some.

    Offsets come from first fit over several orders of placement (Pisarchyk and Lee, "Efficient Memory Management for
    Deep Neural Net Inference", 2020, greedy by size and by breadth), then from a seeded local search while the arena is
    above the unavoidable sum. The same program gives the same plan.
    """
    live = live_bytes(program)
    bound = max(live, default=0)
    blocks = _blocks(program, scratch)
    offsets, size = _best_placement(blocks, len(program.calls))
    return MemoryPlan(
        offsets={k: o for (kind, k), o in offsets.items() if kind == "buffer"},
        scratch_offsets={k: o for (kind, k), o in offsets.items() if kind == "scratch"},
        arena_bytes=size,
        bound_bytes=bound,
        peak_call=live.index(bound) if live else 0,
    )


def _lifetimes(program: Program) -> dict[int, tuple[int, int]]:
    spans: dict[int, tuple[int, int]] = {}
    for index, call in enumerate(program.calls):
        for argument in call.arguments:
            if program.buffers[argument].kind == "intermediate":
                spans[argument] = (spans.get(argument, (index, index))[0], index)
    return spans


def _blocks(program: Program, scratch: dict[int, int]) -> list[_Block]:
    blocks = [
        _Block(("buffer", buffer), _aligned(program.buffers[buffer].nbytes), first, last)
        for buffer, (first, last) in _lifetimes(program).items()
    ]
    for index, call in enumerate(program.calls):
        if scratch.get(call.kernel, 0) > 0:
            blocks.append(_Block(("scratch", index), _aligned(scratch[call.kernel]), index, index))
    return blocks


def _aligned(size: int) -> int:
    return max(-(-size // ARENA_ALIGNMENT), 1) * ARENA_ALIGNMENT


def _best_placement(blocks: list[_Block], calls: int) -> tuple[dict[tuple[str, int], int], int]:
    unavoidable = max((sum(b.size for b in blocks if b.first <= i <= b.last) for i in range(calls)), default=0)
    pressure = {
        b.key: max(sum(o.size for o in blocks if o.meets(b) and o.first <= i <= o.last) for i in (b.first, b.last))
        for b in blocks
    }
    orders = [
        sorted(blocks, key=lambda b: (-b.size, b.first, b.key)),
        sorted(blocks, key=lambda b: (-pressure[b.key], -b.size, b.key)),
        sorted(blocks, key=lambda b: (-(b.last - b.first), -b.size, b.key)),
        sorted(blocks, key=lambda b: (b.first, -b.size, b.key)),
    ]
    best = min(((*_first_fit(order), order) for order in orders), key=lambda placed: placed[1])
    generator = random.Random(0)  # noqa: S311 - a search, not a secret
    for _ in range(_LOCAL_SEARCH_STEPS if len(blocks) > 1 else 0):
        if best[1] <= unavoidable:
            break
        order = list(best[2])
        first, second = generator.randrange(len(order)), generator.randrange(len(order))
        order.insert(second, order.pop(first))
        offsets, size = _first_fit(order)
        if size <= best[1]:
            best = (offsets, size, order)
    return best[0], best[1]


def _first_fit(order: list[_Block]) -> tuple[dict[tuple[str, int], int], int]:
    placed: list[tuple[int, _Block]] = []
    total = 0
    for block in order:
        offset = 0
        for start, other in placed:
            if not other.meets(block):
                continue
            if offset + block.size <= start:
                break
            offset = max(offset, start + other.size)
        insort(placed, (offset, block), key=lambda p: p[0])
        total = max(total, offset + block.size)
    return {block.key: offset for offset, block in placed}, total
