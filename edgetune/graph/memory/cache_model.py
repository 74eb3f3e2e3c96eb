"""Cache model: estimates, call by call, which arena lines each core holds in its cache under a memory plan.

The threads that share a call take equal, consecutive parts: core number i has part number i of each block that the call
touches, and a line at a border belongs to the core after it. A call that is not shared runs on the first core. (The
model ignores that loops shared over channels have other parts, and that threads help each other.) A cache holds what
its core touched last; the tensors of a call count as touched at the same time, from begin to end. A line that another
core wrote last must be transferred from that core before it is written. A line that left the caches must come from
memory or from a shared cache. In both cases the model counts the line as missing in the core's cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from edgetune.graph.memory.live_ranges import ARENA_ALIGNMENT, Key

_CELLS = 1 << 14  # in larger arenas a cell is several lines: a part of a tensor has many


@dataclass(frozen=True)
class Caches:
    """`count` cores with a cache of `nbytes` each.

    If the cores share that cache, lines of other cores are nearer than memory. A plan then saves less, but is no worse.
    """

    count: int
    nbytes: int


@dataclass(frozen=True)
class CallTraffic:
    """A call as the caches see it: the blocks that it touches, the number of cores, and its other reads and writes.

    Each core reads all `constant_bytes`, even if the call only looks up entries of a table. The cores share
    `outside_bytes`: states, and inputs and outputs that lie outside of the arena.
    """

    blocks: tuple[Key, ...]
    cores: int
    constant_bytes: int = 0
    outside_bytes: int = 0


class CachedLines:
    """Which core touched each cell of the arena last, and when; the time is the bytes that core has touched so far."""

    def __init__(self, arena_bytes: int, caches: Caches) -> None:
        lines = -(-arena_bytes // ARENA_ALIGNMENT)
        self._cell = ARENA_ALIGNMENT * max(-(-lines // _CELLS), 1)
        cells = -(-arena_bytes // self._cell)
        self._core = np.full(cells, -1)
        self._touched = np.zeros(cells, np.int64)
        self._now = np.zeros(caches.count, np.int64)
        self._nbytes = caches.nbytes
        self._held: list[np.ndarray] = []  # by core: how many of the first n cells it holds; empty until it is needed

    def missing(self, offset: int, size: int, cores: int) -> int:
        """Bytes of a block that are missing in the caches of the `cores` that share it, each for its own part."""
        if not self._held:
            kept = self._touched > (self._now - self._nbytes)[self._core]
            own = [kept & (self._core == core) for core in range(len(self._now))]
            self._held = [np.concatenate(([0], np.cumsum(cells))) for cells in own]
        found = 0
        for core, (begin, end) in enumerate(self._parts(offset, size, cores)):
            found += end - begin - int(self._held[core][end] - self._held[core][begin])
        return found * self._cell

    def touch(self, call: CallTraffic, blocks: Sequence[tuple[int, int]]) -> None:
        """Records that the cores run `call` with these `blocks` (offset and bytes)."""
        shared = call.outside_bytes + sum(size for _, size in blocks)
        spent = call.constant_bytes + shared // call.cores
        for offset, size in blocks:
            for core, (begin, end) in enumerate(self._parts(offset, size, call.cores)):
                self._core[begin:end] = core
                self._touched[begin:end] = self._now[core] + spent * np.arange(1, end - begin + 1) // max(
                    end - begin, 1
                )
        self._now[: call.cores] += spent
        self._held = []

    def _parts(self, offset: int, size: int, cores: int) -> Iterator[tuple[int, int]]:
        borders = [(offset + size * core // cores) // self._cell for core in range(cores)]
        return pairwise([*borders, -(-(offset + size) // self._cell)])
