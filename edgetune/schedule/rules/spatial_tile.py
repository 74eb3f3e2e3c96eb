"""Spatial tiles: lanes run along the last axis of a reduction's results; operands that lie across it are packed.

A tile of rows and vectors is summed in registers and then copied to the result. An operand whose neighbours along the
last axis are not contiguous, such as the right-hand side of A B^T, is first copied to scratch with that axis last
(packing: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, TOMS 34(3), 2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, prod

from tvm.s_tir import Schedule
from tvm.tirx import IndexMap

from edgetune.affine.expressions import mentions
from edgetune.affine.steps import steps_in_blocks
from edgetune.schedule.rules.tiling import (
    FEWEST_LANES,
    MAX_TILE,
    MAX_UNROLLED,
    OPERANDS_AHEAD,
    axes_of,
    loads_of,
    own_loops,
    steps_unrolled,
    tile_choices,
)
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of, loop_extent
from edgetune.schedule.sketches.clipped_rows import has_clipped_rows
from edgetune.schedule.sketches.decisions import Decisions
from edgetune.schedule.sketches.lane_loads import has_rows_of_terms
from edgetune.schedule.sketches.tile import lanes_for
from edgetune.schedule.tile_costs import divisors, step_cycles
from edgetune.target.core import Core
from edgetune.tvm_types import Expr, TvmBuffer

_MAX_VECTORS = 8
_FEWEST_TERMS = 4
"""Terms from which on sums in registers repay vectors that overlap: rows of three are added in memory as fast."""


@dataclass(frozen=True)
class SpatialTile:
    """A reduction stage with lanes along its last spatial axis.

    `packed` maps the number of a read of the block to the index of its region that moves to the end. `result` is the
    stage that stores a tile from registers; without one, a copy is added. `overlaps`: no vectors divide the axis, and
    the last ones of a row overlap those before (`sketches/remainders.py`).
    """

    stage: BlockStage
    lanes: int
    packed: tuple[tuple[int, int], ...]
    result: str | None = None
    overlaps: bool = False

    def shares(self, other: SpatialTile) -> bool:
        """Whether another tile packs all that this one packs, along the same axes."""
        return all(_packs(other, self.stage.block.reads[number].source, place) for number, place in self.packed)


@dataclass(frozen=True)
class TileBlocks:
    """Blocks of a spatial tile: the name of the copy of its result, and those of packed operands that it shares.

    With each packed operand comes the place of the axis that lies last in it.
    """

    result: str
    packed: tuple[tuple[str, int], ...]


def find_spatial_tile(
    stage: BlockStage,
    native_lanes: int,
    weights: Sequence[TvmBuffer] = (),
    *,
    stretched: bool = False,
    overlaps: bool = False,
) -> SpatialTile | None:
    """The spatial tile of a reduction stage; None if its last axis has no vectors, or an operand cannot be packed.

    `weights` are packed when the package is built. `stretched`: the last axis has overlapping vectors of `native_lanes`
    elements, each of them adjacent in memory. `overlaps`: the last vectors of a row may overlap those before, where
    fewer vectors then serve.
    """
    if not stage.spatial or not stage.reduction or not stage.writes_its_axes() or has_clipped_rows(stage):
        return None
    axis = stage.spatial[-1]
    lanes = lanes_for(extent_of(axis), native_lanes)
    widest = min(native_lanes, 1 << extent_of(axis).bit_length() - 1)
    overlaps = overlaps and not stretched and widest > lanes and has_rows_of_terms(stage)
    overlaps = overlaps and prod(stage.reduction_extents) >= _FEWEST_TERMS
    lanes = widest if overlaps else lanes
    if lanes < (native_lanes if stretched else FEWEST_LANES):
        return None
    packed = []
    own = [write.source for write in stage.block.writes]
    for number, region in enumerate(stage.block.reads):
        uses = [place for place, item in enumerate(region.region) if mentions(item.min, axis.var)]
        if not uses or any(region.source.same_as(buffer) for buffer in (*own, *weights)):
            continue
        last = region.region[-1].min
        if uses == [len(region.region) - 1] and steps_in_blocks(last, axis.var, lanes):
            continue
        place = region.region[uses[0]].min
        alone = place.same_as(axis.var) or (stretched and steps_in_blocks(place, axis.var, lanes))
        if len(uses) > 1 or not alone:
            return None
        packed.append((number, uses[0]))
    if overlaps and packed:
        return None
    return SpatialTile(stage, lanes, tuple(packed), overlaps=overlaps)


def stage_tiles(sch: Schedule, tiles: Sequence[SpatialTile]) -> dict[str, TileBlocks]:
    """Add the blocks of tiles (at the root of `sch`), by the names of their stages.

    These are the copies of results from registers, and packed operands. What several tiles read along the same axis is
    packed once; the first of them has it.
    """
    packed_of: dict[str, list[tuple[str, int]]] = {tile.stage.name: [] for tile in tiles}
    served: list[tuple[str, TvmBuffer]] = []
    for tile in tiles:
        block = sch.get_sblock(tile.stage.name)
        for number, place in tile.packed:
            source = tile.stage.block.reads[number].source
            if any(name == tile.stage.name and source.same_as(one) for name, one in served):
                continue
            others = [one for one in tiles if one is not tile and _packs(one, source, place)]
            readers = [one.stage.name for one in (tile, *others)]
            blocks = [sch.get_sblock(name) for name in readers]
            copied = sch.cache_read(block, number, "global", consumer_blocks=blocks)  # others read it as it is
            sch.transform_layout(block, ("read", number), _axis_last(place, len(tile.stage.block.reads[number].region)))
            packed_of[tile.stage.name].append((str(sch.get(copied).name_hint), place))
            served += [(name, source) for name in readers[1:]]
    return {tile.stage.name: TileBlocks(_result(sch, tile), tuple(packed_of[tile.stage.name])) for tile in tiles}


def _packs(tile: SpatialTile, source: TvmBuffer, place: int) -> bool:
    """Whether a tile packs all that it reads of `source` along the axis `place`."""
    reads = [number for number, region in enumerate(tile.stage.block.reads) if region.source.same_as(source)]
    return bool(reads) and all((number, place) in tile.packed for number in reads)


def _result(sch: Schedule, tile: SpatialTile) -> str:
    """Keep the sums of a tile in registers; returns the name of the block that stores them."""
    block = sch.get_sblock(tile.stage.name)
    if tile.result is not None:
        sch.set_scope(block, 0, "local")
        return tile.result
    return str(sch.get(sch.cache_write(block, 0, "local")).name_hint)


def _axis_last(place: int, rank: int) -> IndexMap:
    """The layout of a tensor of `rank` axes whose axis `place` becomes the last one."""

    def permuted(*indices: Expr) -> Sequence[Expr]:
        return [*(index for number, index in enumerate(indices) if number != place), indices[place]]

    return IndexMap.from_func(permuted, ndim=rank)


def tile_results(sch: Schedule, tile: SpatialTile, blocks: TileBlocks, decide: Decisions, core: Core) -> None:
    """Tile the copy of the result where it is computed, and sum each tile in registers.

    `decide` chooses, after the stage's name and a dot, the extent "tile0" .. of each axis but the last, the "vectors"
    of the last one, and the steps of the last reduction loop that are unrolled ("unrolled").
    """
    name = tile.stage.name
    result = sch.get_sblock(blocks.result)
    depth = len(sch.get_loops(result)) - len(sch.get(result).iter_vars)
    own, _ = own_loops(sch, result, depth)
    extents = [loop_extent(sch, loop) for loop in own]
    decide.suggest(lambda: tile_sizes(tile, core, extents)[1])
    outers, inners = [], []
    for number, loop in enumerate(own[:-1]):
        outer, inner = decide.tile(sch, f"{name}.tile{number}", loop, MAX_TILE)
        outers.append(outer)
        inners.append(inner)
    if tile.overlaps:
        together = tile_sizes(tile, core, extents)[1][f"{name}.vectors"]
        far, near, lane = sch.split(own[-1], [None, together, tile.lanes])
    else:
        vectors, lane = sch.split(own[-1], [None, tile.lanes])
        far, near = decide.tile(sch, f"{name}.vectors", vectors, _MAX_VECTORS)
    outers.insert(max(0, len(outers) - 1), far)  # a column of vectors serves all rows
    sch.reorder(*outers, *inners, near, lane)
    sch.compute_at(sch.get_sblock(name), outers[-1], preserve_unit_loops=True)
    for loop in (*inners, near):
        sch.unroll(loop)
    sch.vectorize(lane)
    _sum_tile(sch, tile, depth + len(outers), decide)


def pack(sch: Schedule, tile: SpatialTile, blocks: TileBlocks) -> None:
    """Order the loops of the packed operands: a few lines are read in turn, so that they stay in L1."""
    for name, place in blocks.packed:
        block = sch.get_sblock(name)
        own = sch.get_loops(block)[-len(sch.get(block).iter_vars) :]
        lanes = lanes_for(loop_extent(sch, own[place]), tile.lanes)
        far, near = sch.split(own[place], [None, lanes])
        sch.reorder(far, *own[place + 1 :], near)


def _sum_tile(sch: Schedule, tile: SpatialTile, around: int, decide: Decisions) -> None:
    """Reductions outside, some steps of the last one unrolled, then rows, vectors and lanes in registers."""
    block = sch.get_sblock(tile.stage.name)
    (*rows, columns), summed = own_loops(sch, block, around)
    vectors, lane = sch.split(columns, [None, tile.lanes])
    slow, fast = decide.tile(sch, f"{tile.stage.name}.unrolled", summed[-1], MAX_UNROLLED)
    slowest = [*summed[:-1], slow]
    sch.reorder(*slowest, fast, *rows, vectors, lane)
    for loop in (fast, *rows, vectors):
        sch.unroll(loop)
    sch.vectorize(lane)
    sch.decompose_reduction(block, slowest[0])


def tile_sizes(tile: SpatialTile, core: Core, extents: Sequence[int] | None = None) -> tuple[float, dict[str, int]]:
    """Predicted cycles of one vector addition, and the cheapest sizes by the names of `decide`'s choices.

    `extents` are those of the spatial axes where the stage is computed, all of them by default.
    """
    stage = tile.stage
    sizes = list(extents or stage.spatial_extents)
    reads = [axes_of(stage, load) for load in loads_of(stage)]
    packing = sum(
        core.move("turned") * prod(int(extent) for extent in stage.block.reads[number].source.ty.shape)
        for number, _ in tile.packed
    ) / max(1, stage.work // tile.lanes)
    columns = core.element_bytes * sizes[-1] * prod(stage.reduction_extents)
    far = columns > core.l1_bytes // 2
    choices = tile_choices(sizes[:-1])
    best = (inf, 0, dict[str, int]())
    vectors = -(-sizes[-1] // tile.lanes)
    together = range(1, 1 + min(_MAX_VECTORS, sizes[-1] // tile.lanes)) if tile.overlaps else None
    for chosen in product(*choices, together or divisors(vectors, _MAX_VECTORS)):
        sums = prod(chosen)
        if sums > 1 and sums + chosen[-1] + OPERANDS_AHEAD > core.registers:
            continue
        loads = sum(prod(chosen[n] for n in axes) for axes in reads)
        cycles = step_cycles(core.costs, sums, loads, chosen[-1] if far else 0) / sums + packing
        cycles *= -(-vectors // chosen[-1]) * chosen[-1] * tile.lanes / sizes[-1]
        if (cycles, sums) < best[:2]:
            steps = max(divisors(stage.reduction_extents[-1], steps_unrolled(sums)))
            rows = {f"tile{number}": extent for number, extent in enumerate(chosen[:-1])}
            best = (cycles, sums, rows | {"vectors": chosen[-1], "unrolled": steps})
    return best[0], {f"{stage.name}.{name}": size for name, size in best[2].items()}
