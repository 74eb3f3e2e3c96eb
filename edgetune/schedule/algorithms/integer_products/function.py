"""Functions of algorithms for integer products: a kernel's function with other stages instead of its sum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tvm import s_tir, tirx
from tvm.s_tir import Schedule

from edgetune.affine.domain import simplified
from edgetune.affine.expressions import with_places
from edgetune.graph.added_constants import begun_at_addend
from edgetune.graph.collapsed_axes import collapse_axes
from edgetune.graph.element_type import type_of
from edgetune.graph.kernels import FREE_LAYOUTS
from edgetune.graph.reduction_stage import ReductionStage, reduction_of
from edgetune.schedule.algorithms.integer_products.product import WEIGHTS, Product, find_product
from edgetune.schedule.sketches.block_analysis import BlockAnalysis, analyse_blocks, statements_of
from edgetune.schedule.sketches.tile import COPIED_OPERAND
from edgetune.tvm_types import PrimFunc, Stmt, TvmBuffer


def product_of(function: PrimFunc) -> tuple[BlockAnalysis, Product] | None:
    """The sum of products of an unscheduled PrimFunc, in which axes of one term are left out and others joined."""
    free = [int(number) for number in (function.attrs or {}).get(FREE_LAYOUTS, [])]
    bytes_among = any(type_of(function.params[number]) == WEIGHTS for number in free)
    if not bytes_among or not isinstance(function.body, s_tir.SBlockRealize):
        return None
    collapsed = collapse_axes(_with_stages(function, _without_single_terms, function.params), free)
    analysis = analyse_blocks(collapsed)
    found = None if analysis is None else find_product(analysis)
    return None if analysis is None or found is None else (analysis, found)


def _without_single_terms(whole: ReductionStage) -> list[ReductionStage]:
    """A reduction without its axes of one term, as a window of one pixel has them; empty: it stays."""
    single = [axis for axis, extent in whole.summed if extent == 1]
    if len(single) in (0, len(whole.summed)):
        return []
    places = {axis: tirx.IntImm(str(axis.ty.dtype), 0) for axis in single}
    left = tuple(one for one in whole.summed if one[1] > 1)
    return [replace(whole, summed=left, term=simplified(with_places(whole.term, places)))]


def with_sum(
    analysis: BlockAnalysis,
    found: Product,
    copy: ReductionStage | None,
    summed: Sequence[ReductionStage],
    params: Sequence[TvmBuffer],
) -> PrimFunc:
    """The function with other stages instead of its sum, and with other parameters.

    A `copy` of the data comes before it, as a tensor that is never computed where it is read. What comes before the sum
    otherwise is computed where it is read, as the border of an image in the copy.
    """
    stages = [*([] if copy is None else [copy]), *summed]
    function = begun_at_addend(
        _with_stages(analysis.function, lambda one: stages if one.name == found.whole.name else [], params),
        summed[-1].name,
    )
    sch = Schedule(function)
    for stage in analysis.stages[: analysis.stages.index(analysis.reductions[0])]:
        sch.compute_inline(sch.get_sblock(stage.name))
    if copy is not None:
        sch.annotate(sch.get_sblock(copy.name), COPIED_OPERAND, 1)
    return sch.mod["main"].with_attrs(analysis.function.attrs)


def _with_stages(
    function: PrimFunc, stages_of: Callable[[ReductionStage], Sequence[ReductionStage]], params: Sequence[TvmBuffer]
) -> PrimFunc:
    """`function` with other parameters, and with the stages that each reduction becomes; none: it stays."""
    root = function.body.block
    statements: list[Stmt] = []
    buffers = list(root.alloc_buffers)
    for statement in statements_of(root.body):
        whole = reduction_of(statement)
        made = [] if whole is None else stages_of(whole)
        statements += [one.statement() for one in made] or [statement]
        buffers += [one.out for one in made[:-1]]
    block = s_tir.SBlock([], [], [], root.name_hint, tirx.SeqStmt(statements), None, buffers)
    body = s_tir.SBlockRealize([], True, block)
    return s_tir.renew_defs(tirx.PrimFunc(list(params), body, function.ret_type, function.attrs))
