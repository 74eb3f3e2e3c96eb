"""Places in the arena where each thread writes over lines that the cache of its own core holds (see `cached_lines`).

A tensor best lies where an earlier one of about its size lay, with a border between cores at the same address: on two
cores, with the same middle. What fits where, and what a place for one costs those behind it, only trying tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from edgetune.graph.cached_lines import CachedLines, Caches, Step
from edgetune.graph.memory_blocks import ARENA_ALIGNMENT, Block, Key, blocks_of, owner_of
from edgetune.graph.memory_plan import MemoryPlan
from edgetune.graph.program import Program

_PLANS = 16  # that keep the places of large blocks, at most
_OTHERS = 4  # further places that are tried for a block
_TRIES = 1 << 20  # parts of blocks that are looked at in all plans together: some seconds
_STEP = 32  # as many such tries take as long as a call


def on_own_lines(
    memory: MemoryPlan, program: Program, scratch: Mapping[int, int], workers: Sequence[int], caches: Caches
) -> MemoryPlan:
    """Return `memory`, a plan with this `scratch` (bytes by kernel), with all that has a better place moved.

    `workers` tells how many threads share each kernel. The arena stays as large as it is, and the plan where no better
    one is found. The first plans place tensors and scratch in the order of the calls, each where its cores lack the
    fewest bytes; those of some size on keep their places, another size in each plan. Then the best one is changed: one
    block, of those that lack most first, goes to a place that was less good for it, and all behind it are placed again.
    The same program gives the same plan.
    """
    blocks = blocks_of(program, scratch, memory.in_place)
    places = _Search(
        Arena(
            blocks=tuple(sorted(blocks, key=lambda block: (block.first, -block.size, block.key))),
            nbytes=memory.arena_bytes,
            steps=tuple(steps_of(program, scratch, workers, memory.in_place)),
            caches=caches,
        ),
    ).best({block.key: _offset(memory, block.key) for block in blocks})
    return replace(
        memory,
        offsets={buffer: places["buffer", owner_of(buffer, memory.in_place)] for buffer in memory.offsets},
        scratch_offsets={call: places["scratch", call] for call in memory.scratch_offsets},
    )


def steps_of(
    program: Program, scratch: Mapping[int, int], workers: Sequence[int], in_place: Mapping[int, int]
) -> Iterator[Step]:
    """What each call touches; an argument that is a part of a tensor counts as all of it."""
    for index, call in enumerate(program.calls):
        touched = [program.buffers[argument] for argument in call.arguments]
        keys = [("buffer", owner_of(b.id, in_place)) for b in touched if b.kind == "intermediate"]
        if scratch.get(call.kernel, 0) > 0:
            keys.append(("scratch", index))
        yield Step(
            blocks=tuple(dict.fromkeys(keys)),
            cores=workers[call.kernel],
            constant_bytes=sum(b.nbytes for b in touched if b.kind == "constant"),
            outside_bytes=sum(b.nbytes for b in touched if b.kind in ("input", "output")),
        )


def _offset(memory: MemoryPlan, key: Key) -> int:
    kind, number = key
    return memory.offsets[number] if kind == "buffer" else memory.scratch_offsets[number]


@dataclass(frozen=True)
class Arena:
    """What is placed, in the order of the calls, into how many bytes, and how it is used."""

    blocks: tuple[Block, ...]
    nbytes: int
    steps: tuple[Step, ...]
    caches: Caches


class _Search:
    """Plans for an arena, one after the other, as long as tries are left; the one that needs more is given up."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._left = _TRIES

    def best(self, offsets: Mapping[Key, int]) -> Mapping[Key, int]:
        """The best places found, `offsets` if these are."""
        blocks = self._arena.blocks
        best = Placement(self._arena, offsets, dict.fromkeys(offsets, ()))
        sizes = sorted({block.size for block in blocks})
        leasts = [inf, *sizes[1 :: -(-len(sizes) // _PLANS)]] if sizes else []
        for least in leasts:
            if self._left > _TRIES // 2:
                kept = {block.key: offsets[block.key] for block in blocks if block.size >= least}
                best = min(best, self._placed(kept, {}, best.lacked_bytes), key=lambda found: found.lacked_bytes)
        for block in sorted(blocks, key=lambda block: -best.lacked[block.key]):
            index = blocks.index(block)
            for offset in best.others[block.key]:
                if self._left > 0:
                    before = [other.key for other in blocks[:index]]
                    kept = {key: best.offsets[key] for key in before} | {block.key: offset}
                    known = {key: best.others[key] for key in before}
                    best = min(best, self._placed(kept, known, best.lacked_bytes), key=lambda found: found.lacked_bytes)
        return best.offsets

    def _placed(self, kept: Mapping[Key, int], known: Mapping[Key, Sequence[int]], limit: float) -> Placement:
        placement = Placement(self._arena, kept, known, limit, self._left)
        self._left -= placement.tries
        return placement


class Placement:
    """Where the blocks of an arena are: `kept` from the start, all others where their cores lack the fewest bytes.

    `lacked` has the bytes that are lacked when a block is first written, and `lacked_bytes` all of them; infinite where
    there is no room for a block, they come to `limit`, or it was more than `most` tries. `others` are the next best
    places of each block, those `known` not sought again. `tries` is the work that it was: parts of blocks looked at.
    """

    def __init__(
        self,
        arena: Arena,
        kept: Mapping[Key, int],
        known: Mapping[Key, Sequence[int]],
        limit: float = inf,
        most: float = inf,
    ) -> None:
        self.offsets = dict(kept)
        self.others: dict[Key, Sequence[int]] = dict(known)
        self.lacked: dict[Key, int] = {}
        self.tries = 0
        self._arena = arena
        self._lines = CachedLines(arena.nbytes, arena.caches)
        complete = self._place_all(limit, most)
        self.lacked_bytes = sum(self.lacked.values()) if complete else inf

    def _place_all(self, limit: float, most: float) -> bool:
        sizes = {block.key: block.size for block in self._arena.blocks}
        blocks = iter([*self._arena.blocks, None])
        block = next(blocks)
        for number, step in enumerate(self._arena.steps):
            while block is not None and block.first == number:
                if block.key not in self.others and not self._place(block, step.cores):
                    return False
                self.lacked[block.key] = self._lines.lacked(self.offsets[block.key], block.size, step.cores)
                limit -= self.lacked[block.key]
                block = next(blocks)
            self.tries += _STEP * self._arena.caches.count
            if limit <= 0 or self.tries > most:
                return False
            self._lines.touch(step, [(self.offsets[key], sizes[key]) for key in step.blocks])
        return True

    def _place(self, block: Block, cores: int) -> bool:
        """Ranks the places that are left for a block and takes the best, where it has none yet; says if it has one."""
        placed = [(other, self.offsets[other.key]) for other in self._arena.blocks if other.key in self.offsets]
        beside = [(other, at) for other, at in placed if other is not block and other.meets(block)]
        taken = [(at - block.size, at + other.size) for other, at in beside]
        edges = self._edges(block.size, {(at, other.size) for other, at in placed}, cores)
        ranked = sorted(
            (self._lines.lacked(at, block.size, cores), at)
            for at in edges
            if all(at <= before or at >= behind for before, behind in taken)
        )
        self.tries += (len(edges) + 1) * cores
        places = [at for _, at in ranked[: _OTHERS + 1]]
        if places:
            self.offsets.setdefault(block.key, places[0])
        self.others[block.key] = [at for at in places if at != self.offsets.get(block.key)][:_OTHERS]
        return block.key in self.offsets

    def _edges(self, size: int, placed: set[tuple[int, int]], cores: int) -> set[int]:
        """Places beside others, and those where a border between cores is one of another block's too."""
        last = self._arena.nbytes - size
        found = {0, last}
        for at, other in placed:
            found |= {at - size, at + other}
            for border in range(cores + 1):
                found.add((at + (other - size) * border // cores) // ARENA_ALIGNMENT * ARENA_ALIGNMENT)
        return {at for at in found if 0 <= at <= last}
