"""Parts: a tensor expression as several kernels of one package, where a single one would be slower.

A product beside other reductions, or beside arithmetic on an operand, whose operands are used often
(`Margins.uses_of_product`) gets a kernel of its own, and with it a register tile (`divide`). What it needs comes
before, and so does what only later stages need; what follows its elements stays with it, all else comes after. Both
operands may be one tensor, as in A^T A. It stays in one kernel if the product takes fewer cycles than passing the
tensors between from kernel to kernel (`Costs.between_kernels`), or half of them if all reductions are such products
(`Margins.of_products`): in one kernel, only one of several has a register tile.

Each group of stages that is left may be divided once more: `DIVISIONS` lists the ways, and the first that is a gain
counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.affine.expressions import expressions, is_among, is_branch, mentions
from edgetune.graph.kernels import with_scales_of
from edgetune.graph.written_loops import WRITTEN
from edgetune.rewrites.channels_last import with_channels_last
from edgetune.rewrites.copies_for_lanes import with_copies_for_lanes
from edgetune.rewrites.flipped_signs import with_flipped_signs
from edgetune.rewrites.interleaved_sums import with_interleaved_sums
from edgetune.rewrites.member_lanes import with_members_as_lanes
from edgetune.rewrites.product_lanes import with_product_lanes
from edgetune.rewrites.reordered import elements_of
from edgetune.rewrites.running_rows import running_row
from edgetune.rewrites.short_rows import with_rows_as_lanes, with_turned_rows
from edgetune.rewrites.transposed_convolution import with_phases
from edgetune.rewrites.whole_rows import with_whole_rows
from edgetune.schedule.rules.tiling import axes_of, loads_of
from edgetune.schedule.sketches.block_analysis import (
    BlockAnalysis,
    BlockStage,
    analyse_blocks,
    block_of,
    extent_of,
    statements_of,
    stores,
)
from edgetune.target.core import WIDEST, Core
from edgetune.target.costs import MARGINS
from edgetune.tvm_types import PrimFunc, Stmt, TvmBuffer, Var


@dataclass(frozen=True)
class PartOfExpression:
    """One kernel: its unscheduled function, whose parameters are the buffers `reads`, then `writes`.

    Buffers are those of the whole expression, or tensors between the parts. `name` is that of its main stage, "" for
    the whole expression.
    """

    name: str
    function: PrimFunc
    reads: tuple[TvmBuffer, ...]
    writes: tuple[TvmBuffer, ...]


def divisions_of(
    function: PrimFunc,
    outputs: Sequence[TvmBuffer],
    constants: Sequence[TvmBuffer],
    core: Core = WIDEST,
    ways: Sequence[Division] | None = None,
) -> list[list[PartOfExpression]]:
    """The parts of an unscheduled function, in the order of their calls; `outputs` and `constants` are parameters.

    `ways` are those of `DIVISIONS` that may be taken; all of them by default.

    The first division is what the conditions above decide. A second follows where there is one: the whole expression,
    whose parameters are in their order, or else its parts although few products share the tensors between them.
    """
    inputs = tuple(param for param in function.params if not is_among(param, outputs))
    whole = [PartOfExpression("", function, inputs, tuple(outputs))]
    analysis = analyse_blocks(function)
    if analysis is None:
        return [whole]
    taken = DIVISIONS if ways is None else ways
    shares = (1.0, core.margins.measured)
    decided, shared = (_groups(analysis, outputs, constants, core, share, taken) for share in shares)
    groups = decided if _is_changed(decided, analysis) else shared
    if not _is_changed(groups, analysis):
        return [whole]
    parts = [_part(function, number, groups, constants, outputs) for number in range(len(groups))]
    return [parts, whole] if groups is decided else [whole, parts]


def _is_changed(groups: Sequence[Sequence[Stmt]], analysis: BlockAnalysis) -> bool:
    """Whether the statements of kernels are more than one kernel, or others than those of the whole function."""
    blocks = [stage.block for stage in analysis.stages]
    same = all(any(block_of(one).same_as(block) for block in blocks) for group in groups for one in group)
    return len(groups) > 1 or not same


def _groups(
    analysis: BlockAnalysis,
    outputs: Sequence[TvmBuffer],
    constants: Sequence[TvmBuffer],
    core: Core,
    share: float,
    ways: Sequence[Division],
) -> list[list[Stmt]]:
    """The statements of each kernel; `share` is that of `divide`."""
    groups: list[list[Stmt]] = []
    for stages in divide(analysis.stages, core, share):
        others = [stage for stage in analysis.stages if stage not in stages]
        needed = [*outputs, *(region.source for stage in others for region in stage.reads())]
        kernels = _divided(stages, constants, needed, core, ways)
        groups += [[_statement(analysis, one) for one in kernel] for kernel in kernels]
    return _without_equal_kernels(groups, outputs)


def _without_equal_kernels(groups: Sequence[Sequence[Stmt]], outputs: Sequence[TvmBuffer]) -> list[list[Stmt]]:
    """The statements of each kernel, in the order of their calls, without those that compute an earlier tensor again.

    Two products that copy one operand into the same order bring a copy each: this is common subexpression elimination
    over kernels of one stage. Those that write one of `outputs` stay.
    """
    kept: list[list[Stmt]] = []
    stands_for: dict[TvmBuffer, TvmBuffer] = {}
    for group in groups:
        statements = [_with_buffers(one, stands_for) for one in group]
        written = _only_result(statements)
        if written is not None and not is_among(written, outputs):
            earlier = next((_only_result(one) for one in kept if _equal(statements[0], one)), None)
            if earlier is not None:
                stands_for[written] = earlier
                continue
        kept.append(statements)
    return kept


def _only_result(statements: Sequence[Stmt]) -> TvmBuffer | None:
    """The only tensor that the only stage of a kernel writes; None for other kernels."""
    if len(statements) != 1:
        return None
    writes = block_of(statements[0]).writes
    return writes[0].source if len(writes) == 1 else None


def _equal(statement: Stmt, kernel: Sequence[Stmt]) -> bool:
    """Whether a statement computes what a kernel does, from the same tensors.

    Structural equality takes tensors of a block's regions for its own, and so for equal: they are compared one by one.
    """
    if _only_result(kernel) is None or not tvm_ffi.structural_equal(statement, kernel[0]):
        return False
    ours, theirs = ([region.source for region in block_of(one).reads] for one in (statement, kernel[0]))
    return all(one.same_as(other) for one, other in zip(ours, theirs, strict=True))


def _with_buffers(statement: Stmt, stands_for: Mapping[TvmBuffer, TvmBuffer]) -> Stmt:
    """`statement` with the values of `stands_for` instead of its keys."""

    def changed(buffer: Var) -> Var:
        return next((new for old, new in stands_for.items() if buffer.same_as(old)), buffer)

    return tvm_ffi.structural_map(statement, (ir.Var, changed)) if stands_for else statement


Kernels = Sequence[Sequence[Stmt | BlockStage]]
"""Of each kernel, its new statements and the stages that stay as they are."""


class Group(NamedTuple):
    """Stages that are divided for a core, some of their buffers, and the `ways` that divide what one way leaves.

    `constants` are the buffers that are constants, `needed` those that are read elsewhere or are results.
    """

    stages: list[BlockStage]
    constants: Sequence[TvmBuffer]
    needed: Sequence[TvmBuffer]
    core: Core
    ways: Sequence[Division]


Divide = Callable[[Group], Kernels]
"""The kernels that compute a group; empty where that is no gain."""


@dataclass(frozen=True)
class Division:
    """A way to compute a group of stages by several kernels: what `apply` does, and why.

    `in_order`: steps of a kernel follow one another, so that there are few for the many threads of a GPU.
    """

    name: str
    reason: str
    apply: Divide
    in_order: bool = False


def _of_constants(apply: Callable[[list[BlockStage], Sequence[TvmBuffer], Core], Kernels]) -> Divide:
    """A way that keeps each tensor that is read elsewhere."""
    return lambda group: apply(group.stages, group.constants, group.core)


def _of_needed(apply: Callable[[list[BlockStage], Sequence[TvmBuffer], Core], Kernels]) -> Divide:
    """A way that treats constants like other tensors."""
    return lambda group: apply(group.stages, group.needed, group.core)


def _of_both(
    apply: Callable[[list[BlockStage], Sequence[TvmBuffer], Sequence[TvmBuffer], Core], Kernels],
) -> Divide:
    """A way that tells constants and tensors that are read elsewhere apart."""
    return lambda group: apply(group.stages, group.constants, group.needed, group.core)


def _and_the_rest(
    apply: Callable[
        [list[BlockStage], Sequence[TvmBuffer], Sequence[TvmBuffer], Core],
        tuple[list[list[Stmt]], list[BlockStage]] | None,
    ],
    ways: Sequence[Division],
) -> Divide:
    """A way that leaves stages for later: these are divided by one of `ways`, which are its own."""

    def divided(group: Group) -> Kernels:
        stages, constants, needed, core, _ = group
        made, rest = apply(stages, constants, needed, core) or ([], [])
        return [*made, *(_divided(rest, constants, needed, core, ways) if rest else [])]

    return divided


def _of_one_stage(apply: Callable[[BlockStage], Stmt | None]) -> Divide:
    """A way that makes a kernel of one stage; what comes before it and after it is divided by the ways there are."""

    def divided(group: Group) -> Kernels:
        stages, constants, needed, core, ways = group
        made = ((place, apply(stage)) for place, stage in enumerate(stages))
        place, own = next((one for one in made if one[1] is not None), (0, None))
        if own is None:
            return []

        def side(some: list[BlockStage], others: list[BlockStage]) -> Kernels:
            read = [*needed, *(region.source for one in others for region in one.reads())]
            return _divided(some, constants, read, core, ways) if some else []

        before, after = stages[:place], stages[place + 1 :]
        return [*side(before, stages[place:]), [own], *side(after, stages[: place + 1])]

    return divided


DIVISIONS_BY_LANES = (
    Division("product lanes", "A product needs an axis on which vectors run.", _of_constants(with_product_lanes)),
    Division(
        "interleaved sums", "Results of two to seven in a row fill no vector.", _of_constants(with_interleaved_sums)
    ),
    Division("rows as lanes", "A row shorter than a vector has lanes across rows.", _of_both(with_rows_as_lanes)),
    Division(
        "copies for lanes", "Lanes that read with gaps are loaded one by one.", _of_constants(with_copies_for_lanes)
    ),
    Division("whole rows", "An extreme is the same with its last term repeated.", _of_needed(with_whole_rows)),
    Division("turned rows", "Short rows across the lanes are read as columns.", _of_both(with_turned_rows)),
    Division("members as lanes", "A small member of a batch fills no vector.", _of_both(with_members_as_lanes)),
)
"""The ways that change which axis lanes run along."""

DIVISIONS = (
    Division("running rows", "One step for each element of a row.", _of_one_stage(running_row), in_order=True),
    Division("flipped signs", "An instruction wants bytes with a sign, or without.", _of_both(with_flipped_signs)),
    Division("transposed convolution", "Zeros between the terms of a sum take no time.", _of_both(with_phases)),
    Division(
        "channels last",
        "Windows and padding lie outside of the lanes.",
        _and_the_rest(with_channels_last, DIVISIONS_BY_LANES),
    ),
    *DIVISIONS_BY_LANES,
)
"""The ways to divide a group of stages: the first that is a gain counts."""

PARALLEL_DIVISIONS = tuple(way for way in DIVISIONS if not way.in_order)
"""Those whose kernels have work for many threads."""


def _divided(
    stages: list[BlockStage],
    constants: Sequence[TvmBuffer],
    needed: Sequence[TvmBuffer],
    core: Core,
    ways: Sequence[Division],
) -> Kernels:
    """The kernels of a group of stages by the first of `ways` that is a gain, or the group as it is."""
    kernels = (way.apply(Group(stages, constants, needed, core, ways)) for way in ways)
    return next(filter(None, kernels), [stages])


def divide(stages: Sequence[BlockStage], core: Core = WIDEST, share: float = 1.0) -> list[list[BlockStage]]:
    """Groups of stages in order of execution, each of which is one kernel; the stages as they are if none is better.

    `share`: of the time that passing elements from one kernel to another takes, which the product must take at least.
    """
    reductions = [stage for stage in stages if stage.reduction]
    if not reductions:
        return [list(stages)]
    product = max(reductions, key=lambda stage: stage.work)
    stages = _independent_first(stages, product)
    place = stages.index(product)
    kept = [one for one in stages[:place] if _only_moves(one) and _readers(one, stages) == [product]]
    ahead = _needed_by(product, stages[:place])
    computed = [one for one in ahead if not _only_moves(one)]
    if len(reductions) == 1 and not (computed and any(_is_shared(one, product) for one in ahead)):
        return [list(stages)]
    end = place + 1 if len(reductions) > 1 else len(stages)
    while end < len(stages) and _follows(product, stages[end]):
        end += 1
    own = [*kept, *stages[place:end]]
    before, after = [one for one in stages[:place] if one not in kept], list(stages[end:])
    between = _shared_elements(before, own) + _shared_elements([*before, *own], after)
    passing = share * core.costs.between_kernels * between
    if all(_shares_operands(one) for one in reductions):
        passing *= core.margins.of_products
    if product.work < max(core.least_terms, core.terms(passing)) or not _shares_operands(product):
        return [list(stages)]
    return [
        *(divide(before, core, share) if before else []),
        own,
        *(divide(after, core, share) if after else []),
    ]


def _needed_by(product: BlockStage, before: Sequence[BlockStage]) -> list[BlockStage]:
    """The stages whose results a product reads, or what it reads is made of; others only come before it."""
    needed, found = list(product.reads()), list[BlockStage]()
    for stage in reversed(before):
        if any(_is_source(needed, write.source) for write in stage.block.writes):
            found.insert(0, stage)
            needed += stage.reads()
    return found


def _independent_first(stages: Sequence[BlockStage], product: BlockStage) -> list[BlockStage]:
    """The stages with those before a product that later ones need beside it: then these may follow it at once.

    Another product stays behind it, for it is a kernel of its own anyway.
    """
    place = stages.index(product)
    made, waiting = list(product.block.writes), list[BlockStage]()
    for stage in stages[place + 1 :]:
        if _reads_one(stage, made):
            waiting.append(stage)
            made += stage.block.writes
    needed = [region for stage in waiting for region in stage.reads()]
    moved: list[BlockStage] = []
    for stage in reversed(stages[place + 1 :]):
        if stage not in waiting and any(_is_source(needed, write.source) for write in stage.block.writes):
            moved.insert(0, stage)
            needed += stage.reads()
    if any(map(_shares_operands, moved)):
        return list(stages)
    return [*stages[:place], *moved, *(stage for stage in stages[place:] if stage not in moved)]


def _reads_one(stage: BlockStage, regions: Sequence[ir.Node]) -> bool:
    return any(_is_source(regions, read.source) for read in stage.reads())


def _is_source(regions: Sequence[ir.Node], buffer: TvmBuffer) -> bool:
    return any(region.source.same_as(buffer) for region in regions)


def _is_shared(stage: BlockStage, product: BlockStage) -> bool:
    """Whether several results of a product read a stage at the same place; windows read other places."""
    made = stage.block.writes[0].source
    indices = [item.min for region in product.reads() if region.source.same_as(made) for item in region.region]
    apart = (axis for axis in product.spatial if not any(mentions(index, axis.var) for index in indices))
    return bool(indices) and any(extent_of(axis) >= MARGINS.uses_of_product for axis in apart)


def _shares_operands(stage: BlockStage) -> bool:
    """Whether each element of each tensor that a reduction reads is used often, as in a product of matrices.

    Both operands may be one tensor, as in A^T A.
    """
    reads = [region.source for region in stage.reads()]
    operands = {(str(load.source.name), *axes_of(stage, load)) for load in loads_of(stage)}
    return len(operands) > 1 and all(stage.work >= MARGINS.uses_of_product * elements_of(buffer) for buffer in reads)


def _only_moves(stage: BlockStage) -> bool:
    """Whether a stage copies elements, as padding and transpositions do, without arithmetic."""
    if stage.reduction:
        return False
    values = [store.value for store in stores(stage.block.body)]
    moved = (node for value in values for node in expressions(value) if not isinstance(node, ir.Call))
    loads = [load for load in moved if isinstance(load, ir.TensorLoad)]
    return len(loads) <= 1 and all(_is_move(value) for value in values)


def _is_move(value: ir.Expr) -> bool:
    if is_branch(value):
        return all(_is_move(side) for side in value.args[1:])
    if isinstance(value, tirx.Select):
        return _is_move(value.true_value) and _is_move(value.false_value)
    return isinstance(value, ir.TensorLoad | tirx.FloatImm | tirx.IntImm)


def _readers(stage: BlockStage, stages: Sequence[BlockStage]) -> list[BlockStage]:
    written = stage.block.writes[0].source
    return [one for one in stages if any(region.source.same_as(written) for region in one.reads())]


def _follows(product: BlockStage, stage: BlockStage) -> bool:
    """Whether a stage computes one element from each element of the product, in the same place."""
    return not stage.reduction and stage.spatial_extents == product.spatial_extents and stage.writes_its_axes()


def _shared_elements(writers: Sequence[BlockStage], readers: Sequence[BlockStage]) -> int:
    """Elements of the tensors that some of `writers` write and some of `readers` read."""
    read = [region.source for stage in readers for region in stage.reads()]
    written = [write.source for stage in writers for write in stage.block.writes]
    return sum(elements_of(buffer) for buffer in written if is_among(buffer, read))


def _statement(analysis: BlockAnalysis, stage: BlockStage | Stmt) -> Stmt:
    if not isinstance(stage, BlockStage):
        return stage
    statements = statements_of(analysis.function.body.block.body)
    return next(one for one in statements if block_of(one).same_as(stage.block))


def _part(
    function: PrimFunc,
    number: int,
    groups: Sequence[Sequence[Stmt]],
    constants: Sequence[TvmBuffer],
    outputs: Sequence[TvmBuffer],
) -> PartOfExpression:
    """The part of the statements `groups[number]`."""
    blocks = [block_of(one) for one in groups[number]]
    written = [region.source for block in blocks for region in block.writes]
    read = _unique([r.source for block in blocks for r in block.reads if not is_among(r.source, written)])
    elsewhere = [r.source for group in groups[number + 1 :] for one in group for r in block_of(one).reads]
    writes = [one for one in written if is_among(one, outputs) or is_among(one, elsewhere)]
    local = [one for one in written if not is_among(one, writes)]
    reads = [*(one for one in read if not is_among(one, constants)), *(one for one in read if is_among(one, constants))]
    body = tirx.SeqStmt(list(groups[number])) if len(groups[number]) > 1 else groups[number][0]
    root = s_tir.SBlockRealize([], True, s_tir.SBlock([], [], [], "root", body, None, local))
    whole = tirx.PrimFunc([*reads, *writes], root, function.ret_type, function.attrs)
    made = s_tir.renew_defs(with_scales_of(function, whole))
    if any(WRITTEN in block.annotations for block in blocks):
        made = made.with_attr(WRITTEN, 1)
    main = next((block for block in blocks if block.init is not None), blocks[-1])
    return PartOfExpression(str(main.name_hint), made, tuple(reads), tuple(writes))


def _unique(buffers: Sequence[TvmBuffer]) -> list[TvmBuffer]:
    found: list[TvmBuffer] = []
    for buffer in buffers:
        if not is_among(buffer, found):
            found.append(buffer)
    return found
