"""Puts lanes on a stage without a reduction, which is a whole kernel or one stage of a derived schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tvm import tirx
from tvm.s_tir import Schedule

from edgetune.affine.access import Access
from edgetune.affine.expressions import expressions, is_one, mentions
from edgetune.affine.steps import step_along
from edgetune.codegen.shuffles import steps_of_vectors
from edgetune.graph.element_type import type_of
from edgetune.schedule.rules.row_placement import move_inwards
from edgetune.schedule.sketches.block_analysis import (
    COMPUTED_ONCE,
    BlockAnalysis,
    BlockStage,
    extent_of,
    known_extent,
    loop_extent,
    stores,
)
from edgetune.schedule.sketches.choices import MOST_IN_ROW, axis_of_choice, pays_across, unroll_short_row
from edgetune.schedule.sketches.clipped_rows import CLIPPED, has_clipped_rows
from edgetune.schedule.sketches.decisions import Decisions
from edgetune.schedule.sketches.index_sets import changes_along_row, divide_row, is_known_in_phases
from edgetune.schedule.sketches.inlining import inline_all
from edgetune.schedule.sketches.joint_results import joins_an_earlier_result
from edgetune.schedule.sketches.lane_loads import calls_function, contiguous, copies_every_second, in_vectors, uniform
from edgetune.schedule.sketches.padded_vectors import has_padded_vectors
from edgetune.schedule.sketches.row_phases import divide_phases
from edgetune.schedule.sketches.runs import longest_run, split_run
from edgetune.schedule.sketches.tile import lanes_for
from edgetune.schedule.sketches.transposition import (
    COLUMN_LANES,
    axis_that_shares_columns,
    reads_columns,
    transpose,
)
from edgetune.schedule.sketches.turned_operands import turn_in_blocks, turned_stages
from edgetune.schedule.tile_costs import divisors
from edgetune.target.costs import MARGINS, Costs
from edgetune.tvm_types import BufferRegion, Expr, IterVar, LoopRV, SBlock

MAX_VECTORS = 8
_FEWEST_LANES = 4
_MOST_PHASES = 8
_MOST_PHASES_AROUND = 9  # 3 x 3
_ROWS = 8


def applies(analysis: BlockAnalysis) -> bool:
    """Whether the kernel has no reduction."""
    return not analysis.reductions


def apply_elementwise(
    sch: Schedule, analysis: BlockAnalysis, native_lanes: int, decide: Decisions, costs: Costs
) -> Schedule:
    """Schedule `sch` (untouched so far), and return it: inline, then vectorise each stage that remains.

    Stages that no reader computes again are computed for some rows of the last stage at a time, where these share few.
    Those that copy an operand in another order are computed for blocks of it.
    `decide` chooses how many vectors of the innermost loop are unrolled ("vectors").
    """
    kept = [stage.name for stage in analysis.stages if COMPUTED_ONCE in stage.block.annotations]
    turned = [] if kept else turned_stages(analysis, native_lanes)
    hidden = [stage.name for stage in analysis.stages if stage.name not in (*analysis.outputs, *kept, *turned)]
    left = {*inline_all(sch, hidden), *kept}
    sch = _by_rows(sch, analysis, kept) if kept else sch
    sch, block = turn_in_blocks(sch, analysis, turned) if turned and not left else (sch, None)
    turned = turned if block is not None else inline_all(sch, turned)
    for stage in analysis.stages:
        if stage.name in analysis.outputs and joins_an_earlier_result(sch, analysis, stage):
            continue
        if block is not None and stage.name in analysis.outputs:
            _vectorize_block(sch, stage, block, native_lanes, decide)
        elif stage.name in (*left, *turned, *analysis.outputs):
            vectorize_stage(sch, stage, native_lanes, decide, costs)
    return sch


def _by_rows(sch: Schedule, analysis: BlockAnalysis, kept: Sequence[str]) -> Schedule:
    """Compute the stages `kept` for several rows of the last stage at a time, where that repeats little work."""
    last = analysis.stages[-1]
    depth = len(last.spatial) - 1
    if depth < 1 or last.name not in analysis.outputs:
        return sch
    rows = sch.get_loops(sch.get_sblock(last.name))[depth - 1]
    sch.split(rows, [None, max(divisors(last.spatial_extents[depth - 1], _ROWS))])
    for name in reversed(kept):
        sch = move_inwards(sch, name, last.name, depth, int(MARGINS.repeated * analysis.stage(name).work))
    return sch


def _vectorize_block(
    sch: Schedule, stage: BlockStage, loops: Sequence[LoopRV], native_lanes: int, decide: Decisions
) -> None:
    """Vectors along the last of the `loops` inside a block, which includes those before it where they are one row."""
    joint = 1
    block = sch.get(sch.get_sblock(stage.name))
    most = _joint_axes(replace(stage, block=block, spatial=tuple(block.iter_vars)))
    while joint < most and known_extent(sch, loops[-joint]) == extent_of(stage.spatial[-joint]):
        joint += 1
    _lanes(sch, sch.fuse(*loops[-joint:]) if joint > 1 else loops[-1], native_lanes, decide)


def vectorize_stage(sch: Schedule, stage: BlockStage, native_lanes: int, decide: Decisions, costs: Costs) -> None:
    """Vectorise the innermost loops of a spatial stage, if adjacent elements are contiguous."""
    loops = sch.get_loops(sch.get_sblock(stage.name))[-len(stage.spatial) :] if stage.spatial else []
    if not loops or stage.reduction:
        return
    block = sch.get(sch.get_sblock(stage.name))  # into which stages before it may be inlined
    stage = replace(stage, block=block, spatial=tuple(block.iter_vars))
    if not copies_every_second(stage.block) and transpose(sch, stage, loops, native_lanes):
        return
    if _unroll_choice(sch, stage, loops, native_lanes, decide):
        return
    branches = stage.branches_along(stage.spatial[-1])
    in_blocks = native_lanes if stage.spatial_extents[-1] % native_lanes == 0 else 1
    if (branches or not contiguous(block, in_blocks)) and divide_row(sch, stage, loops[-1], native_lanes):
        return
    row = known_extent(sch, loops[-1])
    if row is None:
        return
    if branches:
        if stage.writes_its_axes() and has_padded_vectors(stage):
            _lanes(sch, loops[-1], native_lanes, decide)
        elif is_known_in_phases(stage, _factor(stage, stage.spatial[-1])):
            _split_phases(sch, stage, loops)
        return
    width = lanes_for(row, native_lanes)
    if not stage.writes_its_axes() and not (width == native_lanes and _writes_in_blocks(stage, width)):
        return
    whole = native_lanes if width == native_lanes else 1
    vectors = max(width, row // native_lanes)
    joint = _joint_axes(stage) if width < native_lanes else 1
    if width < native_lanes and uniform(block) and _nested(sch, loops):
        _lanes(sch, sch.fuse(*loops), native_lanes, decide)
    elif joint > 1 and _nested(sch, loops[-joint:]):
        _lanes(sch, sch.fuse(*loops[-joint:]), native_lanes, decide)
    elif in_vectors(block, whole) and _fills_vectors(block, row, vectors, native_lanes):
        _lanes_of_row(sch, stage, loops, native_lanes, decide)
    elif stage.writes_its_axes() and reads_columns(block, native_lanes, costs):
        _lanes_of_columns(sch, block, loops, native_lanes, decide)
    elif not pays_across(block, native_lanes) and (axis := _transposed(block)) is not None:
        _vectorize_across(sch, block, loops, axis, native_lanes)
    elif not _split_divided_row(sch, stage, block, loops, native_lanes, decide) and _nested(sch, loops):
        _unroll_row(sch, stage, loops, native_lanes)


def _unroll_row(sch: Schedule, stage: BlockStage, loops: Sequence[LoopRV], native_lanes: int) -> None:
    """Unroll a row of few elements, and with it what is left where indices divide the axes around it."""
    if 1 < loop_extent(sch, loops[-1]) <= MOST_IN_ROW and _phases_around(sch, stage, loops[:-1]):
        _unroll_phases(sch, stage, loops[:-1], loops[-1])
        sch.unroll(loops[-1])
    else:
        unroll_short_row(sch, stage.block, loops, native_lanes)


def _vectorize_across(sch: Schedule, block: SBlock, loops: Sequence[LoopRV], axis: int, native_lanes: int) -> None:
    """Lanes along an axis across the rows where a function repays the gathers, else blocks whose lines stay in L1."""
    across = lanes_for(loop_extent(sch, loops[axis]), native_lanes)
    if across == 1 or not calls_function(block):
        _transpose_in_blocks(sch, loops, axis, native_lanes)
        return
    outer, lane = sch.split(loops[axis], [None, across])
    sch.reorder(outer, *loops[axis + 1 :], lane)
    sch.vectorize(lane)


def _lanes_of_columns(
    sch: Schedule, block: SBlock, loops: Sequence[LoopRV], native_lanes: int, decide: Decisions
) -> None:
    """Vectors of columns; a short axis whose results share them is unrolled inside of the loop over vectors."""
    axis = axis_that_shares_columns(block) if _nested(sch, loops) else None
    if axis is not None:
        sch.reorder(*loops[axis + 1 :], loops[axis])
    lane = _lanes(sch, loops[-1], min(native_lanes, COLUMN_LANES), decide, 1)
    if axis is not None and lane is not None:
        sch.reorder(loops[axis], lane)
        sch.unroll(loops[axis])


def _fills_vectors(block: SBlock, row: int, vectors: int, native_lanes: int) -> bool:
    """Whether rows fill vectors, or take less time with a single one and a rest, by the function that they call.

    Rows of two or four elements fill vectors of so many, but where a function repays it, vectors run across them.
    """
    if vectors > 1:
        return not pays_across(block, native_lanes)
    return calls_function(block) and row > _FEWEST_LANES


def _unroll_choice(
    sch: Schedule, stage: BlockStage, loops: Sequence[LoopRV], native_lanes: int, decide: Decisions
) -> bool:
    """Unroll an axis whose place chooses between alternatives inside of all others, but around the lanes of a vector.

    False, and no change, where there is no such axis, or where its elements pass through functions of whole vectors
    which do not run across short rows. Compilers make vectors of alternatives that gather.
    """
    block = sch.get(sch.get_sblock(stage.name))
    axis = axis_of_choice(block)
    whole = [known_extent(sch, loop) for loop in loops] == [extent_of(one) for one in block.iter_vars]
    if axis is None or not whole or not _nested(sch, loops):
        return False
    # Parts of a row are divided where its own places decide, too: there the choice is known.
    along = axis == len(loops) - 1
    if along and calls_function(block) and pays_across(block, native_lanes):
        unroll_short_row(sch, block, loops, native_lanes)
        return True
    if calls_function(block) if along else changes_along_row(stage):
        return False
    choice, row = loops[axis], loops[-1]
    if axis < len(loops) - 1:
        sch.reorder(*loops[axis + 1 :], choice)
        vectors = in_vectors(block) and not stage.branches_along(stage.spatial[-1])
        if stage.writes_its_axes() and vectors and loop_extent(sch, row) > 1:
            lane = _lanes(sch, row, native_lanes, decide, MAX_VECTORS // loop_extent(sch, choice))
            if lane is not None:
                sch.reorder(choice, lane)
    sch.unroll(choice)
    return True


def _writes_in_blocks(stage: BlockStage, lanes: int) -> bool:
    """Whether the last index of the result moves by one element inside each vector: vectors may overlap."""
    write = stage.block.writes[0]
    return Access(write.source, [item.min for item in write.region]).follows(stage.spatial[-1].var, lanes)


def sum_rows(sch: Schedule, stage: BlockStage, native_lanes: int, decide: Decisions) -> None:
    """Add whole rows of terms to the row of results, which stay in memory, in vectors and a remainder.

    For results that no vector divides (see `has_rows_of_terms`), and for functions of the few terms of each result,
    which need not be neighbours.
    """
    block = sch.get_sblock(stage.name)
    loops = sch.get_loops(block)[-len(stage.spatial) - len(stage.reduction) :]
    row, *summed = loops[len(stage.spatial) - 1 :]
    if (known_extent(sch, row) or 1) < _FEWEST_LANES:
        return
    sch.reorder(*summed, row)
    add_row(sch, stage, native_lanes, decide, outermost=summed[0])


def add_row(sch: Schedule, stage: BlockStage, native_lanes: int, decide: Decisions, *, outermost: LoopRV) -> None:
    """Add a row of terms, the innermost loop, in vectors and a remainder; `outermost` of the loops over terms."""
    block = sch.get_sblock(stage.name)
    row = sch.get_loops(block)[-1]
    if has_clipped_rows(stage):
        sch.annotate(row, CLIPPED, native_lanes)
    elif (known_extent(sch, row) or 1) >= _FEWEST_LANES:
        _lanes(sch, row, native_lanes, decide)
    sch.decompose_reduction(block, outermost)


def _split_divided_row(
    sch: Schedule, stage: BlockStage, block: SBlock, loops: Sequence[LoopRV], native_lanes: int, decide: Decisions
) -> bool:
    """Vectors along the runs of a whole row whose indices divide it; short runs are phases if they can be."""
    whole = stage.writes_its_axes() and known_extent(sch, loops[-1]) == extent_of(block.iter_vars[-1])
    if whole and divide_phases(sch, stage, loops[-1], _factor(stage, stage.spatial[-1]), native_lanes):
        return True
    run = longest_run(block) if whole else 1
    if run <= _MOST_PHASES and _split_phases(sch, stage, loops):
        return True
    if run > 1:
        _lanes(sch, split_run(sch, block, loops[-1], run), native_lanes, decide)
    return run > 1


def _split_phases(sch: Schedule, stage: BlockStage, loops: Sequence[LoopRV]) -> bool:
    """Split the `loops` of a stage by what its indices divide their axes by, and unroll the remainders of the last one.

    Pixel shuffle, `x[c * 4 + r % 2 * 2 + s % 2, r / 2, s / 2]`, and a resize by a whole factor, `x[c, r / 2, s / 2]`,
    gather along s. With the remainders unrolled, each phase reads neighbours, and compilers interleave the phases by
    shuffles. False, and no change, where nothing divides the last axis.
    """
    factors = [_factor(stage, axis) for axis in stage.spatial]
    divided = [each for each in zip(loops, stage.spatial, factors, strict=True) if each[-1] > 1]
    whole = all(known_extent(sch, loop) == extent_of(axis) for loop, axis, _ in divided)
    if not whole or factors[-1] == 1:
        return False
    for loop, _, factor in divided:
        _, phase = sch.split(loop, [None, factor])
    sch.unroll(phase)
    return True


def _lanes_of_row(
    sch: Schedule, stage: BlockStage, loops: Sequence[LoopRV], native_lanes: int, decide: Decisions
) -> None:
    """Vectors along the last loop; what is left where indices divide the axes of the others is unrolled around lanes.

    An image in twice the size, `x[r / 2, s / 2, c]`, loads a vector once and stores it four times, and no index is
    divided any more.
    """
    *loops, row = loops
    phased = _phases_around(sch, stage, loops)
    lane = _lanes(sch, row, native_lanes, decide)
    if lane is not None and phased:
        _unroll_phases(sch, stage, loops, lane)


def _phases_around(sch: Schedule, stage: BlockStage, loops: Sequence[LoopRV]) -> bool:
    """Whether indices divide the axes of the `loops` around a row by few, and nothing else is in these."""
    whole = all(known_extent(sch, loop) == extent_of(axis) for loop, axis in zip(loops, stage.spatial, strict=False))
    return whole and 1 < prod(_factors_around(stage)) <= _MOST_PHASES_AROUND and _nested(sch, loops)


def _factors_around(stage: BlockStage) -> list[int]:
    return [_factor(stage, axis, alone=True) for axis in stage.spatial[:-1]]


def _unroll_phases(sch: Schedule, stage: BlockStage, loops: Sequence[LoopRV], lane: LoopRV) -> None:
    """Unroll what is left where indices divide the axes of the loops around a row, just around its innermost loop."""
    factors = _factors_around(stage)
    phases = [sch.split(loop, [None, factor])[1] for loop, factor in zip(loops, factors, strict=True) if factor > 1]
    around = sch.get_loops(sch.get_sblock(stage.name))
    inner = [sch.get(loop) for loop in (*phases, lane)]
    outer = [loop for loop in around if not any(sch.get(loop).same_as(one) for one in inner)]
    sch.reorder(*outer, *phases, lane)
    for phase in phases:
        sch.unroll(phase)


def _factor(stage: BlockStage, axis: IterVar, *, alone: bool = False) -> int:
    """The largest small number by which indices divide an axis, and which divides its extent; 1 where there is none.

    `alone`: by which they divide the axis itself, and not a place that is made of it, as one that wraps.
    """
    values = (node for store in stores(stage.block.body) for node in expressions(store.value))
    divisions = (node for node in values if isinstance(node, tirx.FloorDiv | tirx.FloorMod))
    found = [
        int(node.b.value)
        for node in divisions
        if isinstance(node.b, tirx.IntImm)
        and mentions(node.a, axis.var)
        and 1 < int(node.b.value) <= _MOST_PHASES
        and not (alone and not node.a.same_as(axis.var))
    ]
    return max((factor for factor in found if extent_of(axis) % factor == 0), default=1)


def _transpose_in_blocks(sch: Schedule, loops: Sequence[LoopRV], axis: int, most: int) -> None:
    """Write runs of at most `most` elements, and read along `axis` outside of them: so few lines stay in L1."""
    run, place = 1, len(loops)
    while place > axis + 1 and run < most:
        place -= 1
        extent = loop_extent(sch, loops[place])
        if run * extent > most:
            outer, inner = sch.split(loops[place], [None, lanes_for(extent, most // run)])
            sch.reorder(*loops[axis + 1 : place], outer, loops[axis], inner, *loops[place + 1 :])
            if place == len(loops) - 1:
                sch.vectorize(inner)
            return
        run *= extent
    sch.reorder(*loops[axis + 1 : place], loops[axis], *loops[place:])


def _joint_axes(stage: BlockStage) -> int:
    """How many of the last axes count as one, along which every tensor moves by neighbours or steps that vectors know.

    Or it moves along none of them. No branch depends on any but the last one.
    """
    count, axes = 1, stage.spatial
    while (
        count < len(axes)
        and not stage.branches_along(axes[-count - 1])
        and all(
            _joint_step(region, axes[-count - 1 :]) in steps_of_vectors(type_of(region.source))
            for region in (*stage.block.reads, *stage.block.writes)
        )
    ):
        count += 1
    return count


def _joint_step(region: BufferRegion, axes: Sequence[IterVar]) -> int | None:
    """See `Access.joint_step`; None for several elements at once along an axis that moves."""
    step = Access(region.source, [item.min for item in region.region]).joint_step(axes)
    moving = (item for item in region.region if any(mentions(item.min, axis.var) for axis in axes))
    return step if all(is_one(item.extent) for item in moving) else None


def _nested(sch: Schedule, loops: Sequence[LoopRV]) -> bool:
    """Whether nothing but the next loop is in each of `loops`, so that they can become one."""
    return all(isinstance(sch.get(loop).body, tirx.For) for loop in loops[:-1])


def _lanes(sch: Schedule, loop: LoopRV, native_lanes: int, decide: Decisions, most: int = MAX_VECTORS) -> LoopRV | None:
    """The widest vectors that fit the loop and a remainder (`remainders.py`), unless vectors divide it.

    At most `most` are unrolled. The result is the loop over lanes, None where no vectors fit.
    """
    extent = loop_extent(sch, loop)
    while native_lanes > extent:
        native_lanes //= 2
    width = lanes_for(extent, native_lanes)
    if width < native_lanes < extent:
        _, lane = sch.split(loop, [None, native_lanes])
        sch.vectorize(lane)
        return lane
    if width == 1:
        return None
    vectors, lane = sch.split(loop, [None, width])
    _, unrolled = decide.tile(sch, "vectors", vectors, most)
    sch.unroll(unrolled)
    sch.vectorize(lane)
    return lane


def _transposed(block: SBlock) -> int | None:
    """The axis along which every read is contiguous, while the output is not: a transposition.

    Not one just around a row that is unrolled: of its stores side by side, compilers make vectors that take turns.
    """
    for number, axis in enumerate(block.iter_vars[:-1]):
        inside = prod(extent_of(inner) for inner in block.iter_vars[number + 1 :])
        if inside == 1 or (inside <= MOST_IN_ROW and extent_of(block.iter_vars[-1]) == inside):
            return None
        reads = map(_longer_axes, block.reads)
        uses = [indices for indices in reads if any(mentions(index, axis.var) for index in indices)]
        if uses and all(
            step_along(indices[-1], axis.var) == 1 and not any(mentions(index, axis.var) for index in indices[:-1])
            for indices in uses
        ):
            return number
    return None


def _longer_axes(region: BufferRegion) -> list[Expr]:
    """The indices of a read along the axes that are longer than 1: a tensor of C x 1 x 1 is contiguous along C."""
    extents = [int(extent) for extent in region.source.shape]
    return [item.min for item, extent in zip(region.region, extents, strict=True) if extent > 1]
