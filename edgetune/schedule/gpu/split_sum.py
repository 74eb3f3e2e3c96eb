"""A long sum split over the warps of a block: each thread sums a part, and the parts meet in shared memory.

For kernels with few outputs and long sums: matrix times vector, means over an image. Adjacent threads compute adjacent
outputs, so weights are read in whole lines. One barrier stands between the parts and their sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod

from tvm.s_tir import Schedule

from edgetune.schedule.gpu.design import SUM_BYTES, WARP, BlockLimits, LoopSplit, Sizes, divisors, pack_last
from edgetune.schedule.sketches.block_analysis import BlockAnalysis
from edgetune.schedule.sketches.tile import Tile

_SHORTEST = 32  # elements of a sum that several threads share
_MOST_OUTPUTS, _MOST_PARTS = 64, 64
_REGISTERS = 32
_LATENCY = 600.0  # cycles of a read of device memory
_TOGETHER = 4  # reads of one thread that wait at the same time


@dataclass(frozen=True)
class SplitSum:
    """See `Design`."""

    analysis: BlockAnalysis
    tile: Tile
    limits: BlockLimits
    name: str = "sums split over warps"

    @cached_property
    def choices(self) -> tuple[LoopSplit, ...]:
        """Blocks and threads along the outputs; steps of a thread and threads along the sum."""
        anchor = self.tile.anchor
        return (
            LoopSplit("outputs", anchor.spatial_extents[self.tile.channel], 2, _MOST_OUTPUTS),
            LoopSplit("sum", prod(anchor.reduction_extents), 2, _MOST_PARTS),
        )

    def apply(self, sch: Schedule, sizes: Sizes | None) -> None:
        """Schedule the function."""
        tile, anchor = self.tile, sch.get_sblock(self.tile.anchor.name)
        for name in (*tile.before, *tile.after[:-1]):
            sch.compute_inline(sch.get_sblock(name))
        packed = self.analysis.weights()
        for number, read in enumerate(tile.anchor.reads()):
            if any(read.source.same_as(weight) for weight in packed):
                pack_last(sch, anchor, tile.anchor, number, tile.channel)
        last = sch.get_sblock(tile.after[-1]) if tile.after else sch.cache_write(anchor, 0, "local")
        outputs, summed = self.choices
        rank = len(tile.anchor.spatial)
        *others, channel = sch.get_loops(last)
        (block, inside), (_, threads) = outputs.split(sch, channel, sizes)
        sums = sch.fuse(*sch.get_loops(anchor)[rank:])
        (_, part), (_, parts) = summed.split(sch, sums, sizes)
        partial = sch.rfactor(part, 0)
        joined = sch.get_sblock(tile.anchor.name)
        sch.set_scope(joined, 0, "local")
        sch.bind(sch.fuse(*others, block), "blockIdx.x")
        at = sch.get_loops(last)[0]
        sch.compute_at(joined, inside, preserve_unit_loops=True)
        stored = sch.cache_write(partial, 0, "local")
        sch.set_scope(stored, 0, "shared")
        sch.compute_at(stored, at, preserve_unit_loops=True)
        own = sch.get_loops(stored)[1:]
        sch.bind(own[0], "threadIdx.y")
        sch.bind(own[-1], "threadIdx.x")
        sch.compute_at(partial, own[-1], preserve_unit_loops=True)
        sch.decompose_reduction(partial, sch.get_loops(partial)[1 + len(own)])
        # All threads get to the join, and those of the first row alone write: a test that TVM makes of a long split.
        row, column = sch.split(inside, [parts, threads])
        sch.bind(row, "threadIdx.y")
        sch.bind(column, "threadIdx.x")
        sch.decompose_reduction(joined, sch.get_loops(joined)[3])

    def fault(self, sizes: Sizes) -> str | None:
        """Why decisions cannot work."""
        (_, outputs), (_, parts) = sizes["outputs"], sizes["sum"]
        return self.limits.fault(outputs * parts, _REGISTERS, SUM_BYTES * outputs * parts)

    def cycles(self, sizes: Sizes) -> float:
        """Cycles: what a thread waits for, or what four schedulers issue, and the join; times turns of blocks."""
        (blocks, outputs), (steps, parts) = sizes["outputs"], sizes["sum"]
        blocks *= prod(self.tile.anchor.spatial_extents[: self.tile.channel])
        warps = ceil(outputs * parts / WARP)
        lines = 1 + 3 * (outputs < WARP // 4)  # short runs of a line waste the rest of it
        each = max(steps * 8 * warps / 4, _LATENCY * ceil(steps / _TOGETHER)) * lines
        return ceil(blocks / self.limits.multiprocessors) * (each + 30 * parts + _LATENCY)

    def likely(self) -> Iterator[Sizes]:
        """All decisions."""
        outputs, summed = self.choices
        for first in outputs.options():
            yield from ({"outputs": first, "sum": second} for second in summed.options())


def split_sums(analysis: BlockAnalysis, tile: Tile, limits: BlockLimits) -> Iterator[SplitSum]:
    """The design, if the sum is long enough and has parts."""
    extents = tile.anchor.reduction_extents
    if prod(extents) >= _SHORTEST and len(divisors(prod(extents))) > 2:  # noqa: PLR2004  1 and itself
        yield SplitSum(analysis, tile, limits)
