"""Reduction factorisation: lanes run along a contiguous reduction axis, a tile of results is summed at once.

One sum becomes a vector of sums, one for each lane, which join at the end (rfactor: Suriana, Adams and Kamil, Parallel
Associative Reductions in Halide, CGO 2017). Examples are norms, means, distances, and products with the transpose of a
matrix. A tile of results shares its operands in registers; several chains for each result hide the latency of the
additions where the tile is small. The error bound of a sum grows with the terms of one lane (N. J. Higham, Accuracy and
Stability of Numerical Algorithms, 2nd edition, SIAM 2002, section 4.2), so it only becomes smaller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, log2, prod

from tvm.s_tir import Schedule

from edgetune.affine.expressions import mentions
from edgetune.affine.steps import step_along
from edgetune.codegen.horizontal_reduction import joins_lanes
from edgetune.codegen.horizontal_snippets import FOUR
from edgetune.graph.program import byte_size
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
from edgetune.schedule.sketches.block_analysis import BlockStage, loop_extent
from edgetune.schedule.sketches.decisions import Decisions
from edgetune.schedule.sketches.tile import lanes_for
from edgetune.schedule.tile_costs import divisors, step_cycles
from edgetune.target.core import Core
from edgetune.target.costs import Costs
from edgetune.tvm_types import BufferLoad, LoopRV, SBlockRV, TvmBuffer, Var

MAX_CHAINS = 16
MAX_BLOCK = 256


@dataclass(frozen=True)
class FactoredReduction:
    """A reduction stage whose reduction axis number `axis` is contiguous in every operand that mentions it."""

    stage: BlockStage
    axis: int
    lanes: int

    @property
    def steps(self) -> int:
        """Vector additions for one result."""
        return prod(self.stage.reduction_extents) // self.lanes


@dataclass(frozen=True)
class PartialSums:
    """Names of the blocks of a factored reduction: the vectors of sums, and their chains where there are several."""

    vectors: str
    chains: str | None


def find_factored(stage: BlockStage, native_lanes: int, weights: Sequence[TvmBuffer] = ()) -> FactoredReduction | None:
    """The axis over which lanes can run, the longest where several can; None if there is none.

    `weights` are packed when the package is built, so that any of their axes may become contiguous. The lanes of some
    types are joined by halves (see `edgetune.codegen.horizontal_reduction`).
    """
    if len(stage.block.writes) != 1 or not joins_lanes(str(stage.block.writes[0].source.ty.dtype)):
        return None
    found = [
        FactoredReduction(stage, number, lanes_for(stage.reduction_extents[number], native_lanes))
        for number in contiguous_axes(stage, weights)
    ]
    fitting = [one for one in found if one.lanes >= FEWEST_LANES]
    return max(fitting, key=lambda one: (one.lanes, stage.reduction_extents[one.axis]), default=None)


def contiguous_axes(stage: BlockStage, weights: Sequence[TvmBuffer] = ()) -> list[int]:
    """The numbers of the reduction axes along which lanes can run; `weights` as for `find_factored`."""
    loads = [load for load in loads_of(stage) if not any(load.source.same_as(one) for one in weights)]
    return [number for number, axis in enumerate(stage.reduction) if _is_contiguous(loads, axis.var)]


def _is_contiguous(loads: Sequence[BufferLoad], variable: Var) -> bool:
    """Whether a step along `variable` moves every load that mentions it by one element, and some load does."""
    moved = False
    for load in loads:
        shape = [int(extent) for extent in load.source.ty.shape]
        used = max((place + 1 for place, extent in enumerate(shape) if extent > 1), default=1)  # no axes of one element
        indices = load.indices[:used]
        if any(mentions(index, variable) for index in indices[:-1]):
            return False
        if indices and mentions(indices[-1], variable):
            moved = True
            if step_along(indices[-1], variable) != 1:
                return False
    return moved


def factor(sch: Schedule, factored: FactoredReduction, decide: Decisions, *, chained: bool) -> PartialSums:
    """Divide the stage (at the root of `sch`) into sums per lane and their join, which keeps the stage's name.

    `chained`: each lane has several sums, "chains" of `decide`. Raises TVM's ScheduleError if the reduction is not
    known to be commutative.
    """
    spatial = len(factored.stage.spatial)
    loop = sch.get_loops(sch.get_sblock(factored.stage.name))[spatial + factored.axis]
    outer, lane = sch.split(loop, [None, factored.lanes])
    if chained:
        decide.tile(sch, f"{factored.stage.name}.chains", outer, MAX_CHAINS)
    vectors = sch.rfactor(lane, spatial)
    if not chained:
        return PartialSums(str(sch.get(vectors).name_hint), None)
    chain = sch.get_loops(vectors)[spatial + factored.axis + 1]
    chains = sch.rfactor(chain, spatial)
    return PartialSums(str(sch.get(vectors).name_hint), str(sch.get(chains).name_hint))


def tile_factored(
    sch: Schedule, factored: FactoredReduction, partial: PartialSums, decide: Decisions, core: Core
) -> LoopRV:
    """Tile the results of the join where it is computed.

    `decide` chooses, after the stage's name and a dot, the extent "tile0" .. of each spatial axis, how many tiles of
    the last axis are a "block", whose operands stay in L1 while the axis before it runs, and how many steps of the
    last reduction loop are unrolled ("unrolled"). Returns the loop around a tile.
    """
    name = factored.stage.name
    join = sch.get_sblock(name)
    if not factored.stage.spatial:
        sch.add_unit_loop(sch.get_loops(join)[0])  # around the one result
    depth = len(sch.get_loops(join)) - len(sch.get(join).iter_vars)
    results, (lane,) = own_loops(sch, join, depth)
    extents = [loop_extent(sch, loop) for loop in results]
    chained = partial.chains is not None
    decide.suggest(lambda: factored_sizes(factored, core, extents, chained=chained)[1])
    outers, inners = [], []
    for number, loop in enumerate(results):
        outer, inner = decide.tile(sch, f"{name}.tile{number}", loop, MAX_TILE)
        outers.append(outer)
        inners.append(inner)
    if len(outers) > 1:
        far, near = decide.tile(sch, f"{name}.block", outers[-1], MAX_BLOCK)
        outers = [*outers[:-2], far, outers[-2], near]
    sch.reorder(*outers, *inners, lane)
    around = depth + len(outers)
    tile = sch.get_loops(join)[around - 1]
    for block in filter(None, (partial.vectors, partial.chains)):
        sch.compute_at(sch.get_sblock(block), tile, preserve_unit_loops=True)
    if partial.chains is None:
        _sum_vectors(sch, partial.vectors, around, f"{name}.unrolled", decide)
    else:
        _sum_vectors(sch, partial.chains, around, f"{name}.unrolled", decide, chained=True)
        _join_chains(sch, partial.vectors, around)
    for loop in inners:  # the loop over lanes becomes one call
        sch.unroll(loop)
    return tile


def _sum_vectors(
    sch: Schedule, name: str, around: int, unrolled: str, decide: Decisions, *, chained: bool = False
) -> None:
    """Reductions outside, some steps of the last one unrolled, then the tile of sums in registers."""
    block = sch.get_sblock(name)
    spatial, summed = own_loops(sch, block, around)
    lane = spatial.pop(1 if chained else 0)
    slow, fast = decide.tile(sch, unrolled, summed[-1], MAX_UNROLLED)
    slowest = [*summed[:-1], slow]
    sch.reorder(*slowest, fast, *spatial, lane)
    _in_registers(sch, block, [fast, *spatial], lane)
    sch.decompose_reduction(block, slowest[0])


def _join_chains(sch: Schedule, name: str, around: int) -> None:
    """Add the chains of each vector of sums."""
    block = sch.get_sblock(name)
    (lane, *spatial), summed = own_loops(sch, block, around)
    sch.reorder(*spatial, *summed, lane)
    _in_registers(sch, block, [*spatial, *summed], lane)
    sch.decompose_reduction(block, summed[0])


def _in_registers(sch: Schedule, block: SBlockRV, unrolled: Sequence[LoopRV], lane: LoopRV) -> None:
    for loop in unrolled:
        sch.unroll(loop)
    sch.set_scope(block, 0, "local")
    sch.vectorize(lane)


def _chains(extent: int, *, chained: bool) -> list[int]:
    """Numbers of chains; a single one needs no second block, so it belongs to the other structure."""
    return (divisors(extent, MAX_CHAINS)[1:] or [1]) if chained else [1]


def factored_sizes(
    factored: FactoredReduction, core: Core, extents: Sequence[int] | None = None, *, chained: bool = True
) -> tuple[float, dict[str, int]]:
    """Predicted cycles of one vector addition, and the cheapest sizes by the names of `decide`'s choices.

    Counted are the operands that a tile shares, chains that hide latency, and the joins. `extents` are those of the
    spatial axes where the stage is computed, all of them by default. `chained` as for `factor`. Infinity and no sizes
    if no tile fits the registers.
    """
    stage = factored.stage
    lane = stage.reduction[factored.axis].var
    moving = [load for load in loads_of(stage) if any(mentions(index, lane) for index in load.indices)]
    reads = [axes_of(stage, load) for load in moving]
    long = stage.reduction_extents[factored.axis] // factored.lanes
    tiles = product(*tile_choices(extents or stage.spatial_extents))
    best = (inf, 0, dict[str, int]())
    for tile, chains in product(tiles, _chains(long, chained=chained)):
        sums = prod(tile) * chains
        operands = [prod(tile[number] for number in axes) for axes in reads]
        if sums > 1 and sums + min(operands, default=0) + OPERANDS_AHEAD > core.registers:
            continue
        loads = chains * sum(operands)
        cycles = step_cycles(core.costs, sums, loads) / sums
        cycles += _join_cycles(core.costs, factored.lanes, prod(tile), chains) / factored.steps
        if (cycles, sums) < best[:2]:
            sizes = {f"tile{number}": extent for number, extent in enumerate(tile)}
            steps = max(divisors(long // chains, steps_unrolled(sums)))
            best = (cycles, sums, sizes | {"chains": chains, "unrolled": steps})
    if not best[2]:
        return inf, {}
    sizes = best[2] | {"block": _block(factored, core, extents or stage.spatial_extents, best[2])}
    return best[0], {f"{stage.name}.{name}": size for name, size in sizes.items()}


def _join_cycles(costs: Costs, lanes: int, results: int, chains: int) -> float:
    """Cycles from the sums of one result to its store, in a tile of `results`.

    Chains are added to zero, one after another. Four vectors of lanes join at once, by nine shuffles and additions, and
    two for each halving of what is then one vector.
    """
    calls = -(-results // FOUR)
    joins = 2 * log2(lanes) if results == 1 else calls * (9 + 2 * log2(lanes / FOUR)) / results
    return (joins + 1) * costs.operation + (chains + 1 if chains > 1 else 0)


def _block(factored: FactoredReduction, core: Core, extents: Sequence[int], sizes: Mapping[str, int]) -> int:
    """Tiles of the last axis whose operands fill at most half of L1, beside those of the other axes."""
    if not extents:
        return 1
    last = len(extents) - 1
    tile = sizes[f"tile{last}"]
    read = max(byte_size((1,), str(load.source.ty.dtype)) for load in loads_of(factored.stage))
    row = read * prod(factored.stage.reduction_extents) * tile
    return max(divisors(extents[last] // tile, max(1, core.l1_bytes // 2 // row)))
