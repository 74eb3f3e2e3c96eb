"""Algorithm selection: the algorithms that a search tries for a kernel, and the one that packages use without records.

There are many overlapped tails; the cost model of register tiles selects the one worth a try. Reductions are peeled
where the formula of the rules finds it faster.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf, prod

from edgetune.affine.expressions import expressions
from edgetune.schedule.algorithms.algorithm import Algorithm
from edgetune.schedule.algorithms.catalogue import algorithm_named, algorithms_among, direct_algorithm
from edgetune.schedule.algorithms.overlapped_tail.tiles import pixel_axes
from edgetune.schedule.algorithms.schedule_text import DIRECT, LANES, PEELED, TILES, VECTORS, WIDE, WINOGRAD, size_of
from edgetune.schedule.default_schedule import (
    has_empty_tensor,
    is_factored_cheaper,
    ranked_variants,
)
from edgetune.schedule.default_sizes import cheapest_products, tile_sizes
from edgetune.schedule.rules.derivation import cycles_of_reductions, has_blocks
from edgetune.schedule.sketches.attention_rows import AttentionRows
from edgetune.schedule.sketches.block_analysis import BlockStage, analyse_blocks, stores
from edgetune.schedule.sketches.clipped_rows import has_clipped_rows
from edgetune.schedule.sketches.inlining import is_costly
from edgetune.schedule.sketches.lane_loads import calls_function
from edgetune.schedule.sketches.spaces import core_of, rows_of, stages_of, tile_of
from edgetune.schedule.sketches.variants import Variant
from edgetune.schedule.tile_costs import cheapest, divisors
from edgetune.target.costs import MARGINS, Costs
from edgetune.target.target import Target
from edgetune.tvm_types import PrimFunc

_FLOAT_BITS = 32
_FEW = 2
"""Whole tiles that are compared."""


def algorithms_of(function: PrimFunc, allowed: Collection[str], target: Target) -> list[Algorithm]:
    """The algorithms worth a search for an unscheduled PrimFunc, among those `allowed`; the direct one first."""
    winograd = algorithms_among(function, (name for name in WINOGRAD if name in allowed))
    other = form_for_odd_extents(function, allowed, target)
    dots = [*dot_algorithms(function, allowed, target), *wide_algorithms(function, allowed, target)]
    return [direct_algorithm(function), *winograd, *dots, *([] if other is None else [other])]


def dot_algorithms(function: PrimFunc, allowed: Collection[str], target: Target) -> list[Algorithm]:
    """The products of 8-bit integers by an instruction of the target, the best one first."""
    # Copies and tiles that overlap need fewer instructions: on cores that begin several at a time, they hide the same.
    counted = target.costs.one_at_a_time
    kinds = ("dot", "im2col") if counted else ("dot",)
    names = [f"{kind}_{one.data}_{one.elements}" for kind in kinds for one in target.dot_products]
    vectors = target.instruction_set.vectors
    pairs, lanes = vectors.results_of_pairs(target.vector_bits), vectors.results_of_lanes(target.vector_bits)
    names += [f"pairs_{pairs}"] if pairs else []
    names += [name for name in LANES if name.startswith(tuple(f"lanes_{one}_" for one in lanes))]
    found = list(algorithms_among(function, [name for name in names if name in allowed]))
    tiles = [f"{one.name}+{name}" for one in found if counted for name in _tiles(one.function, TILES, target)]
    return found + list(algorithms_among(function, [name for name in tiles if name in allowed]))


def wide_algorithms(function: PrimFunc, allowed: Collection[str], target: Target) -> list[Algorithm]:
    """The products of 8-bit integers in a wider type, with the same results.

    None without vectors of floats: a core then multiplies one integer as fast as one float, and converts neither.
    """
    names = [name for name in WIDE if name in allowed and target.vector_bits > _FLOAT_BITS]
    return list(algorithms_among(function, names))


def form_for_odd_extents(function: PrimFunc, allowed: Collection[str], target: Target) -> Algorithm | None:
    """The algorithm for extents that no vector divides: overlapping vectors or tiles, else peeled reductions."""
    if (rows := rows_of(function, target)) is not None:
        return _form_of_attention(function, rows, allowed, target)
    found = overlapped_tail_algorithm(function, allowed, target)
    spatial = function if found is None else found.function
    if found is not None and is_factored_cheaper(function, target, spatial):
        return None  # the channels are few: lanes run along the reduction of the function itself
    peeled = _peeled_reductions(function, allowed, target)
    if peeled is not None and is_factored_cheaper(peeled.function, target, spatial):
        return peeled
    if peeled is None or tile_of(function, target) is not None:
        return found
    return (
        peeled
        if predicted_cycles(peeled.function, target) < MARGINS.gain_of_form * predicted_cycles(spatial, target)
        else found
    )


def _form_of_attention(
    function: PrimFunc, rows: AttentionRows, allowed: Collection[str], target: Target
) -> Algorithm | None:
    """Whole vectors of keys and columns as wide as the target's, and whole tiles of queries that should be faster."""
    if has_empty_tensor(function):
        return None
    names = (name for name in VECTORS if name in allowed and size_of(name) <= target.vector_bits)
    vectors = next(iter(algorithms_among(function, names)), None)
    rows = rows if vectors is None else rows_of(vectors.function, target) or rows
    costs = {DIRECT: _cycles_of_attention(rows, target, divisors(rows.queries, target.vector_registers))}
    for name in TILES:
        if (size := size_of(name)) < rows.queries and rows.queries % size:
            repeated = -(-rows.queries // size) * size / rows.queries
            costs[name] = _cycles_of_attention(rows, target, divisors(size, size)) * repeated
    tiles = min(costs, key=lambda name: costs[name])
    forms = [] if vectors is None else [vectors.name]
    if costs[tiles] < MARGINS.gain_of_form * costs[DIRECT]:
        forms = [*(f"{name}+{tiles}" for name in forms), *([] if forms else [tiles]), *forms]
    return next(algorithms_among(function, (name for name in forms if name in allowed)), None)


def _cycles_of_attention(rows: AttentionRows, target: Target, queries: Collection[int]) -> float:
    """Predicted cycles of both products for one query of one head, in tiles of one of these numbers of `queries`."""
    (scores, _), (mixed, _) = cheapest_products(rows, target, queries)
    return scores * rows.keys / rows.key_lanes * rows.depth + mixed * rows.columns / rows.column_lanes * rows.keys


def _peeled_reductions(function: PrimFunc, allowed: Collection[str], target: Target) -> Algorithm | None:
    """The function with its reductions in whole vectors of the target and a rest."""
    name = next((name for name in PEELED if name in allowed and size_of(name) <= target.vector_bits), None)
    if name is None or has_empty_tensor(function):
        return None
    return next(algorithms_among(function, [name]), None)


def predicted_cycles(function: PrimFunc, target: Target) -> float:
    """Predicted cycles of a function under its default schedule; infinite where nothing is known of its loops."""
    analysis = analyse_blocks(function)
    if analysis is None or not analysis.reductions:
        return inf
    stages = stages_of(function, analysis, target)
    widest = stages.lanes if stages.spatial is None else stages.spatial.lanes
    lanes = max((one.lanes for one in stages.factored), default=widest)  # those of most elements
    called = sum(
        stage.work * _function(stage, target.costs) for stage in analysis.stages if calls_function(stage.block)
    )
    return cycles_of_reductions(stages, core_of(function, target)) + called / lanes


def _function(stage: BlockStage, costs: Costs) -> float:
    """Cycles of the functions that a stage calls for one vector."""
    values = (node for store in stores(stage.block.body) for node in expressions(store.value))
    return costs.function if any(map(is_costly, values)) else costs.simple_function


def overlapped_tail_algorithm(function: PrimFunc, allowed: Collection[str], target: Target) -> Algorithm | None:
    """The widest whole vectors that the target's registers hold, and whole tiles if the cost model predicts a gain."""
    if has_empty_tensor(function) or _clips_rows(function):
        return None
    names = (name for name in VECTORS if name in allowed and size_of(name) <= target.vector_bits)
    vectors = next(iter(algorithms_among(function, names)), None)
    if vectors is None:
        return next(algorithms_among(function, _tiles(function, allowed, target)), None)
    if tile_of(function, target) is None:
        cheaper = predicted_cycles(vectors.function, target) < MARGINS.gain_of_form * predicted_cycles(function, target)
        blocks = _has_blocks(vectors.function, target) and not _has_blocks(function, target)
        return vectors if cheaper or blocks else None
    tiles = (f"{vectors.name}+{name}" for name in _tiles(vectors.function, TILES, target))
    return next(algorithms_among(function, (name for name in tiles if name in allowed)), vectors)


def _clips_rows(function: PrimFunc) -> bool:
    """Whether rows of a sum begin and end where a condition does: they need no vectors that overlap."""
    analysis = analyse_blocks(function)
    return analysis is not None and any(map(has_clipped_rows, analysis.reductions))


def _has_blocks(function: PrimFunc, target: Target) -> bool:
    analysis = analyse_blocks(function)
    return analysis is not None and has_blocks(stages_of(function, analysis, target), core_of(function, target))


def _tiles(function: PrimFunc, allowed: Collection[str], target: Target) -> list[str]:
    """The name of the whole-tiles algorithm that should be fastest, if it should be faster than the function itself."""
    # A tile with more pixels is narrow, and the addresses of its rows do not fit the other registers.
    names = [name for name in TILES if name in allowed and size_of(name) <= target.vector_registers // 2]
    costs, parts = _costs(function, names, target)
    best = min(costs, key=lambda name: costs[name], default=DIRECT)
    gain = MARGINS.gain_of_form if parts == 1 else MARGINS.gain_over_parts
    return [best] if costs and costs[best] < gain * costs[DIRECT] else []


def _costs(function: PrimFunc, names: Collection[str], target: Target) -> tuple[dict[str, float], int]:
    """Predicted cycles per needed multiply-add of one vector: of the function itself, and of whole tiles.

    Covers those of `names` that the function supports; empty if the cost model does not apply to the function. The
    second result is the number of parts in which the direct algorithm sums.
    """
    found = tile_of(function, target)
    if found is None or not (axes := pixel_axes(found[1])):
        return {}, 1
    analysis, tile = found
    variant = ranked_variants(tile, target, streamed=False)[0]
    sizes = tile_sizes(analysis, tile, variant, target)
    if not sizes:
        return {}, variant.parts
    costs = {DIRECT: cheapest(analysis, tile, variant, target, [(sizes["row"], sizes["pixel"])])[0]}
    pixels = prod(tile.anchor.spatial_extents[axis] for axis in axes)
    plain = Variant(("channel", "pixel"))
    for name in names:
        size = size_of(name)
        if size < pixels and pixels % size:
            cost, _ = cheapest(analysis, tile, plain, target, [(1, size)])
            costs[name] = cost * -(-pixels // size) * size / pixels
    return costs, variant.parts


def cheapest_tiles(function: PrimFunc, vectors: Collection[str], target: Target) -> list[str]:
    """The names of the few whole-tiles algorithms that the formula finds cheapest, alone and of whole `vectors`."""
    names = [name for name in TILES if size_of(name) <= target.vector_registers // 2]
    costs, _ = _costs(function, names, target)
    found = _least(costs)
    for name in vectors:
        stretched = next(algorithms_among(function, [name]), None)
        if stretched is not None:
            costs, _ = _costs(stretched.function, names, target)
            found += [f"{name}+{tiles}" for tiles in _least(costs)]
    return found


def _least(costs: Mapping[str, float]) -> list[str]:
    return sorted((name for name in costs if name != DIRECT), key=lambda name: costs[name])[:_FEW]


def times_faster(function: PrimFunc, name: str, target: Target) -> float:
    """Predicted speed on one thread of the form for odd extents called `name`, relative to the direct algorithm."""
    if (rows := rows_of(function, target)) is not None:
        stretched = rows_of(algorithm_named(function, name).function, target) or rows
        plain, whole = (
            _cycles_of_attention(one, target, divisors(one.query_tile, target.vector_registers)) * one.queries
            for one in (rows, stretched)
        )
        return plain / whole
    if name in PEELED:
        return predicted_cycles(function, target) / predicted_cycles(algorithm_named(function, name).function, target)
    if name in TILES:
        costs, _ = _costs(function, [name], target)
        return costs[DIRECT] / costs[name]
    vectors, _, tiles = name.partition("+")
    stretched = algorithm_named(function, vectors).function
    gain = _vectors(function, target) / _vectors(stretched, target)
    return gain * (times_faster(stretched, tiles, target) if tiles else 1.0)


def _vectors(function: PrimFunc, target: Target) -> float:
    """Vectors of channels for one pixel."""
    found = tile_of(function, target)
    return 1.0 if found is None else found[1].anchor.spatial_extents[found[1].channel] / found[1].lanes
