"""The programs that a search may propose for a kernel: designs, postprocessors, mutators, and single choices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import tvm
from tvm import s_tir
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms

from edgetune.config.target import Target
from edgetune.tuning.sketches import elementwise, rowwise
from edgetune.tuning.sketches.anatomy import Anatomy, anatomy_of, widest_element_bits
from edgetune.tuning.sketches.attention_rows import VARIANTS as ROWS_VARIANTS
from edgetune.tuning.sketches.attention_rows import AttentionRows, RowsVariant, apply_rows, find_rows
from edgetune.tuning.sketches.decisions import Decisions
from edgetune.tuning.sketches.limits import FitsLimits, Limits
from edgetune.tuning.sketches.register_tile import apply_tile
from edgetune.tuning.sketches.tile import Tile, find_tile
from edgetune.tuning.sketches.variants import Variant, variants_of
from edgetune.tuning.sketches.winograd_tile import (
    VARIANTS,
    BlockVariant,
    TransformedTiles,
    apply_tiles,
    find_tiles,
    streams_filters,
)
from edgetune.tuning.task import UNLIMITED_SCRATCH


def module_of(function: Any) -> Any:
    """The module that traces of `function` apply to: a copy of the function alone, called "main".

    A copy, because TVM schedules in place what it believes to be unshared, and can be wrong about that.
    """
    return tvm.IRModule({"main": s_tir.renew_defs(function).with_attr("global_symbol", "main")})


def design_spaces(function: Any, target: Target, *, seed: int = 1, streamed: bool = False) -> list[Schedule]:
    """Traced schedules of an unscheduled PrimFunc, one per structure; their sampled decisions span the space.

    `streamed`: the second cache keeps no weights from one run of the program to the next. Never empty: the last resort
    is the untouched function.
    """
    anatomy = anatomy_of(function)
    if anatomy is None:
        return [untouched(function, seed)]
    found = [
        *_in_blocks(function, anatomy, target, seed, streamed=streamed),
        *_in_rows(function, anatomy, target, seed),
    ]
    if found or (found := list(_tiled(function, anatomy, target, seed, streamed=streamed))):
        return found
    sch = untouched(function, seed)
    lanes = native_lanes(function, target)
    if elementwise.applies(anatomy):
        elementwise.apply_elementwise(sch, anatomy, lanes, Decisions())
        return [sch]
    return [rowwise.apply_rowwise(sch, anatomy, lanes, Decisions())]


def postprocs(target: Target, scratch_limit: int = UNLIMITED_SCRATCH) -> list[Any]:
    """What every sampled schedule goes through: limits of `target` (and scratch bytes), then packing of weights."""
    return [FitsLimits(limits(target, scratch_limit)), ms.postproc.RewriteLayout()]


def mutator_probs() -> dict[Any, float]:
    """How evolution changes a schedule."""
    return {ms.mutator.MutateTileSize(): 1.0}


def limits(target: Target, scratch_limit: int = UNLIMITED_SCRATCH) -> Limits:
    """Limits of `target`. One register is left for an operand; without vectors 16 registers of 8 bytes are assumed."""
    if target.vector_bits == 0:
        return Limits(16 * 8, scratch_limit)
    return Limits((target.vector_registers - 1) * target.vector_bits // 8, scratch_limit)


def tile_of(function: Any, target: Target) -> tuple[Anatomy, Tile] | None:
    """Anatomy and register tile of a function, None if it has none."""
    anatomy = anatomy_of(function)
    tile = find_tile(anatomy, native_lanes(function, target)) if anatomy else None
    return None if anatomy is None or tile is None else (anatomy, tile)


def tiled(function: Any, tile: Tile, variant: Variant, decide: Decisions, target: Target, seed: int = 1) -> Schedule:
    """The function scheduled as a register tile. Raises ScheduleError where the kernel does not allow the variant."""
    sch = untouched(function, seed)
    apply_tile(sch, tile, variant, decide, max(1, target.vector_registers - 2))
    return sch


def cache_for_blocks(target: Target) -> int:
    """Bytes of the second cache that operands may fill: a quarter is left for the output and what else passes by."""
    return target.l2_bytes * 3 // 4


def kept_bytes(target: Target, *, streamed: bool) -> int:
    """Bytes of weights that are still in a cache when a kernel runs again; see `design_spaces` for `streamed`."""
    return target.l1_bytes if streamed else cache_for_blocks(target)


def untouched(function: Any, seed: int = 1) -> Schedule:
    """A traced schedule of the function with nothing done to it."""
    return Schedule(module_of(function), seed=seed)


def native_lanes(function: Any, target: Target) -> int:
    """Elements of the widest type among the function's tensors in one vector register of `target`; at least 1."""
    return max(1, target.vector_bits // widest_element_bits(function))


def _tiled(function: Any, anatomy: Anatomy, target: Target, seed: int, *, streamed: bool) -> Iterator[Schedule]:
    tile = find_tile(anatomy, native_lanes(function, target))
    if tile is None:
        return
    for variant in variants_of(tile, cache_for_blocks(target), kept_bytes(target, streamed=streamed), target.l1_bytes):
        try:
            yield tiled(function, tile, variant, Decisions(), target, seed)
        except RuntimeError:  # ScheduleError, or what TVM raises for a case that it forgot
            continue  # TVM refuses this structure for this kernel


def tiles_of(function: Any, target: Target) -> TransformedTiles | None:
    """The transformed tiles of a function, None if it has none."""
    anatomy = anatomy_of(function)
    return find_tiles(anatomy, native_lanes(function, target)) if anatomy else None


def in_blocks(
    function: Any, tiles: TransformedTiles, variant: BlockVariant, decide: Decisions, target: Target, seed: int = 1
) -> Schedule:
    """The function scheduled as blocks of transformed tiles. Raises ScheduleError where that is not possible."""
    sch = untouched(function, seed)
    apply_tiles(sch, tiles, variant, decide, max(1, target.vector_registers - 2))
    return sch


def _in_blocks(function: Any, anatomy: Anatomy, target: Target, seed: int, *, streamed: bool) -> Iterator[Schedule]:
    tiles = find_tiles(anatomy, native_lanes(function, target))
    if tiles is None:
        return
    far = streams_filters(tiles, kept_bytes(target, streamed=streamed))
    for variant in (replace(v, prefetch=far) for v in VARIANTS):
        try:
            yield in_blocks(function, tiles, variant, Decisions(), target, seed)
        except RuntimeError:  # ScheduleError, or what TVM raises for a case that it forgot
            continue


def rows_of(function: Any, target: Target) -> AttentionRows | None:
    """The parts of a function that computes attention, None of any other."""
    anatomy = anatomy_of(function)
    return find_rows(anatomy, native_lanes(function, target)) if anatomy else None


def in_rows(
    function: Any, rows: AttentionRows, variant: RowsVariant, decide: Decisions, target: Target, seed: int = 1
) -> Schedule:
    """The function scheduled as blocks of queries. Raises ScheduleError where that is not possible."""
    sch = untouched(function, seed)
    apply_rows(sch, rows, variant, decide, max(1, target.vector_registers - 2))
    return sch


def _in_rows(function: Any, anatomy: Anatomy, target: Target, seed: int) -> Iterator[Schedule]:
    rows = find_rows(anatomy, native_lanes(function, target))
    if rows is None:
        return
    for variant in ROWS_VARIANTS:
        try:
            yield in_rows(function, rows, variant, Decisions(), target, seed)
        except RuntimeError:  # ScheduleError, or what TVM raises for a case that it forgot
            continue
