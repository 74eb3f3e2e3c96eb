"""Core affinity of memory: each thread overwrites arena lines that its own core's cache holds (see `CachedLines`).

The best place of a tensor is that of an earlier tensor of similar size, so that a border between cores is at the same
address: on two cores, both have the same middle. Only trials show which blocks fit, and what a place costs the blocks
placed later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from edgetune.graph.memory.cache_model import CachedLines, Caches, CallTraffic
from edgetune.graph.memory.live_ranges import ARENA_ALIGNMENT, Block, Key, blocks_of, owner_of
from edgetune.graph.memory.plan import MemoryPlan
from edgetune.graph.program import Program

_PLANS = 16  # most plans that keep the places of large blocks
_ALTERNATIVES = 4  # alternative places that are tried for a block
_TRIES = 1 << 20  # block parts evaluated in all plans together: takes some seconds
_TRIES_OF_A_CALL = 32  # the number of tries that take as long as one call


def with_core_affinity(
    memory: MemoryPlan, program: Program, scratch: Mapping[int, int], workers: Sequence[int], caches: Caches
) -> MemoryPlan:
    """Return the plan `memory` with every block moved that has a better place; `scratch` is its bytes by kernel.

    `workers` is the number of threads that share each kernel. The arena size does not change; without a better plan the
    result is `memory`. The first plans place tensors and scratch in call order, each where its cores miss the fewest
    bytes. In these plans the larger blocks keep their places; each plan has another size limit for that. Then the best
    plan is changed: one block (those that miss the most bytes first) goes to an alternative place, and all blocks after
    it are placed again. The same program always gives the same plan.
    """
    blocks = blocks_of(program, scratch, memory.in_place)
    places = _Search(
        PlacementProblem(
            blocks=tuple(sorted(blocks, key=lambda block: (block.first, -block.size, block.key))),
            nbytes=memory.arena_bytes,
            calls=tuple(traffic_of_calls(program, scratch, workers, memory.in_place)),
            caches=caches,
        ),
    ).best({block.key: _offset(memory, block.key) for block in blocks})
    return replace(
        memory,
        offsets={buffer: places["buffer", owner_of(buffer, memory.in_place)] for buffer in memory.offsets},
        scratch_offsets={call: places["scratch", call] for call in memory.scratch_offsets},
    )


def traffic_of_calls(
    program: Program, scratch: Mapping[int, int], workers: Sequence[int], in_place: Mapping[int, int]
) -> Iterator[CallTraffic]:
    """What each call touches; an argument that is a part of a tensor counts as the whole tensor."""
    for index, call in enumerate(program.calls):
        touched = [program.buffers[argument] for argument in call.arguments]
        keys = [("buffer", owner_of(b.id, in_place)) for b in touched if program.in_arena(b.id)]
        if scratch.get(call.kernel, 0) > 0:
            keys.append(("scratch", index))
        yield CallTraffic(
            blocks=tuple(dict.fromkeys(keys)),
            cores=workers[call.kernel],
            constant_bytes=sum(b.nbytes for b in touched if b.kind == "constant"),
            outside_bytes=sum(b.nbytes for b in touched if b.kind != "constant" and not program.in_arena(b.id)),
        )


def _offset(memory: MemoryPlan, key: Key) -> int:
    kind, number = key
    return memory.offsets[number] if kind == "buffer" else memory.scratch_offsets[number]


@dataclass(frozen=True)
class PlacementProblem:
    """The blocks to place, in call order, the arena's bytes, and how the calls use the blocks."""

    blocks: tuple[Block, ...]
    nbytes: int
    calls: tuple[CallTraffic, ...]
    caches: Caches


class _Search:
    """Tries one placement of the arena after another until no tries are left; abandons those that miss more bytes."""

    def __init__(self, problem: PlacementProblem) -> None:
        self._problem = problem
        self._left = _TRIES

    def best(self, offsets: Mapping[Key, int]) -> Mapping[Key, int]:
        """The best places found; `offsets` if nothing is better."""
        blocks = self._problem.blocks
        best = Placement(self._problem, offsets, dict.fromkeys(offsets, ()))
        sizes = sorted({block.size for block in blocks})
        limits = [inf, *sizes[1 :: -(-len(sizes) // _PLANS)]] if sizes else []
        for least in limits:
            if self._left > _TRIES // 2:
                kept = {block.key: offsets[block.key] for block in blocks if block.size >= least}
                best = min(best, self._placed(kept, {}, best.missing_bytes), key=lambda plan: plan.missing_bytes)
        for block in sorted(blocks, key=lambda block: -best.missing[block.key]):
            index = blocks.index(block)
            for offset in best.alternatives[block.key]:
                if self._left > 0:
                    before = [other.key for other in blocks[:index]]
                    kept = {key: best.offsets[key] for key in before} | {block.key: offset}
                    known = {key: best.alternatives[key] for key in before}
                    best = min(best, self._placed(kept, known, best.missing_bytes), key=lambda plan: plan.missing_bytes)
        return best.offsets

    def _placed(self, kept: Mapping[Key, int], known: Mapping[Key, Sequence[int]], limit: float) -> Placement:
        placement = Placement(self._problem, kept, known, limit, self._left)
        self._left -= placement.tries
        return placement


class Placement:
    """Where the blocks of an arena are: `kept` blocks are fixed, each other goes where its cores miss the fewest bytes.

    `missing` has, by block, the bytes that are missing in the caches when it is first written; `missing_bytes` is their
    sum. The sum is infinite if a block has no room, if it reaches `limit`, or if more than `most` tries are needed.
    `alternatives` are the next best places of each block; for blocks in `known` they are not searched again. `tries`
    counts the work: block parts evaluated.
    """

    def __init__(
        self,
        problem: PlacementProblem,
        kept: Mapping[Key, int],
        known: Mapping[Key, Sequence[int]],
        limit: float = inf,
        most: float = inf,
    ) -> None:
        self.offsets = dict(kept)
        self.alternatives: dict[Key, Sequence[int]] = dict(known)
        self.missing: dict[Key, int] = {}
        self.tries = 0
        self._problem = problem
        self._lines = CachedLines(problem.nbytes, problem.caches)
        complete = self._place_all(limit, most)
        self.missing_bytes = sum(self.missing.values()) if complete else inf

    def _place_all(self, limit: float, most: float) -> bool:
        sizes = {block.key: block.size for block in self._problem.blocks}
        blocks = iter([*self._problem.blocks, None])
        block = next(blocks)
        for number, call in enumerate(self._problem.calls):
            while block is not None and block.first == number:
                if block.key not in self.alternatives and not self._place(block, call.cores):
                    return False
                self.missing[block.key] = self._lines.missing(self.offsets[block.key], block.size, call.cores)
                limit -= self.missing[block.key]
                block = next(blocks)
            self.tries += _TRIES_OF_A_CALL * self._problem.caches.count
            if limit <= 0 or self.tries > most:
                return False
            self._lines.touch(call, [(self.offsets[key], sizes[key]) for key in call.blocks])
        return True

    def _place(self, block: Block, cores: int) -> bool:
        """Ranks the free places of a block and takes the best if it has none yet; returns whether it has a place."""
        placed = [(other, self.offsets[other.key]) for other in self._problem.blocks if other.key in self.offsets]
        beside = [(other, at) for other, at in placed if other is not block and other.overlaps(block)]
        taken = [(at - block.size, at + other.size) for other, at in beside]
        edges = self._edges(block.size, {(at, other.size) for other, at in placed}, cores)
        ranked = sorted(
            (self._lines.missing(at, block.size, cores), at)
            for at in edges
            if all(at <= first or at >= end for first, end in taken)
        )
        self.tries += (len(edges) + 1) * cores
        places = [at for _, at in ranked[: _ALTERNATIVES + 1]]
        if places:
            self.offsets.setdefault(block.key, places[0])
        self.alternatives[block.key] = [at for at in places if at != self.offsets.get(block.key)][:_ALTERNATIVES]
        return block.key in self.offsets

    def _edges(self, size: int, placed: set[tuple[int, int]], cores: int) -> set[int]:
        """Places adjacent to other blocks, and places where a border between cores is at that of another block."""
        last = self._problem.nbytes - size
        found = {0, last}
        for at, other in placed:
            found |= {at - size, at + other}
            for border in range(cores + 1):
                found.add((at + (other - size) * border // cores) // ARENA_ALIGNMENT * ARENA_ALIGNMENT)
        return {at for at in found if 0 <= at <= last}
