"""Derivation: schedules for any sequence of stages, by rules in a fixed order.

1. Inline stages that are cheap to repeat.
2. Tile the results of the largest reduction, with lanes along their last axis and packed operands; also those of all
   other reductions of equal extents, which share its lanes and packed operands, and of those that cannot be factored,
   where nothing has to be packed.
3. Factor all other reductions whose terms are contiguous: lanes run along the reduction axis.
4. Move each stage into the loops of the last one, as deep as no work is repeated, so that only a few rows are stored
   between stages; rows of a large stage that is stored once may be repeated by half. "rows" of the last stage are
   computed side by side, and share operands. Where results of reductions lie along the last axis alone, all stages
   are computed for a block of columns, one block after another. A reduction whose results are the terms of another
   one alone is computed inside that one's loops over terms.
5. Vectorise all other stages along contiguous axes; reductions that are left add rows of terms to rows of results.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf, prod

from tvm.s_tir import Schedule

from edgetune.schedule.rules.column_blocks import BLOCK, block_of_columns, common_columns, split_columns
from edgetune.schedule.rules.factored_reduction import (
    FactoredReduction,
    PartialSums,
    factor,
    factored_sizes,
    find_factored,
    tile_factored,
)
from edgetune.schedule.rules.nested_sums import find_nested, nest, order_by_rows, shares_nothing
from edgetune.schedule.rules.row_placement import (
    has_windows_along_rows,
    images_apart,
    move_inwards,
    repeated_work,
    row_cycles,
    rows_apart,
)
from edgetune.schedule.rules.spatial_tile import (
    SpatialTile,
    find_spatial_tile,
    pack,
    stage_tiles,
    tile_results,
    tile_sizes,
)
from edgetune.schedule.sketches.block_analysis import MOST_LANES, BlockAnalysis, BlockStage, analyse_blocks
from edgetune.schedule.sketches.clipped_rows import has_clipped_rows
from edgetune.schedule.sketches.decisions import Decisions
from edgetune.schedule.sketches.elementwise import add_row, sum_rows, vectorize_stage
from edgetune.schedule.sketches.inlining import cheap_to_repeat, inline_all
from edgetune.schedule.sketches.lane_loads import calls_function, has_rows_of_terms
from edgetune.schedule.sketches.tile import is_place, lanes_for
from edgetune.schedule.tile_costs import divisors
from edgetune.target.core import Core
from edgetune.tvm_types import LoopRV

ROWS = "rows"
"""Name of the decision how many rows of the last stage are computed side by side."""

MAX_ROWS = 8
_FEW = 2


@dataclass(frozen=True)
class Structure:
    """The choices that change a trace's structure.

    `factored`: reductions are factored where they can be; `chained`: with several sums for each lane; `rows`: rows in
    blocks; `spatial`: the largest reduction is a spatial tile; `columns`: other reductions are spatial tiles too;
    `blocks`: all stages for one block of columns after another.
    """

    factored: bool = True
    chained: bool = False
    rows: bool = False
    spatial: bool = False
    columns: bool = False
    blocks: bool = False


@dataclass(frozen=True)
class Stages:
    """What rules know of a kernel after cheap stages are inlined: the stages, and which reductions can be factored.

    `spatial` is the tile of the largest reduction, `columns` are those of other reductions that cannot be factored, and
    `siblings` those of others with the extents of the largest that can, but share its lanes and packed operands.
    `nested` are reductions that are computed inside another one.
    """

    inlined: tuple[str, ...]
    analysis: BlockAnalysis
    factored: tuple[FactoredReduction, ...]
    spatial: SpatialTile | None
    columns: tuple[SpatialTile, ...]
    siblings: tuple[SpatialTile, ...]
    lanes: int
    nested: Mapping[str, str]

    @property
    def largest(self) -> BlockStage:
        """The reduction with the most terms: that of the spatial tile if there is one."""
        most = max(self.analysis.reductions, key=lambda stage: stage.work)
        return most if self.spatial is None else self.spatial.stage

    @property
    def heaviest(self) -> FactoredReduction | None:
        """The factored reduction with the most terms."""
        return max(self.factored, key=lambda one: one.stage.work, default=None)

    def tiles(self, structure: Structure) -> dict[str, SpatialTile]:
        """The spatial tiles of a structure by the names of their stages."""
        largest = (self.spatial, *self.siblings) if structure.spatial and self.spatial is not None else ()
        return {tile.stage.name: tile for tile in (*largest, *(self.columns if structure.columns else ()))}

    def rows_of_terms(self, tiled: Container[str], factored: Container[str]) -> list[str]:
        """The names of the reductions that add rows of terms, where those `tiled` and `factored` do not."""
        last, alone = self.analysis.stages[-1], len(self.analysis.stages) == 1
        windows = has_windows_along_rows(self.analysis)
        return [
            stage.name
            for stage in self.analysis.reductions
            if not (stage.name in tiled or stage.name in factored or stage.name in self.nested.values())
            and (has_rows_of_terms(stage, every_second=windows) or has_clipped_rows(stage))
            and (stage is not last or len(last.spatial) > 1 or alone)  # what comes before may need its only loop
        ]

    def of(self, name: str) -> FactoredReduction | None:
        """The factored reduction called `name`."""
        return next((one for one in self.factored if one.stage.name == name), None)


def find_stages(sch: Schedule, analysis: BlockAnalysis, native_lanes: int) -> Stages:
    """The facts about a kernel that rules need; `sch` (untouched so far) is changed."""
    cheap = [s.name for s in analysis.stages if s.name not in analysis.outputs and cheap_to_repeat(analysis, s)]
    kept = inline_all(sch, cheap)
    native_lanes = min(native_lanes, analysis.attribute(MOST_LANES) or native_lanes)
    left = analyse_blocks(sch.mod["main"]) or analysis
    found = (find_factored(stage, native_lanes, left.packed()) for stage in left.reductions)
    factored = [one for one in found if one is not None]
    inlined = tuple(name for name in cheap if name not in kept)
    stretched = analysis.attribute(MOST_LANES) is not None
    ranked = left.reductions[::-1] if stretched else left.reductions  # the last of equals stores its own tile
    largest = max(ranked, key=lambda stage: stage.work)
    nested = find_nested(left.stages)
    windows = has_windows_along_rows(left)
    spatial = find_spatial_tile(largest, native_lanes, left.packed(), stretched=stretched, overlaps=windows)
    if largest.name in {*nested, *nested.values()} and has_rows_of_terms(largest) and shares_nothing(largest):
        spatial = None
    end = left.stages[-1]
    stores = left.stages[-2:-1] == (largest,) and end.work == prod(largest.spatial_extents)
    if spatial is not None and stretched and stores:
        spatial = replace(spatial, result=end.name)
    others = [one for one in left.reductions if one is not largest and one.name not in {*nested, *nested.values()}]
    tiled = (
        find_spatial_tile(stage, native_lanes, left.packed(), stretched=stretched, overlaps=windows) for stage in others
    )
    tiles = [tile for tile in tiled if tile is not None]
    alike = [tile for tile in tiles if _are_alike(tile.stage, largest)]
    names = [one.stage.name for one in factored]
    columns = tuple(tile for tile in tiles if tile.stage.name not in names and (not tile.packed or tile in alike))
    shared = [tile for tile in alike if spatial is not None and tile.shares(spatial)]
    siblings = tuple(tile for tile in shared if tile.stage.name in names)
    factored = [one for one in factored if one.stage.name not in nested.values()]
    return Stages(inlined, left, tuple(factored), spatial, columns, siblings, native_lanes, nested)


def _are_alike(one: BlockStage, other: BlockStage) -> bool:
    """Whether two reductions have results and terms of the same extents."""
    return (one.spatial_extents, one.reduction_extents) == (other.spatial_extents, other.reduction_extents)


def structures_of(stages: Stages) -> list[Structure]:
    """All structures worth searching."""
    last = stages.analysis.stages[-1]
    found = [Structure()]
    if stages.factored:
        found = [Structure(chained=chained) for chained in (True, False)]
    if stages.spatial is not None:
        found.append(Structure(spatial=True))
    if stages.columns:
        found += [replace(structure, columns=True) for structure in found]
    own = 1 if stages.spatial is None or stages.spatial.result is None else 2
    several = len(stages.analysis.stages) > own and len(last.spatial) > 0 and not stages.nested
    vectors = [one for one in found if len(found) > 1 and (stages.factored or stages.tiles(one))]
    ends = [one for one in vectors if several and _has_rows(last, stages.tiles(one))]
    if several and has_windows_along_rows(stages.analysis):
        ends += [one for one in found if one not in ends and _adds_rows(stages, one)]
    blocks = [
        one for one in found if common_columns(stages.analysis) is not None and last.name not in stages.tiles(one)
    ]
    return [
        *(replace(structure, blocks=True) for structure in blocks),
        *(replace(structure, rows=True) for structure in ends),
        *found,
    ]


def _has_rows(last: BlockStage, tiles: Mapping[str, SpatialTile]) -> bool:
    """Whether blocks of rows of the last stage can be computed one after another; lanes of tiles are no rows."""
    return not (last.reduction and last.name not in tiles) and (len(last.spatial) > 1 or not tiles)


def _adds_rows(stages: Stages, structure: Structure) -> bool:
    """Whether the last stage has rows, and it and all reductions are tiles, or add rows of terms."""
    last, tiles = stages.analysis.stages[-1], stages.tiles(structure)
    served = {*tiles, *stages.rows_of_terms(tiles, ())}
    return len(last.spatial) > 1 and all(stage.name in served for stage in stages.analysis.reductions)


def rules_of(stages: Stages, structure: Structure) -> tuple[str, ...]:
    """The rules that a structure follows, in words for people; empty for the loops as they are."""
    parts = ["row by row"] if len(stages.analysis.stages) > 1 else []
    if structure.spatial and stages.spatial is not None:
        parts.append("spatial tile of packed operands" if stages.spatial.packed else "spatial tile")
    elif stages.factored and structure.factored:
        parts.append("factored reductions")
    elif any(map(has_clipped_rows, stages.analysis.reductions)):
        parts.append("rows of terms between bounds")
    return tuple(parts)


def derive(sch: Schedule, stages: Stages, structure: Structure, decide: Decisions, core: Core) -> Schedule:
    """Schedule a copy of `sch` (untouched so far) and return it. Raises TVM's ScheduleError if a rule does not fit."""
    inline_all(sch, stages.inlined)
    tiles = stages.tiles(structure)
    blocks_of = stage_tiles(sch, list(tiles.values()))
    sums_of = _factor(sch, stages, structure, decide, core)
    last = stages.analysis.stages[-1]
    reader = blocks_of[last.name].result if last.name in tiles else last.name  # a tile is no single block at its end
    by_rows = stages.rows_of_terms(tiles, sums_of)
    depth = len(last.spatial) - (not last.reduction or structure.rows or last.name in by_rows)
    depth = max(1, depth) if structure.rows else depth
    common = common_columns(stages.analysis) if structure.blocks else None
    if common is not None:
        depth = common + 1
        decide.suggest(lambda: {BLOCK: block_of_columns(stages.analysis, stages.lanes, core.l1_bytes)})
        split_columns(sch, last, common, lanes_for(last.spatial_extents[-1], stages.lanes), decide)
    if structure.rows:
        rows = sch.get_loops(sch.get_sblock(reader))[depth - 1]
        decide.suggest(lambda: {ROWS: _rows_for(stages, depth - 1, structure, core)})
        decide.tile(sch, ROWS, rows, MAX_ROWS)
    images = 1  # whose rows are computed together
    if structure.rows and rows_apart(last.spatial_extents[depth - 1], MAX_ROWS) is None:
        images = prod(last.spatial_extents[: depth - 1])
    first_loops: dict[str, LoopRV] = {}
    for stage in reversed(stages.analysis.stages):
        sums, factored = sums_of.get(stage.name), stages.of(stage.name)
        inside = stages.nested.get(stage.name)
        moves = stage is not last and stage.name not in stages.analysis.outputs and inside is None
        # Numbers of elements are computed in whole vectors, all at once.
        moves = moves and not (is_place(stage) and stage.spatial_extents[-1] % stages.lanes)
        within = depth - images_apart(stages.analysis, stage.name, images, core.l1_bytes)
        if inside is not None:
            own = blocks_of[stage.name].result if stage.name in tiles else stage.name
            nest(sch, own, stages.analysis.stage(inside))
        if stage.name in stages.nested.values():
            first_loops[stage.name] = order_by_rows(sch, stage)
            continue
        if stage.name in tiles:
            tile, blocks = tiles[stage.name], blocks_of[stage.name]
            moves = moves and blocks.result != last.name
            sch = move_inwards(sch, blocks.result, reader, within, summed=True) if moves else sch
            tile_results(sch, tile, blocks, decide, core)
            for packed, _ in blocks.packed if moves else ():
                sch = move_inwards(sch, packed, reader, within)
            pack(sch, tile, blocks)
            continue
        if moves:
            repeated = repeated_work(stage, core.l1_bytes)
            sch = move_inwards(sch, stage.name, reader, within, repeated, summed=bool(stage.reduction))
        if sums is not None and factored is not None:
            tile_factored(sch, factored, sums, decide, core)
    for stage in stages.analysis.stages:
        if not stage.reduction:
            vectorize_stage(sch, stage, stages.lanes, decide, core.costs)
        elif stage.name in first_loops:
            add_row(sch, stage, stages.lanes, decide, outermost=first_loops[stage.name])
        elif stage.name in by_rows or (stage.name not in {*tiles, *sums_of} and _has_few_functions(stage)):
            sum_rows(sch, stage, stages.lanes, decide)
    return sch


def _has_few_functions(stage: BlockStage) -> bool:
    """Whether each result is a function of a term or two, as in the rest of a peeled sum: lanes run across results."""
    few = prod(stage.reduction_extents) <= _FEW and bool(stage.spatial) and stage.writes_its_axes()
    return few and calls_function(stage.block)


def _factor(
    sch: Schedule, stages: Stages, structure: Structure, decide: Decisions, core: Core
) -> dict[str, PartialSums]:
    """Factor what can be factored; a reduction that TVM does not know to be commutative stays as it is."""
    found = {}
    tiled = stages.tiles(structure)
    for factored in stages.factored if structure.factored else ():
        if factored.stage.name in tiled:
            continue
        decide.suggest(partial(_sizes, factored, core, chained=structure.chained))
        with suppress(RuntimeError):  # ScheduleError
            found[factored.stage.name] = factor(sch, factored, decide, chained=structure.chained)
    return found


def _sizes(factored: FactoredReduction, core: Core, *, chained: bool) -> dict[str, int]:
    return factored_sizes(factored, core, chained=chained)[1]


def _rows_for(stages: Stages, axis: int, structure: Structure, core: Core) -> int:
    """The rows that the tile of the largest reduction wants, and those that windows along rows need."""
    name, (_, sizes) = _largest(stages, structure, core)
    rows = sizes.get(f"{name}.tile{axis}", 1)
    if not has_windows_along_rows(stages.analysis):
        return rows
    extent = stages.analysis.stages[-1].spatial_extents[axis]
    if any(repeated_work(stage, core.l1_bytes) for stage in stages.analysis.stages):
        return max(divisors(extent, MAX_ROWS))
    return rows_apart(extent, MAX_ROWS, rows) or rows_apart(extent, MAX_ROWS) or rows


def _largest(stages: Stages, structure: Structure, core: Core) -> tuple[str, tuple[float, dict[str, int]]]:
    """The name of the largest reduction, its predicted cycles for one addition, and its sizes.

    Plain loops have no prediction: they count as infinitely many cycles.
    """
    largest = stages.largest
    if structure.spatial and stages.spatial is not None:
        cycles, sizes = tile_sizes(stages.spatial, core)
        return largest.name, (cycles / stages.spatial.lanes, sizes)
    factored = stages.of(largest.name)
    if factored is None and largest.name in stages.rows_of_terms((), ()) and has_windows_along_rows(stages.analysis):
        row = largest.spatial_extents[-1]
        return largest.name, (row_cycles(row, core) / row, {})
    if factored is None:
        return largest.name, (inf, {})
    cycles, sizes = factored_sizes(factored, core, chained=structure.chained)
    return largest.name, (cycles / factored.lanes, sizes)


def cycles_of_largest(stages: Stages, core: Core) -> float:
    """Predicted cycles of the largest reduction, by the cheapest structure; infinite for plain loops."""
    cycles = (_largest(stages, structure, core)[1][0] for structure in structures_of(stages))
    return min(cycles) * stages.largest.work


def cycles_of_reductions(stages: Stages, core: Core) -> float:
    """Predicted cycles of the largest reduction, of all others that can be factored, and of plain loops over terms."""
    others = (one for one in stages.factored if one.stage.name != stages.largest.name)
    factored = (
        min(factored_sizes(one, core, chained=chained)[0] for chained in (False, True)) * one.stage.work / one.lanes
        for one in others
        if not any(one.stage is tile.stage for tile in stages.siblings)
    )
    tiled = (tile_sizes(tile, core)[0] * tile.stage.work / tile.lanes for tile in stages.siblings)
    served = {stages.largest.name, *stages.nested, *stages.nested.values(), *stages.rows_of_terms((), ())}
    served |= {one.stage.name for one in stages.factored}
    served |= {one.stage.name for one in (*stages.columns, *stages.siblings)}
    plain = sum(stage.work for stage in stages.analysis.reductions if stage.name not in served)
    return cycles_of_largest(stages, core) + sum(factored) + sum(tiled) + core.costs.loop_term * plain


def has_blocks(stages: Stages, core: Core) -> bool:
    """Whether all stages can be computed for blocks of whole vectors of columns."""
    blocks = common_columns(stages.analysis) is not None
    return blocks and block_of_columns(stages.analysis, stages.lanes, core.l1_bytes) > 0


def ranked_structures(stages: Stages, core: Core) -> list[Structure]:
    """Structures, most promising first: blocks of columns or of rows, and chains where the formula finds them cheaper.

    The last resort comes last: no reduction is factored.
    """
    structures = structures_of(stages)
    in_blocks = any(one.blocks for one in structures)
    if in_blocks and not block_of_columns(stages.analysis, stages.lanes, core.l1_bytes):
        structures = [one for one in structures if not one.blocks]
    by_rows = has_windows_along_rows(stages.analysis) and any(_is_narrow(tile, core) for tile in stages.columns)

    def rank(one: Structure) -> tuple[bool, bool, bool, float, bool]:
        cycles = _largest(stages, one, core)[1][0]
        return not one.blocks, cycles == inf, not one.rows, cycles, one.columns == by_rows

    found = sorted(structures, key=rank)
    return [*found, Structure(factored=False)] if stages.factored else found


def _is_narrow(tile: SpatialTile, core: Core) -> bool:
    """Whether vectors of a tile are so narrow that whole rows of terms take less time."""
    row = tile.stage.spatial_extents[-1]
    return tile.lanes < core.lanes and row_cycles(row, core) / row < tile_sizes(tile, core)[0] / tile.lanes
