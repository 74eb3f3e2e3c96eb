"""Clipped rows: a condition on the lane axis of a sum becomes the bounds of its loop.

Of `y[t] = sum(0 <= t - 64 * f < 256 ? x[f, t - 64 * f] : 0)`, f adds a row of 256 elements to y. Its loop has the
bounds of the condition, as in clipping a polygon (I. E. Sutherland and G. W. Hodgman, Reentrant Polygon Clipping, CACM
17(1), 1974): whole vectors without a condition, and at most a vector of single elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from tvm import ir, s_tir, tirx

from edgetune.affine.access import Access
from edgetune.affine.domain import simplified
from edgetune.affine.expressions import SLACKS, expressions, is_choice, is_one, mentions, with_places
from edgetune.affine.steps import step_along
from edgetune.graph.reduction_stage import unconditional
from edgetune.schedule.sketches.block_analysis import BlockStage
from edgetune.schedule.sketches.idle_steps import step_of, with_own_variables
from edgetune.tvm_types import BufferStore, Expr, For, Stmt, Var

CLIPPED = "edgetune.clipped_row"
"""Annotation of a loop over a row of results: how many lanes vectors have between the bounds of its condition."""


def has_clipped_rows(stage: BlockStage) -> bool:
    """Whether a stage sums rows of terms that a condition on the place along the row leaves out at their ends."""
    store = stage.block.body
    if not stage.spatial or not stage.reduction or not stage.writes_its_axes():
        return False
    if not isinstance(store, tirx.BufferStore) or not isinstance(store.value, tirx.Add):
        return False
    conditions, term = unconditional(store.value.b, selections=False)
    lane = stage.spatial[-1].var
    along = [one for one in conditions if mentions(one, lane)]
    values = list(expressions(term))
    loads = [node for node in values if isinstance(node, ir.TensorLoad)]
    return (
        bool(along)
        and all(_step(one, lane) is not None for one in along)
        and not any(is_choice(node) and mentions(node, lane) for node in values)
        and all(Access.of(load).stays_or_follows(lane) for load in loads)
    )


def clipped_row(loop: For) -> Stmt:
    """The loop over a row that a schedule annotates, between the bounds of the condition; `loop` itself otherwise."""
    if CLIPPED not in loop.annotations:
        return loop
    lanes = int(loop.annotations[CLIPPED])
    others = {key: value for key, value in loop.annotations.items() if key != CLIPPED}
    plain = tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, loop.body, annotations=others)
    realize = loop.body
    store = realize.block.body if isinstance(realize, s_tir.SBlockRealize) else None
    if not isinstance(store, tirx.BufferStore) or not is_one(realize.predicate) or realize.block.init is not None:
        return plain
    if not isinstance(store.value, tirx.Add):  # the first value of the sums
        return plain
    conditions, term = unconditional(store.value.b, selections=False)
    values = {axis.var: value for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)}
    row, zero = loop.loop_var, tirx.IntImm(str(loop.loop_var.ty.dtype), 0)
    first, end, outer = [loop.min], [loop.min + loop.extent], list[Expr]()
    for condition in (with_places(one, values) for one in conditions):
        if not mentions(condition, row):
            outer.append(condition)
            continue
        slack = SLACKS[type(condition)](condition)
        rest = with_places(slack, {row: zero})
        if step_of(slack, loop) == 1:
            first.append(-rest)
        elif step_of(slack, loop) == -1:
            end.append(rest + 1)
        else:
            return plain
    begin = simplified(reduce(tirx.max, first))
    count = tirx.max(simplified(reduce(tirx.min, end)) - begin, zero)
    added = tirx.BufferStore(store.buffer, store.value.a + term, store.indices)
    whole = tirx.floordiv(count, lanes)
    vector, lane, single = (tirx.Var(f"{row.name}{end}", row.ty) for end in ("", "_lane", "_rest"))
    rest = count - whole * lanes
    parts = [
        _loops(realize, row, begin + vector * lanes + lane, [(vector, whole), (lane, lanes)], added, "vectors"),
        _loops(realize, row, begin + whole * lanes + single, [(single, rest)], added, "rest"),
    ]
    statement: Stmt = tirx.SeqStmt(parts)
    return tirx.IfThenElse(tirx.all(*outer), statement, None) if outer else statement


def _loops(
    realize: Stmt, row: Var, place: Expr, axes: Sequence[tuple[Var, Expr | int]], store: BufferStore, word: str
) -> Stmt:
    """Loops around the block at a `place` of the row, with `store` as its body; two loops are vectors."""
    values = [with_places(value, {row: place}) for value in realize.iter_values]
    moved = s_tir.SBlockRealize(values, True, realize.block)
    loops: list[For] = []
    inner: Stmt = moved
    kinds = [tirx.ForKind.SERIAL, tirx.ForKind.VECTORIZED]
    for number, (variable, extent) in reversed(list(enumerate(axes))):
        dtype = str(row.ty.dtype)
        size = tirx.IntImm(dtype, extent) if isinstance(extent, int) else extent
        inner = tirx.For(variable, tirx.IntImm(dtype, 0), size, kinds[number], inner)
        loops.insert(0, inner)
    return with_own_variables(loops, moved, store, word)


def _step(condition: Expr, lane: Var) -> int | None:
    """By how much a comparison of integers changes along `lane`: 1 or -1; None for all else."""
    if type(condition) not in SLACKS or "int" not in str(condition.a.ty.dtype):
        return None
    found = step_along(SLACKS[type(condition)](condition), lane)
    return found if found in (1, -1) else None
