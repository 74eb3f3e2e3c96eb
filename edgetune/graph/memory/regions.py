"""Memory planning for several regions: which tensors and scratch lie in the fast one, which in those behind it.

What is touched most per byte lies in the fastest region that has room for it. Bytes touched are those that calls move:
a tensor's, each time that it is read or written, and for scratch all that its call reads and writes, which passes
through it.
"""

from __future__ import annotations

import random
from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from edgetune.errors import MemoryLimitExceeded
from edgetune.graph.loops import times_called
from edgetune.graph.memory.live_ranges import ARENA_ALIGNMENT, Block, Key, blocks_of, live_bytes, live_ranges, owner_of
from edgetune.graph.memory.plan import Arena, MemoryPlan, best_placement, first_gap
from edgetune.graph.places_of_tensors import layer_in_words, tensor_in_words
from edgetune.graph.program import Program, byte_size

_SEARCH_STEPS = 1000


@dataclass(frozen=True)
class RegionSize:
    """Memory of a board: `nbytes` of it may hold tensors and scratch."""

    name: str
    nbytes: int


def plan_in_regions(
    program: Program,
    scratch: Mapping[int, int],
    regions: Sequence[RegionSize],
    ways: Sequence[Mapping[int, int]],
    most: float = inf,
) -> MemoryPlan:
    """Places every tensor of the arena, and the scratch of each call, in one of `regions`, the fastest first.

    `ways` are choices of what is written in place (see `in_place_outputs`); the plan has the one that fits best. Blocks
    that share memory share a region. Within a region, offsets are those of `plan`. All arenas together take at most
    `most` bytes, if a plan is found that does. The same arguments give the same plan. Raises MemoryLimitExceeded,
    naming a tensor, where a region is too small for one or all are for what is alive.
    """
    problems = [_Problem(program, scratch, regions, way, most) for way in ways]
    found = [placement for problem in problems for placement in (*_whole(problem), _search(problem))]
    best = min(found, key=lambda one: one.badness)
    if best.left_out:
        raise _no_room(best)
    return best.plan()


@dataclass(frozen=True)
class _Problem:
    program: Program
    scratch: Mapping[int, int]
    regions: Sequence[RegionSize]
    in_place: Mapping[int, int]
    most: float = inf

    @cached_property
    def blocks(self) -> list[Block]:
        return blocks_of(self.program, self.scratch, self.in_place)

    @cached_property
    def touched(self) -> dict[Key, int]:
        """Bytes that a run moves from and to each block."""
        program = self.program
        totals = {block.key: 0 for block in self.blocks}
        for number, call in enumerate(program.calls):
            params = program.kernels[call.kernel].params
            times = times_called(program, number)
            moved = [
                byte_size(call.parts[n].shape if n in call.parts else param.shape, param.dtype) * times
                for n, param in enumerate(params)
            ]
            for buffer, nbytes in zip(call.arguments, moved, strict=True):
                key: Key = ("buffer", owner_of(buffer, self.in_place))
                if key in totals:
                    totals[key] += nbytes
            if ("scratch", number) in totals:
                totals["scratch", number] = sum(
                    nbytes for param, nbytes in zip(params, moved, strict=True) if param.role != "constant"
                )
        return totals


@dataclass(frozen=True)
class _Placement:
    """Blocks of a problem in its regions: region and offset of each, by key. `left_out` find no room in any."""

    problem: _Problem
    places: Mapping[Key, tuple[int, int]]
    left_out: tuple[Block, ...]

    @cached_property
    def badness(self) -> tuple[int, float, int, int]:
        """Bytes without room; bytes of all arenas beyond the most; bytes moved behind faster regions; of all arenas.

        Bytes moved count as often as there are regions that are faster.
        """
        behind = sum(self.problem.touched[key] * region for key, (region, _) in self.places.items())
        without = sum(block.size for block in self.left_out)
        return without, max(0.0, self._arena_bytes - self.problem.most), behind, self._arena_bytes

    @property
    def _arena_bytes(self) -> int:
        ends = [0] * len(self.problem.regions)
        for block in self.problem.blocks:
            if block.key in self.places:
                region, offset = self.places[block.key]
                ends[region] = max(ends[region], offset + block.size)
        return sum(ends)

    def plan(self) -> MemoryPlan:
        """The plan, without regions that are empty."""
        problem, program = self.problem, self.problem.program
        offsets: dict[Key, int] = {}
        numbers: dict[Key, int] = {}
        arenas: list[Arena] = []
        for number, region in enumerate(problem.regions):
            blocks = [block for block in problem.blocks if self.places[block.key][0] == number]
            if not blocks:
                continue
            places, nbytes = best_placement(blocks, len(program.calls))
            here = {block.key: self.places[block.key][1] for block in blocks}
            end = max(here[block.key] + block.size for block in blocks)
            offsets |= places if nbytes <= end else here
            numbers |= dict.fromkeys(places, len(arenas))
            arenas.append(Arena(region.name, min(nbytes, end), region.nbytes))
        live = live_bytes(program, problem.in_place)
        bound = max(live, default=0)
        owners: dict[int, Key] = {one: ("buffer", owner_of(one, problem.in_place)) for one in live_ranges(program)}
        return MemoryPlan(
            offsets={buffer: offsets[owner] for buffer, owner in owners.items()},
            scratch_offsets={call: at for (kind, call), at in offsets.items() if kind == "scratch"},
            arena_bytes=sum(arena.nbytes for arena in arenas),
            bound_bytes=bound,
            peak_call=live.index(bound) if live else 0,
            in_place=problem.in_place,
            arenas=tuple(arenas),
            regions={buffer: numbers[owner] for buffer, owner in owners.items()},
            scratch_regions={call: at for (kind, call), at in numbers.items() if kind == "scratch"},
        )


def _whole(problem: _Problem) -> list[_Placement]:
    """All blocks in the first region that has room for all of them; none where no region has."""
    offsets, nbytes = best_placement(problem.blocks, len(problem.program.calls))
    fitting = [number for number, region in enumerate(problem.regions) if nbytes <= region.nbytes]
    return [_Placement(problem, {key: (number, at) for key, at in offsets.items()}, ()) for number in fitting[:1]]


def _search(problem: _Problem) -> _Placement:
    """The best placement of a few orders of blocks, and then of a seeded local search over orders."""
    touched = problem.touched
    density = {block.key: touched[block.key] / block.size for block in problem.blocks}
    orders = [
        sorted(problem.blocks, key=lambda b: (-density[b.key], b.size, b.first, b.key)),
        sorted(problem.blocks, key=lambda b: (-b.size, b.first, b.key)),
    ]
    order = min(orders, key=lambda one: _placed(problem, one).badness)
    best = _placed(problem, order)
    generator = random.Random(0)  # noqa: S311 - a search, not a secret
    for _ in range(_SEARCH_STEPS if len(order) > 1 else 0):
        if best.badness[:3] == (0, 0, 0):
            break
        other = list(order)
        first, second = generator.randrange(len(order)), generator.randrange(len(order))
        other.insert(second, other.pop(first))
        placed = _placed(problem, other)
        if placed.badness <= best.badness:
            order, best = other, placed
    return best


def _placed(problem: _Problem, order: Sequence[Block]) -> _Placement:
    """Each block in the first region with room for it."""
    rooms = [region.nbytes // ARENA_ALIGNMENT * ARENA_ALIGNMENT for region in problem.regions]
    placed: list[list[tuple[int, Block]]] = [[] for _ in rooms]
    places: dict[Key, tuple[int, int]] = {}
    left_out = []
    for block in order:
        for number, room in enumerate(rooms):
            offset = first_gap(placed[number], block)
            if offset + block.size <= room:
                insort(placed[number], (offset, block), key=lambda one: one[0])
                places[block.key] = (number, offset)
                break
        else:
            left_out.append(block)
    return _Placement(problem, places, tuple(left_out))


def _no_room(placement: _Placement) -> MemoryLimitExceeded:
    problem = placement.problem
    program, largest = problem.program, max(problem.regions, key=lambda one: one.nbytes)
    block = max(placement.left_out, key=lambda one: (one.size, one.key))
    kind, number = block.key
    if kind == "scratch":
        what = f"the scratch memory of {layer_in_words(program, number)}"
    else:
        what = tensor_in_words(program, number)
    advice = "use a smaller model or a larger board, or raise 'workspace' of a region in the target file"
    if block.size > largest.nbytes:
        return MemoryLimitExceeded(
            f"{what} of {program.name} takes {block.size} bytes, and the largest region of the board, {largest.name}, "
            f"has {largest.nbytes} for a workspace, {block.size - largest.nbytes} too few: {advice}",
            ("ram", block.size - largest.nbytes),
        )
    sizes = ", ".join(f"{one.name} with {one.nbytes} bytes" for one in problem.regions)
    excess = sum(one.size for one in placement.left_out)
    return MemoryLimitExceeded(
        f"{program.name} does not fit the regions {sizes}: {excess} bytes find no room beside what is alive with them, "
        f"the largest of them {what} of {block.size} bytes: {advice}",
        ("ram", excess),
    )
