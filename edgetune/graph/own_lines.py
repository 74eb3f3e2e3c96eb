"""Places in the arena where each thread writes over lines that the cache of its own core holds (see `cached_lines`).

A tensor best lies where an earlier one of about its size lay, with the same middle. What fits where, and what a place
for one costs those behind it, only trying tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from edgetune.graph.cached_lines import CachedLines, Caches, Step
from edgetune.graph.memory_blocks import ARENA_ALIGNMENT, Block, Key, blocks_of, owner_of
from edgetune.graph.memory_plan import MemoryPlan
from edgetune.graph.program import Program

_OTHERS = 4  # places that are tried for a block beside the first choice
_PLACED = 1 << 13  # blocks that all trials together may place: some seconds


def on_own_lines(memory: MemoryPlan, program: Program, scratch: Mapping[int, int], caches: Caches) -> MemoryPlan:
    """Return `memory`, a plan with this `scratch` by kernel, with all that has a better place moved.

    The arena stays as large as it is, and the plan where no better one is found. The first plans place tensors and
    scratch in the order of the calls, each where its cores lack the fewest bytes; those at least so large keep their
    places, a plan for each size. Then the best one is changed: one block, of those that lack most first, goes to a
    place that was less good for it, and all behind it are placed again. The same program gives the same plan.
    """
    blocks = blocks_of(program, scratch, memory.in_place)
    places = _best(
        Arena(
            blocks=tuple(sorted(blocks, key=lambda block: (block.first, -block.size, block.key))),
            nbytes=memory.arena_bytes,
            steps=tuple(steps_of(program, scratch, memory.in_place)),
            caches=caches,
        ),
        {block.key: _offset(memory, block.key) for block in blocks},
    )
    return replace(
        memory,
        offsets={buffer: places["buffer", owner_of(buffer, memory.in_place)] for buffer in memory.offsets},
        scratch_offsets={call: places["scratch", call] for call in memory.scratch_offsets},
    )


def steps_of(program: Program, scratch: Mapping[int, int], in_place: Mapping[int, int]) -> Iterator[Step]:
    """What each call touches; an argument that is a part of a tensor counts as all of it."""
    for index, call in enumerate(program.calls):
        touched = [program.buffers[argument] for argument in call.arguments]
        keys: dict[Key, None] = {
            ("buffer", owner_of(b.id, in_place)): None for b in touched if b.kind == "intermediate"
        }
        if scratch.get(call.kernel, 0) > 0:
            keys["scratch", index] = None
        yield Step(tuple(keys), sum(b.nbytes for b in touched if b.kind == "constant"))


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


def _best(arena: Arena, offsets: Mapping[Key, int]) -> Mapping[Key, int]:
    best = Placement(arena, offsets)
    left = _PLACED
    sizes = sorted({block.size for block in arena.blocks})
    for least in [*sizes[1:], float("inf")]:
        left -= len(arena.blocks)
        if left > 0:
            kept = {block.key: offsets[block.key] for block in arena.blocks if block.size >= least}
            best = min(best, Placement(arena, kept), key=lambda found: found.lacked_bytes)
    for block in sorted(arena.blocks, key=lambda block: -best.lacked[block.key]):
        index = arena.blocks.index(block)
        for offset in best.others[block.key]:
            left -= len(arena.blocks) - index
            if left > 0:
                best = min(best, best.changed(index, offset), key=lambda found: found.lacked_bytes)
    return best.offsets


class Placement:
    """Where the blocks of an arena are: `kept` from the start, all others where their cores lack the fewest bytes.

    `lacked` has the bytes that are lacked when a block is first written, and `lacked_bytes` all of them, infinite where
    there is no room for a block. `others` are the next best places for each, those `known` not sought again.
    """

    def __init__(self, arena: Arena, kept: Mapping[Key, int], known: Mapping[Key, Sequence[int]] | None = None) -> None:
        self.offsets = dict(kept)
        self.others = dict(known or {})
        self.lacked: dict[Key, int] = {}
        self._arena = arena
        self._lines = CachedLines(arena.nbytes, arena.caches)
        self.lacked_bytes = float(sum(self.lacked.values())) if self._place_all() else float("inf")

    def changed(self, index: int, offset: int) -> Placement:
        """Return another one where block `index` is at `offset`, all before it where they are, and all behind anew."""
        before = [block.key for block in self._arena.blocks[:index]]
        kept = {key: self.offsets[key] for key in before}
        kept[self._arena.blocks[index].key] = offset
        return Placement(self._arena, kept, {key: self.others[key] for key in before})

    def _place_all(self) -> bool:
        sizes = {block.key: block.size for block in self._arena.blocks}
        blocks = iter([*self._arena.blocks, None])
        block = next(blocks)
        for number, step in enumerate(self._arena.steps):
            while block is not None and block.first == number:
                if block.key not in self.others and not self._place(block):
                    return False
                self.lacked[block.key] = self._lines.lacked(self.offsets[block.key], block.size)
                block = next(blocks)
            self._lines.touch([(self.offsets[key], sizes[key]) for key in step.blocks], step.constant_bytes)
        return True

    def _place(self, block: Block) -> bool:
        """Ranks the places that are left for a block and takes the best, where it has none yet; says if it has one."""
        placed = [(other, self.offsets[other.key]) for other in self._arena.blocks if other.key in self.offsets]
        taken = [
            (at - block.size, at + other.size) for other, at in placed if other is not block and other.meets(block)
        ]
        ranked = sorted(
            (self._lines.lacked(at, block.size), at)
            for at in self._edges(block.size, {(at, other.size) for other, at in placed})
            if all(at <= before or at >= behind for before, behind in taken)
        )
        places = [at for _, at in ranked[: _OTHERS + 1]]
        if places:
            self.offsets.setdefault(block.key, places[0])
        self.others[block.key] = [at for at in places if at != self.offsets.get(block.key)]
        return block.key in self.offsets

    def _edges(self, size: int, placed: set[tuple[int, int]]) -> set[int]:
        """Places beside others, and those where a border between cores is one of another block's too."""
        last, cores = self._arena.nbytes - size, self._arena.caches.count
        found = {0, last}
        for at, other in placed:
            found |= {at - size, at + other}
            for border in range(cores + 1):
                found.add((at + (other - size) * border // cores) // ARENA_ALIGNMENT * ARENA_ALIGNMENT)
        return {at for at in found if 0 <= at <= last}
