"""Memory planning by first fit of tensors with overlapping lifetimes: offsets of tensors and scratch in the arena."""

from __future__ import annotations

import random
from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from edgetune.graph.memory.live_ranges import ARENA_ALIGNMENT, Block, Key, blocks_of, live_bytes, live_ranges, owner_of
from edgetune.graph.program import Program

_LOCAL_SEARCH_STEPS = 2000
_SLACK = 1.10
_SCARCE_SLACK = 1.125
"""The same where memory is scarce: a copy of four rows in 16 bits, which a window of 3x3 reads, is an eighth of two
images of bytes with 32 rows. Without that copy, such layers take more than twice the instructions."""

_OWN = 2048
"""Bytes of scratch that a kernel may always have there."""


@dataclass(frozen=True)
class Arena:
    """What a plan takes of a region of memory: `nbytes` of its `most`."""

    region: str
    nbytes: int
    most: int


@dataclass(frozen=True)
class MemoryPlan:
    """Offsets in bytes into the arena, each a multiple of `ARENA_ALIGNMENT`.

    `bound_bytes` is the largest sum of live outputs of kernels over all calls, without scratch: no plan can be smaller.
    `peak_call` is the index of a call that reaches this bound. `in_place` maps tensors to an operand of the call that
    writes them, whose memory they take over: the two count once.

    Where memory has several regions, `arenas` are those that something lies in, the fastest first, and offsets count
    from the beginning of one: `regions` has the number of it by tensor, `scratch_regions` by call. `arena_bytes` is the
    sum of all.
    """

    offsets: dict[int, int]
    scratch_offsets: dict[int, int]
    arena_bytes: int
    bound_bytes: int
    peak_call: int
    in_place: Mapping[int, int] = field(default_factory=dict)
    arenas: tuple[Arena, ...] = ()
    regions: Mapping[int, int] = field(default_factory=dict)
    scratch_regions: Mapping[int, int] = field(default_factory=dict)


def scratch_limits(
    program: Program, threads: int = 1, in_place: Mapping[int, int] | None = None, most: int | None = None
) -> dict[int, int]:
    """Bytes of scratch that each kernel (by index) may use, all `threads` together.

    The limits keep the arena within `_SLACK` times its lower bound, except where a kernel's own `scratch` per thread is
    more: that is always allowed. Where memory is scarce, the tensors are given that may be written `in_place`: then the
    bound is that of a plan where they are, and only `_OWN` of a kernel's own scratch are always allowed.

    With `most`, the arena is within so many bytes. Where memory is scarce, kernels may use all that tensors leave of
    them. Elsewhere `most` makes the limits less and never more.
    """
    scarce = in_place is not None
    live = live_bytes(program, in_place or {})
    allowed = int(max(live, default=0) * (_SCARCE_SLACK if scarce else _SLACK))
    if most is not None:
        allowed = most if scarce else min(allowed, most)
    limits: dict[int, int] = {}
    for call, used in zip(program.calls, live, strict=True):
        own = program.kernels[call.kernel].scratch * threads
        own = min(own, _OWN) if scarce else own
        own = own if most is None else min(own, max(0, most - used - ARENA_ALIGNMENT))
        room = max(allowed - used - ARENA_ALIGNMENT, own)
        limits[call.kernel] = min(limits.get(call.kernel, max(allowed, room)), room)
    return limits


def plan(program: Program, scratch: Mapping[int, int], in_place: Mapping[int, int] | None = None) -> MemoryPlan:
    """Places every tensor of the arena, and the scratch of each call whose kernel (by index) needs some.

    Tensors written `in_place` (see `in_place_outputs`) share their operand's memory.

    Offsets come from first fit over several orders of placement (Pisarchyk and Lee, "Efficient Memory Management for
    Deep Neural Net Inference", 2020, greedy by size and by breadth), then from a seeded local search while the arena is
    above the unavoidable sum. The same program gives the same plan.
    """
    shared = in_place or {}
    live = live_bytes(program, shared)
    bound = max(live, default=0)
    ranges = live_ranges(program)
    blocks = blocks_of(program, scratch, shared)
    offsets, size = best_placement(blocks, len(program.calls))
    return MemoryPlan(
        offsets={buffer: offsets["buffer", owner_of(buffer, shared)] for buffer in ranges},
        scratch_offsets={k: o for (kind, k), o in offsets.items() if kind == "scratch"},
        arena_bytes=size,
        bound_bytes=bound,
        peak_call=live.index(bound) if live else 0,
        in_place=shared,
    )


def best_placement(blocks: list[Block], calls: int) -> tuple[dict[Key, int], int]:
    """Offsets of blocks in an arena of their own, and its bytes; see `plan`."""
    unavoidable = max((sum(b.size for b in blocks if b.first <= i <= b.last) for i in range(calls)), default=0)
    pressure = {
        b.key: max(sum(o.size for o in blocks if o.overlaps(b) and o.first <= i <= o.last) for i in (b.first, b.last))
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


def _first_fit(order: list[Block]) -> tuple[dict[Key, int], int]:
    placed: list[tuple[int, Block]] = []
    total = 0
    for block in order:
        offset = first_gap(placed, block)
        insort(placed, (offset, block), key=lambda p: p[0])
        total = max(total, offset + block.size)
    return {block.key: offset for offset, block in placed}, total


def first_gap(placed: Sequence[tuple[int, Block]], block: Block) -> int:
    """The lowest offset of a block beside those that are `placed`, by ascending offsets."""
    offset = 0
    for start, other in placed:
        if not other.overlaps(block):
            continue
        if offset + block.size <= start:
            break
        offset = max(offset, start + other.size)
    return offset
