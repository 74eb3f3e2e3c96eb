"""Which lines of the arena the cores hold in their caches, call by call, as far as a memory plan can tell.

Threads share a call in equal parts, so of each block that it touches a core has the part of its number; and its cache
holds what it touched last. A line that another core wrote last has to come over from there before it is written, one
that left the caches from memory or a cache that all share: here both are a line that the core lacks.
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
    """What the threads of a package run on: `count` cores, each with a cache of `nbytes` that no other one has."""

    count: int
    nbytes: int


@dataclass(frozen=True)
class Step:
    """A call as caches see it: the blocks that its threads touch, and the bytes of constants that each reads."""

    blocks: tuple[Key, ...]
    constant_bytes: int


class CachedLines:
    """Which core touched each cell of the arena last, and when; time is what a core has touched so far, in bytes."""

    def __init__(self, arena_bytes: int, caches: Caches) -> None:
        lines = -(-arena_bytes // ARENA_ALIGNMENT)
        self._cell = ARENA_ALIGNMENT * max(-(-lines // _CELLS), 1)
        cells = -(-arena_bytes // self._cell)
        self._core = np.full(cells, -1)
        self._touched = np.zeros(cells, np.int64)
        self._now = 0
        self._caches = caches

    def lacked(self, offset: int, size: int) -> int:
        """Bytes of a block that the core whose part they are does not have in its cache."""
        count = 0
        for core, part in self._parts(offset, size):
            own = self._core[part] == core
            count += own.size - int(np.count_nonzero(own & (self._touched[part] >= self._now - self._caches.nbytes)))
        return count * self._cell

    def touch(self, blocks: Sequence[tuple[int, int]], constant_bytes: int) -> None:
        """Each core touches its part of `blocks` (offset and bytes), and all of the constants."""
        self._now += constant_bytes + sum(size for _, size in blocks) // self._caches.count
        for offset, size in blocks:
            for core, part in self._parts(offset, size):
                self._core[part] = core
                self._touched[part] = self._now

    def _parts(self, offset: int, size: int) -> Iterator[tuple[int, slice]]:
        count = self._caches.count
        borders = [(offset + size * core // count) // self._cell for core in range(count)]
        borders.append(-(-(offset + size) // self._cell))
        for core, (begin, end) in enumerate(pairwise(borders)):
            yield core, slice(begin, end)
