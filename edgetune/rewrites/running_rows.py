"""Running rows: the sum or extreme of all elements of a short row up to each one, in one walk along the row.

The definition takes all terms for each result, and lanes across results leave out half of them. A walk that keeps the
result so far takes one step for each element. Steps wait for each other, so this is for rows so short that a core has
several of them in flight: those that are too short for windows (`edgetune.graph.running_reductions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tvm import ir, s_tir, tirx

from edgetune.affine.expressions import with_places
from edgetune.codegen.dtypes import element
from edgetune.graph.reduction_stage import ReductionStage, reduction_of
from edgetune.graph.running_reductions import FEWEST_TERMS, Running, running, with_idle
from edgetune.graph.written_loops import WRITTEN, Variable, integer, loop, nest, sequence, store
from edgetune.schedule.sketches.block_analysis import BlockStage
from edgetune.tvm_types import Expr, Node, Stmt, TvmBuffer, Var

_UNROLLED = 4
"""Steps of an iteration."""


def running_row(stage: BlockStage) -> Stmt | None:
    """The loops that compute a stage in one walk along each row; None for all but running reductions of short rows."""
    whole = reduction_of(s_tir.SBlockRealize([axis.var for axis in stage.block.iter_vars], True, stage.block))
    found = None if whole is None else running(whole)
    if whole is None or found is None or found.place != len(whole.spatial) - 1 or found.term[1] >= FEWEST_TERMS:
        return None
    exclusive, of = 1 if found.later else -1, element(str(whole.out.ty.dtype))
    if found.offset not in {0, exclusive} or whole.index_type != "int32" or of.half or of.kind == "bool":
        return None  # numbers of half precision are rounded where they are stored
    return _walk(stage, whole, found)


def _walk(stage: BlockStage, whole: ReductionStage, found: Running) -> Stmt:
    sofar = Variable("so_far", str(whole.out.ty.dtype))
    count = found.term[1]

    def row(outer: Sequence[Var]) -> Stmt:
        def step(number: Expr) -> Stmt:
            place = count - 1 - number if found.later else number
            own = (*outer, place)
            places = dict(zip((one for one, _ in whole.spatial), own, strict=True)) | {found.term[0]: place}
            add = sofar.set(whole.combine(sofar.value, with_places(found.value, places)))
            result = with_places(with_idle(whole, found, sofar.value), places)
            write = store(whole.out, [with_places(index, places) for index in whole.at], result)
            return sequence(add, write) if found.offset == 0 else sequence(write, add)

        body = sequence(sofar.set(whole.first), *_in_steps(count, step))
        regions = [[_whole_tensor(one.source) for one in some] for some in (stage.reads(), stage.block.writes)]
        block = s_tir.SBlock([], *regions, stage.name, body, None, [sofar.buffer], annotations={WRITTEN: 1})
        return s_tir.SBlockRealize([], True, block)

    rows = [(str(one.name).removeprefix("v_"), extent) for one, extent in whole.spatial[:-1]]
    return nest(rows, row, parallel=[True] * len(rows))


def _in_steps(count: int, step: Callable[[Expr], Stmt]) -> Iterator[Stmt]:
    """A loop of `count` steps that is unrolled by a few, and the rest: a step is less than what a loop takes."""
    rounds, rest = divmod(count, _UNROLLED)
    if rounds:
        yield loop("k", rounds, lambda k: sequence(*(step(k * _UNROLLED + n) for n in range(_UNROLLED))))
    yield from (step(integer(rounds * _UNROLLED + n)) for n in range(rest))


def _whole_tensor(buffer: TvmBuffer) -> Node:
    """All elements of a tensor, as a block says what it reads."""
    return tirx.BufferRegion(buffer, [ir.Range(0, extent) for extent in buffer.ty.shape])
