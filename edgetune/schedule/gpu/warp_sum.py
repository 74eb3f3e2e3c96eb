"""A long sum shared by the lanes of a warp, which exchange their parts: neither shared memory nor a barrier.

For products of a vector and a matrix: each warp computes one output. Weights are packed so that the sum is contiguous,
and lanes read adjacent elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod

from tvm.s_tir import Schedule

from edgetune.affine.expressions import mentions
from edgetune.schedule.gpu.design import WARP, BlockLimits, LoopSplit, Sizes, pack_dimension_last
from edgetune.schedule.sketches.block_analysis import BlockAnalysis
from edgetune.schedule.sketches.tile import Tile

_MOST_ROWS = 16
_REGISTERS = 32
_LATENCY = 600.0  # cycles of a read of device memory
_TOGETHER = 4  # reads of one thread that wait at the same time
_EXCHANGE = 5 * 30.0  # cycles of the shuffles of a warp


@dataclass(frozen=True)
class WarpSum:
    """See `Design`."""

    analysis: BlockAnalysis
    tile: Tile
    limits: BlockLimits
    name: str = "sums shared by the lanes of a warp"

    @property
    def _summed(self) -> int:
        """The number of the reduction that has more than one element."""
        return max(range(len(self.tile.anchor.reduction)), key=lambda n: self.tile.anchor.reduction_extents[n])

    @cached_property
    def choices(self) -> tuple[LoopSplit, ...]:
        """Blocks, and warps of a block."""
        return (LoopSplit("outputs", self.tile.anchor.spatial_extents[self.tile.channel], 2, _MOST_ROWS),)

    def apply(self, sch: Schedule, sizes: Sizes | None) -> None:
        """Schedule the function."""
        tile, anchor = self.tile, sch.get_sblock(self.tile.anchor.name)
        for name in (*tile.before, *tile.after[:-1]):
            sch.compute_inline(sch.get_sblock(name))
        variable = tile.anchor.reduction[self._summed].var
        packed = self.analysis.weights()
        for number, read in enumerate(tile.anchor.reads()):
            if any(read.source.same_as(weight) for weight in packed):
                along = next(place for place, item in enumerate(read.region) if mentions(item.min, variable))
                pack_dimension_last(sch, anchor, number, along, len(read.region))
        last = sch.get_sblock(tile.after[-1]) if tile.after else sch.cache_write(anchor, 0, "local")
        if tile.after:
            sch.set_scope(anchor, 0, "local")
        *others, channel = sch.get_loops(last)
        (block, row), _ = self.choices[0].split(sch, channel, sizes)
        sch.bind(sch.fuse(*others, block), "blockIdx.x")
        sch.bind(row, "threadIdx.y")
        sch.compute_at(anchor, row, preserve_unit_loops=True)
        _, lane = sch.split(sch.fuse(*sch.get_loops(anchor)[-(len(tile.anchor.reduction)) :]), [None, WARP])
        sch.bind(lane, "threadIdx.x")
        # All lanes have the sum, and the first one stores it: a test that TVM makes of a long split.
        _, first = sch.split(sch.add_unit_loop(last), [None, WARP])
        sch.bind(first, "threadIdx.x")

    def fault(self, sizes: Sizes) -> str | None:
        """Why decisions cannot work."""
        return self.limits.fault(WARP * sizes["outputs"][1], _REGISTERS, 0)

    def cycles(self, sizes: Sizes) -> float:
        """Cycles: what a lane waits for, or what four schedulers issue, and the exchange; times turns of blocks."""
        blocks, warps = sizes["outputs"]
        blocks *= prod(self.tile.anchor.spatial_extents[: self.tile.channel])
        steps = ceil(prod(self.tile.anchor.reduction_extents) / WARP)
        each = max(steps * 8 * warps / 4, _LATENCY * ceil(steps / _TOGETHER))
        held = self.limits.held(warps * WARP, 0)
        return ceil(blocks / self.limits.multiprocessors / held) * (each + _EXCHANGE + _LATENCY)

    def likely(self) -> Iterator[Sizes]:
        """All decisions."""
        yield from ({"outputs": split} for split in self.choices[0].options())


def warp_sums(analysis: BlockAnalysis, tile: Tile, limits: BlockLimits) -> Iterator[WarpSum]:
    """The design, if all operands lie along one sum whose length whole warps divide, and there is a matrix to pack."""
    anchor = tile.anchor
    extents = anchor.reduction_extents
    if sum(extent > 1 for extent in extents) != 1 or prod(extents) % WARP:
        return
    found = WarpSum(analysis, tile, limits)
    variable = anchor.reduction[found._summed].var  # noqa: SLF001 - of this file
    packed = analysis.weights()
    contiguous = weights = 0
    for read in anchor.reads():
        if any(read.source.same_as(weight) for weight in packed):
            weights += any(mentions(item.min, variable) for item in read.region)
        contiguous += mentions(read.region[-1].min, variable)
    if weights and contiguous + weights >= len(anchor.reads()):
        yield found
