"""Search spaces: the designs, postprocessors and mutators of a search for a kernel, and single chosen schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

import tvm
from tvm import s_tir
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms

from edgetune.codegen.memory import SCARCE_STACK_BYTES
from edgetune.schedule.rules.derivation import Stages, Structure, derive, find_stages, structures_of
from edgetune.schedule.sketches import elementwise
from edgetune.schedule.sketches.attention_rows import VARIANTS as ROWS_VARIANTS
from edgetune.schedule.sketches.attention_rows import AttentionRows, RowsVariant, apply_rows, find_rows
from edgetune.schedule.sketches.block_analysis import BlockAnalysis, analyse_blocks, lanes_in, widest_element_bytes
from edgetune.schedule.sketches.decisions import Decisions
from edgetune.schedule.sketches.limits import FREE_SCRATCH, UNLIMITED_SCRATCH, FitsLimits, ScheduleLimits
from edgetune.schedule.sketches.reducers import with_finite_starts
from edgetune.schedule.sketches.register_tile import apply_tile
from edgetune.schedule.sketches.tile import Tile, find_tile
from edgetune.schedule.sketches.variants import Variant, variants_of
from edgetune.schedule.sketches.winograd_tile import (
    VARIANTS,
    BlockVariant,
    TransformedTiles,
    apply_tiles,
    find_tiles,
    streams_filters,
)
from edgetune.target.core import Core
from edgetune.target.target import Target
from edgetune.tvm_types import IRModule, PrimFunc

AnyVariant = TypeVar("AnyVariant")
OnRefused = Callable[[], None]


def module_of(function: PrimFunc) -> IRModule:
    """The module that traces of `function` apply to: a copy of the function alone, called "main".

    It is a copy, because TVM schedules in place what it believes to be unshared, and can be wrong about that.
    """
    return tvm.IRModule({"main": s_tir.renew_defs(with_finite_starts(function)).with_attr("global_symbol", "main")})


def design_spaces(
    function: PrimFunc,
    target: Target,
    *,
    seed: int = 1,
    streamed: bool = False,
    on_refused: OnRefused = lambda: None,
) -> list[Schedule]:
    """Traced schedules of an unscheduled PrimFunc, one per structure; their sampled decisions span the space.

    `streamed`: L2 keeps no weights from one run of the program to the next. `on_refused` is called for each design that
    a rule or TVM refuses. Never empty: the last resort is the untouched function.
    """
    analysis = analyse_blocks(function)
    if analysis is None:
        return [untouched(function, seed)]
    found = [
        *_in_blocks(function, analysis, target, seed, on_refused, streamed=streamed),
        *_in_rows(function, analysis, target, seed, on_refused),
    ]
    if found:
        return found
    found = list(_tiled(function, analysis, target, seed, on_refused, streamed=streamed))
    if elementwise.applies(analysis):
        if not found:
            found.append(untouched(function, seed))
            lanes = native_lanes(function, target)
            found[0] = elementwise.apply_elementwise(found[0], analysis, lanes, Decisions(), target.costs)
        return found
    return [*found, *_derived(function, analysis, target, seed, on_refused, every=not found)] or [
        untouched(function, seed)
    ]


def postprocs(target: Target, scratch_limit: int = UNLIMITED_SCRATCH) -> list[ms.Postproc]:
    """The postprocessors of every sampled schedule: limits of `target` (and scratch bytes), then weight packing."""
    return [FitsLimits(limits(target, scratch_limit)), ms.postproc.RewriteLayout()]


def mutator_probs() -> dict[ms.Mutator, float]:
    """The mutators of evolutionary search and their probabilities."""
    return {ms.mutator.MutateTileSize(): 1.0}


def limits(target: Target, scratch_limit: int = UNLIMITED_SCRATCH) -> ScheduleLimits:
    """Limits of `target`: all vector registers except one for an operand; 16 registers of 8 bytes without vectors."""
    registers = 16 * 8 if target.vector_bits == 0 else (target.vector_registers - 1) * target.vector_bits // 8
    free = SCARCE_STACK_BYTES if target.memory_is_scarce else FREE_SCRATCH
    return ScheduleLimits(registers, scratch_limit, free_bytes=free)


def tile_of(function: PrimFunc, target: Target) -> tuple[BlockAnalysis, Tile] | None:
    """Analysis and register tile of a function; None if it has none."""
    analysis = analyse_blocks(function)
    tile = find_tile(analysis, native_lanes(function, target)) if analysis else None
    return None if analysis is None or tile is None else (analysis, tile)


def tiled(
    function: PrimFunc, tile: Tile, variant: Variant, decide: Decisions, target: Target, seed: int = 1
) -> Schedule:
    """The function scheduled as a register tile. Raises ScheduleError if the kernel does not allow the variant."""
    sch = untouched(function, seed)
    apply_tile(sch, tile, variant, decide, max(1, target.vector_registers - 2))
    return sch


def cache_for_blocks(target: Target) -> int:
    """Bytes of L2 that operands may fill: a quarter is left for the output and other streaming data."""
    return target.l2_bytes * 3 // 4


def kept_bytes(target: Target, *, streamed: bool) -> int:
    """Bytes of weights that are still cached when a kernel runs again; for `streamed` see `design_spaces`."""
    return target.l1_bytes if streamed else cache_for_blocks(target)


def register_variants(tile: Tile, target: Target, first_bytes: int, *, streamed: bool) -> tuple[Variant, ...]:
    """The variants of a register tile; `first_bytes` is the size of L1, 0 where no weights are prefetched into it."""
    kept = kept_bytes(target, streamed=streamed)
    return variants_of(tile, cache_for_blocks(target), kept, first_bytes, prefetches=target.instruction_set.prefetches)


def untouched(function: PrimFunc, seed: int = 1) -> Schedule:
    """A traced schedule of the function without any step."""
    return Schedule(module_of(function), seed=seed)


def native_lanes(function: PrimFunc, target: Target) -> int:
    """Elements of the widest type among the function's tensors in one vector register of `target`; at least 1."""
    return lanes_in(target.vector_bits, function)


def _tiled(
    function: PrimFunc, analysis: BlockAnalysis, target: Target, seed: int, on_refused: OnRefused, *, streamed: bool
) -> Iterator[Schedule]:
    tile = find_tile(analysis, native_lanes(function, target))
    if tile is None:
        return
    variants = register_variants(tile, target, target.l1_bytes, streamed=streamed)
    yield from _applicable(
        lambda variant: tiled(function, tile, variant, Decisions(), target, seed), variants, on_refused
    )


def stages_of(function: PrimFunc, analysis: BlockAnalysis, target: Target) -> Stages:
    """The stages of a function as derivation rules see them."""
    return find_stages(untouched(function), analysis, native_lanes(function, target))


def derived(
    function: PrimFunc, stages: Stages, structure: Structure, decide: Decisions, target: Target, seed: int = 1
) -> Schedule:
    """The function scheduled by derivation rules. Raises ScheduleError if the kernel does not allow the structure."""
    return derive(untouched(function, seed), stages, structure, decide, core_of(function, target))


def core_of(function: PrimFunc, target: Target) -> Core:
    """What formulas know of the target's core, for the widest type of a function."""
    return Core(
        native_lanes(function, target),
        max(2, target.vector_registers),
        target.l1_bytes,
        target.costs,
        element_bytes=widest_element_bytes(function),
        dot=next(iter(target.dot_products), None),
    )


def fills_vectors(function: PrimFunc, analysis: BlockAnalysis, target: Target) -> bool:
    """Whether the function has a register tile of whole vector registers."""
    lanes = native_lanes(function, target)
    tile = find_tile(analysis, lanes)
    return tile is not None and tile.lanes == lanes


def _derived(
    function: PrimFunc, analysis: BlockAnalysis, target: Target, seed: int, on_refused: OnRefused, *, every: bool
) -> Iterator[Schedule]:
    """Schedules by derivation rules; unless `every`, only of reductions that no whole vector of a tile computes."""
    if not every and fills_vectors(function, analysis, target):
        return
    stages = stages_of(function, analysis, target)
    if every or stages.factored:
        structures = structures_of(stages)
        yield from _applicable(
            lambda one: derived(function, stages, one, Decisions(), target, seed), structures, on_refused
        )


def tiles_of(function: PrimFunc, target: Target) -> TransformedTiles | None:
    """The transformed tiles of a function; None if it has none."""
    analysis = analyse_blocks(function)
    return find_tiles(analysis, native_lanes(function, target)) if analysis else None


def prefetches_filters(tiles: TransformedTiles, target: Target, *, streamed: bool) -> bool:
    """Whether the transformed weights of the next block are prefetched; for `streamed` see `design_spaces`."""
    kept = kept_bytes(target, streamed=streamed)
    return target.instruction_set.prefetches and streams_filters(tiles, kept)


def in_blocks(
    function: PrimFunc, tiles: TransformedTiles, variant: BlockVariant, decide: Decisions, target: Target, seed: int = 1
) -> Schedule:
    """The function scheduled as blocks of transformed tiles. Raises ScheduleError if that is not possible."""
    sch = untouched(function, seed)
    apply_tiles(sch, tiles, variant, decide, max(1, target.vector_registers - 2))
    return sch


def _in_blocks(
    function: PrimFunc, analysis: BlockAnalysis, target: Target, seed: int, on_refused: OnRefused, *, streamed: bool
) -> Iterator[Schedule]:
    tiles = find_tiles(analysis, native_lanes(function, target))
    if tiles is None:
        return
    far = prefetches_filters(tiles, target, streamed=streamed)
    variants = [replace(variant, prefetch_weights_l2=far) for variant in VARIANTS]
    yield from _applicable(
        lambda variant: in_blocks(function, tiles, variant, Decisions(), target, seed), variants, on_refused
    )


def rows_of(function: PrimFunc, target: Target) -> AttentionRows | None:
    """The parts of a function that computes attention; None for any other function."""
    analysis = analyse_blocks(function)
    return find_rows(analysis, native_lanes(function, target)) if analysis else None


def in_rows(
    function: PrimFunc, rows: AttentionRows, variant: RowsVariant, decide: Decisions, target: Target, seed: int = 1
) -> Schedule:
    """The function scheduled as blocks of queries. Raises ScheduleError if that is not possible."""
    sch = untouched(function, seed)
    apply_rows(sch, rows, variant, decide, max(1, target.vector_registers - 2))
    return sch


def _in_rows(
    function: PrimFunc, analysis: BlockAnalysis, target: Target, seed: int, on_refused: OnRefused
) -> Iterator[Schedule]:
    rows = find_rows(analysis, native_lanes(function, target))
    if rows is None:
        return
    yield from _applicable(
        lambda variant: in_rows(function, rows, variant, Decisions(), target, seed), ROWS_VARIANTS, on_refused
    )


def _applicable(
    schedule: Callable[[AnyVariant], Schedule], variants: Iterable[AnyVariant], on_refused: OnRefused
) -> Iterator[Schedule]:
    """The kernel's schedules by these variants, without those that TVM cannot apply to it."""
    for variant in variants:
        try:
            yield schedule(variant)
        except RuntimeError:  # ScheduleError, or TVM's error for a case that it does not handle
            on_refused()
