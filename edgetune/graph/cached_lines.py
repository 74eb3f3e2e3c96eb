"""Which lines of the arena the cores hold in their caches, call by call, as far as a memory plan can tell.

The threads that share a call do so in equal parts, one behind the other, so that of each block that it touches a core
has the part of its number, and a line at a border the core behind it; a call that nobody shares is the first core's.
(Loops shared over channels have their parts elsewhere, as do threads that help others.) A cache holds what its core
touched last, tensors of a call side by side from begin to end. A line that another core wrote last has to come over
from there before it is written, one that left the caches from memory or a cache that all share: here both are a line
that the core lacks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from edgetune.graph.memory_blocks import ARENA_ALIGNMENT, Key

_CELLS = 1 << 14  # in larger arenas a cell is several lines: a tensor's part is many


@dataclass(frozen=True)
class Caches:
    """`count` cores with a cache of `nbytes` each.

    Where they share it lines of others are nearer than memory: a plan then saves less, but is no worse.
    """

    count: int
    nbytes: int


@dataclass(frozen=True)
class Step:
    """A call as caches see it: the blocks that it touches, how many cores share it, and what else they read and write.

    `constant_bytes` each core reads whole, be it that a table is only looked up; `outside_bytes`, inputs and outputs of
    the model, they share.
    """

    blocks: tuple[Key, ...]
    cores: int
    constant_bytes: int = 0
    outside_bytes: int = 0


class CachedLines:
    """Which core touched each cell of the arena last, and when; time is what that core has touched so far, in bytes."""

    def __init__(self, arena_bytes: int, caches: Caches) -> None:
        lines = -(-arena_bytes // ARENA_ALIGNMENT)
        self._cell = ARENA_ALIGNMENT * max(-(-lines // _CELLS), 1)
        cells = -(-arena_bytes // self._cell)
        self._core = np.full(cells, -1)
        self._touched = np.zeros(cells, np.int64)
        self._now = np.zeros(caches.count, np.int64)
        self._nbytes = caches.nbytes
        self._held: list[np.ndarray] = []  # by core: how many of the first n cells it holds; none: to be counted

    def lacked(self, offset: int, size: int, cores: int) -> int:
        """Bytes of a block that the one of so many `cores` whose part they are does not have in its cache."""
        if not self._held:
            kept = self._touched > (self._now - self._nbytes)[self._core]
            own = [kept & (self._core == core) for core in range(len(self._now))]
            self._held = [np.concatenate(([0], np.cumsum(cells))) for cells in own]
        found = 0
        for core, (begin, end) in enumerate(self._parts(offset, size, cores)):
            found += end - begin - int(self._held[core][end] - self._held[core][begin])
        return found * self._cell

    def touch(self, step: Step, blocks: Sequence[tuple[int, int]]) -> None:
        """Cores run a call with these `blocks` (offset and bytes)."""
        shared = step.outside_bytes + sum(size for _, size in blocks)
        spent = step.constant_bytes + shared // step.cores
        for offset, size in blocks:
            for core, (begin, end) in enumerate(self._parts(offset, size, step.cores)):
                self._core[begin:end] = core
                self._touched[begin:end] = self._now[core] + spent * np.arange(1, end - begin + 1) // max(
                    end - begin, 1
                )
        self._now[: step.cores] += spent
        self._held = []

    def _parts(self, offset: int, size: int, cores: int) -> Iterator[tuple[int, int]]:
        borders = [(offset + size * core // cores) // self._cell for core in range(cores)]
        return pairwise([*borders, -(-(offset + size) // self._cell)])
