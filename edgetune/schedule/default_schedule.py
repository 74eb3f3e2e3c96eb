"""Default schedules: for kernels without records, a cost model chooses the schedule; nothing is compiled or timed.

The sketches of a search make the schedule, with the sizes of `edgetune.schedule.default_sizes`. Variants come first
whose operands stay in a cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, product
from math import inf, prod

from tvm.s_tir import Schedule

from edgetune.codegen.operations import tensor_bytes
from edgetune.codegen.packing import split_packing
from edgetune.errors import KernelFailed
from edgetune.graph.written_loops import is_written
from edgetune.schedule.algorithms.schedule_text import trace_text
from edgetune.schedule.default_sizes import (
    MOST_PIXELS,
    block_note,
    block_sizes,
    row_sizes,
    rows_note,
    strip_sizes,
    tile_note,
    tile_sizes,
)
from edgetune.schedule.rules.derivation import cycles_of_largest, ranked_structures, rules_of
from edgetune.schedule.rules.factored_reduction import factored_sizes
from edgetune.schedule.sketches import elementwise
from edgetune.schedule.sketches.block_analysis import BlockAnalysis, analyse_blocks
from edgetune.schedule.sketches.decisions import Chosen
from edgetune.schedule.sketches.limits import UNLIMITED_SCRATCH, footprint
from edgetune.schedule.sketches.register_tile import MAX_ROWS
from edgetune.schedule.sketches.spaces import (
    cache_for_blocks,
    core_of,
    derived,
    fills_vectors,
    in_blocks,
    in_rows,
    kept_bytes,
    limits,
    native_lanes,
    postprocs,
    register_variants,
    rows_of,
    stages_of,
    tile_of,
    tiled,
    tiles_of,
    untouched,
)
from edgetune.schedule.sketches.tile import Tile, reads_each_once, streams_weights
from edgetune.schedule.sketches.variants import Variant
from edgetune.schedule.tile_costs import cheapest, ideal_cycles
from edgetune.target.costs import MARGINS
from edgetune.target.target import Target
from edgetune.tvm_types import PrimFunc

PLAIN = "plain loops"
"""The note where no rule has vectors."""

WRITTEN_NOTE = "loops as written: each step depends on those before it"
"""The note where a kernel has no other schedule than its own loops (see `edgetune.graph.written_loops`)."""

_LARGEST = (MAX_ROWS, MOST_PIXELS)
_SMALLER = (*((rows, MOST_PIXELS) for rows in range(MAX_ROWS - 1, 0, -1)), (1, 2), (1, 1))
"""Most rows and pixels of tiles that need less scratch for the copy of what they read."""

_WIDE = 256  # bits; vectors this wide use up a cache line in one or two steps, so lines are prefetched before each


@dataclass(frozen=True)
class Guess:
    """A schedule that a formula chose: its trace, a note for people, and its predicted share of the ideal.

    The `share` is that of the ideal cycles of the largest reduction in the cycles that the formula predicts; 0 for
    plain loops, None where there is no prediction or too little work to matter.
    """

    trace: str
    note: str
    share: float | None = None


def default_trace(
    function: PrimFunc, target: Target, scratch_limit: int = 0, *, streamed: bool = False
) -> tuple[str, str]:
    """Trace and note of `default_guess`."""
    found = default_guess(function, target, scratch_limit, streamed=streamed)
    return found.trace, found.note


def default_guess(function: PrimFunc, target: Target, scratch_limit: int = 0, *, streamed: bool = False) -> Guess:
    """The best guess of the direct algorithm.

    Scratch stays within `scratch_limit` bytes if possible. `streamed`: L2 keeps no weights from one run of the program
    to the next. Never fails: a kernel that no rule fits gets the plain loop nest, and the note says so.
    """
    sch = untouched(function)
    if is_written(function):
        return Guess(trace_text(sch.trace), WRITTEN_NOTE)
    if has_empty_tensor(function):
        return Guess(trace_text(sch.trace), "plain loops: a tensor is empty")
    found = guess(function, target, scratch_limit, streamed=streamed) or _least_scratch(function, target)
    if found is not None:
        return found
    if not finish(sch, target, UNLIMITED_SCRATCH):
        sch = untouched(function)  # weights stay as they are
    return Guess(trace_text(sch.trace), "plain loops: no schedule rule fits this kernel", 0.0)


def has_empty_tensor(function: PrimFunc) -> bool:
    """Whether some parameter has no elements: TVM's rules divide by its extents."""
    return any(int(extent) == 0 for buffer in function.params for extent in buffer.shape)


def best_guess(
    function: PrimFunc, target: Target, scratch_limit: int = 0, *, streamed: bool = False
) -> tuple[str, str] | None:
    """Trace and note of `guess`."""
    found = guess(function, target, scratch_limit, streamed=streamed)
    return None if found is None else (found.trace, found.note)


def guess(function: PrimFunc, target: Target, scratch_limit: int = 0, *, streamed: bool = False) -> Guess | None:
    """The result of `default_guess`, or None if no schedule rule fits the function within the scratch limit."""
    return next(guesses(function, target, scratch_limit, streamed=streamed), None)


def guess_within(function: PrimFunc, target: Target, scratch_limit: int, *, streamed: bool) -> Guess | None:
    """The same, and for attention the schedule with the least scratch where none fits within the limit."""
    found = guess(function, target, scratch_limit, streamed=streamed)
    return found if found is not None or rows_of(function, target) is None else _least_scratch(function, target)


def guesses(function: PrimFunc, target: Target, scratch_limit: int = 0, *, streamed: bool = False) -> Iterator[Guess]:
    """The formula's best schedule of each structure, most promising first; arguments are as for `default_guess`."""
    if has_empty_tensor(function) or is_written(function):
        return
    for sch, note, share in _candidates(function, target, scratch_limit, streamed=streamed):
        if footprint(sch.mod).within(limits(target, scratch_limit)) and finish(sch, target, scratch_limit):
            yield Guess(trace_text(sch.trace), note, share)


def _least_scratch(function: PrimFunc, target: Target) -> Guess | None:
    """The schedule with the least scratch where none has as little as is allowed, if plain loops need more.

    Of attention, as few queries as possible per block.
    """
    rows = rows_of(function, target)
    if rows is not None:
        *_, (variant, sizes) = row_sizes(rows, target)
        sch = in_rows(function, rows, variant, Chosen(sizes), target)
        return Guess(trace_text(sch.trace), rows_note(rows, sizes)) if finish(sch, target, UNLIMITED_SCRATCH) else None
    found: Guess | None = None
    least = footprint(untouched(function).mod).scratch_bytes
    allowed = limits(target, UNLIMITED_SCRATCH)
    for sch, note, share in _candidates(function, target, UNLIMITED_SCRATCH, streamed=False):
        used = footprint(sch.mod)
        if used.scratch_bytes < least and used.within(allowed) and finish(sch, target, UNLIMITED_SCRATCH):
            least, found = used.scratch_bytes, Guess(trace_text(sch.trace), note, share)
    return found


def finish(sch: Schedule, target: Target, scratch_limit: int) -> bool:
    """Whether the schedule is within the limits, and its weights can be packed when the package is built."""
    sch.enter_postproc()
    if not all(post.apply(sch) for post in postprocs(target, scratch_limit)):
        return False
    try:
        split_packing(sch.mod)
    except KernelFailed:
        return False
    return True


def _candidates(
    function: PrimFunc, target: Target, scratch_limit: int, *, streamed: bool
) -> Iterator[tuple[Schedule, str, float | None]]:
    tiles = tiles_of(function, target)
    if tiles is not None:
        for block, sizes in block_sizes(tiles, target, scratch_limit, streamed=streamed):
            with suppress(RuntimeError):  # ScheduleError, or TVM's error for a case that it does not handle
                yield in_blocks(function, tiles, block, Chosen(sizes), target), block_note(tiles, sizes), None
        return
    rows = rows_of(function, target)
    if rows is not None:
        for rows_variant, sizes in row_sizes(rows, target):
            with suppress(RuntimeError):  # as above
                yield in_rows(function, rows, rows_variant, Chosen(sizes), target), rows_note(rows, sizes), None
    found = tile_of(function, target)
    general = [] if found is not None and fills_vectors(function, found[0], target) else _derived(function, target)
    if found is None:
        yield from general
    else:
        of_tile = _tiled(function, *found, target, scratch_limit, streamed=streamed)
        yield from chain(general, of_tile) if is_factored_cheaper(function, target) else chain(of_tile, general)


def _tiled(
    function: PrimFunc, analysis: BlockAnalysis, tile: Tile, target: Target, scratch_limit: int, *, streamed: bool
) -> Iterator[tuple[Schedule, str, float | None]]:
    """One schedule for each variant and limit of a tile: that with the longest strips within the limit of scratch."""
    allowed = limits(target, scratch_limit)
    variants = ranked_variants(tile, target, streamed=streamed)
    tried: list[tuple[Variant, dict[str, int]]] = []
    smaller = _SMALLER if tile.copies else ()
    for most, variant in product((_LARGEST, *smaller), variants):
        sizes = tile_sizes(analysis, tile, variant, target, most)
        if (variant, sizes) in tried:
            continue
        tried.append((variant, sizes))
        of_vector = cheapest(analysis, tile, variant, target, [(sizes["row"], sizes["pixel"])])[0] if sizes else inf
        work = prod(tile.anchor.spatial_extents) * prod(tile.anchor.reduction_extents)
        share = _share(function, work, of_vector * work / tile.lanes, target)
        for divided in strip_sizes(tile, variant, sizes):
            with suppress(RuntimeError):  # ScheduleError, or TVM's error for a case that it does not handle
                sch = tiled(function, tile, variant, Chosen(divided), target)
                yield sch, f"register tile {tile_note(divided, tile)}", share
                if divided != sizes and footprint(sch.mod).within(allowed):
                    break  # shorter strips take no less time


def _derived(function: PrimFunc, target: Target) -> Iterator[tuple[Schedule, str, float | None]]:
    """Schedules by derivation rules, most promising first; the untouched function if it has no analysis."""
    analysis = analyse_blocks(function)
    if analysis is None:
        return
    if elementwise.applies(analysis):
        sch = untouched(function)
        with suppress(RuntimeError):  # as above
            lanes = native_lanes(function, target)
            sch = elementwise.apply_elementwise(sch, analysis, lanes, Chosen({}), target.costs)
            yield sch, "elementwise", None
        return
    stages, core = stages_of(function, analysis, target), core_of(function, target)
    predicted = _share(function, stages.largest.work, cycles_of_largest(stages, core), target)
    for structure in ranked_structures(stages, core):
        with suppress(RuntimeError):  # as above
            sch, rules = derived(function, stages, structure, Chosen({}), target), rules_of(stages, structure)
            yield sch, ", ".join(rules) or PLAIN, predicted if rules else 0.0 if target.vector_bits else None


def _share(function: PrimFunc, work: int, predicted: float, target: Target) -> float | None:
    """The share of the ideal cycles in the `predicted` ones, of a reduction with `work` terms."""
    if not MARGINS.least_cycles_of_share <= predicted < inf:
        return None
    return min(1.0, ideal_cycles(work / native_lanes(function, target), tensor_bytes(function), target) / predicted)


def is_factored_cheaper(function: PrimFunc, target: Target, form: PrimFunc | None = None) -> bool:
    """Whether a factored reduction of a function should be faster than its register tile, or than that of a `form`.

    Never where the tile fills whole vectors of the target.
    """
    direct, found = analyse_blocks(function), tile_of(form or function, target)
    if direct is None or found is None or found[1].lanes == native_lanes(function, target):
        return False
    analysis, tile = found
    heavy = stages_of(function, direct, target).heaviest
    if heavy is None:
        return False
    factored = min(factored_sizes(heavy, core_of(function, target), chained=c)[0] for c in (True, False))
    variant = ranked_variants(tile, target, streamed=False)[0]
    sizes = tile_sizes(analysis, tile, variant, target)
    of_tile = cheapest(analysis, tile, variant, target, [(sizes["row"], sizes["pixel"])])[0] if sizes else inf
    return factored / heavy.lanes * heavy.stage.work < of_tile / tile.lanes * tile.anchor.work


def ranked_variants(tile: Tile, target: Target, *, streamed: bool) -> list[Variant]:
    """Variants, most promising first: weights that fit L1 stay inside, others outside.

    If each channel has its own input, inputs are adjacent like the channels, and are read in that order.
    """
    many = tile.weight_bytes > target.l1_bytes // 2 and tile.lanes > 1 and not tile.per_channel
    wide, cache = target.vector_bits >= _WIDE, cache_for_blocks(target)
    passing = wide and reads_each_once(tile) and 0 < cache < tile.passing_bytes
    by_rows = passing and tile.weight_bytes <= cache // 2  # each streamed line is touched once, for all channels
    first = "channel" if many and not by_rows else None

    variants = register_variants(tile, target, target.l1_bytes if wide else 0, streamed=streamed)
    far = streams_weights(tile, kept_bytes(target, streamed=streamed)) and not by_rows

    def rank(variant: Variant) -> tuple[bool, bool, bool, int, bool, bool, bool, bool, bool, bool]:
        inside = (variant.order[-2:-1] == ("channel",)) != (first == "channel")
        again = far and variant.order[0] != "channel"  # uncached weights would be loaded again for each row
        outputs = variant.prefetch_outputs != (by_rows and tile.added > 0)
        return (
            "strip" in variant.order,  # it copies more elements than whole rows do
            not variant.copy_columns,
            variant.prefetch_inputs != wide,
            -variant.parts,
            not variant.fuse,
            again,
            inside,
            not variant.prefetch_weights_l1,
            outputs,
            variant.pad_rows,
        )

    return sorted(variants, key=rank)
