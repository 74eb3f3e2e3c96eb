"""Idle steps: steps of a reduction in which the condition of a selection holds for no element of a tile are skipped.

A sum over a triangle, `acc = acc + Select(j <= i, x[j], 0)`, adds zeros where j is beyond the largest i of a tile, and
selects nothing where j is within the smallest. Tests around each step of the tile save half of the work, and the
selections of most of the rest. Several conditions must hold together, as in the product of two triangles. Of a maximum,
`acc = max(acc, Select(j <= i, x[j], c))`, the idle step that is nearest to the others is kept, so that each element
that has an idle step still sees the constant c.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.affine.domain import Domain, simplified
from edgetune.affine.expressions import SLACKS, conjuncts, is_one, with_places
from edgetune.affine.steps import step_along
from edgetune.graph.reduction_stage import is_zero_constant
from edgetune.tvm_types import BufferStore, Expr, For, Stmt

_FEW = 4
"""Steps of a loop of which a condition may mention all."""


def skip_idle_steps(loop: For) -> Stmt:
    """The body of a serial loop under the condition that some element of the tile inside has something to add.

    Where all elements have, they do not select. The tile is unrolled and vectorised loops around one accumulation. The
    body itself where there is no such condition.
    """
    inner: list[For] = []
    body = loop.body
    while isinstance(body, tirx.For) and int(body.kind) in (int(tirx.ForKind.UNROLLED), int(tirx.ForKind.VECTORIZED)):
        inner.append(body)
        body = body.body
    if not inner or not isinstance(body, s_tir.SBlockRealize) or not is_one(body.predicate):
        return loop.body
    if body.block.init is not None:
        return loop.body
    selection = _selection(body.block.body)
    if selection is None:
        return loop.body
    values = {axis.var: value for axis, value in zip(body.block.iter_vars, body.iter_values, strict=True)}
    slacks = [with_places(SLACKS[type(one)](one), values) for one in conjuncts(selection.condition)]
    most, least = ([one for slack in slacks if (one := _extreme(slack, inner, sign)) is not None] for sign in (1, -1))
    steps = [change for one in most if (change := step_of(one, loop)) is not None]
    if min(len(least), len(steps)) < len(slacks) or not any(steps):
        return loop.body
    needed = tirx.all(*(one >= 0 for one in most))
    if not isinstance(body.block.body.value, tirx.Add):
        (farthest,), (change,) = most, steps
        nearest = loop.extent - 1 if change > 0 else tirx.IntImm(str(loop.loop_var.ty.dtype), 0)
        needed = tirx.any(farthest >= -abs(change), loop.loop_var.equal(nearest))

    def chosen(node: Expr) -> Expr:
        return node.true_value if node.same_as(selection) else node

    added = tvm_ffi.structural_map(body.block.body, [(tirx.Select, chosen)])
    all_add, some_do_not = tirx.all(*(one >= 0 for one in least)), tirx.any(*(one < 0 for one in least))
    whole = tirx.IfThenElse(all_add, with_own_variables(inner, body, added, "whole"), None)
    # TVM loses one of two branches of a condition that it hoists out of a loop around it: so these are two conditions.
    return tirx.SeqStmt([whole, tirx.IfThenElse(tirx.all(some_do_not, needed), loop.body, None)])


def with_own_variables(loops: Sequence[For], realize: Stmt, store: Stmt, word: str) -> Stmt:
    """A copy of `loops` around a block, with variables of its own and `store` as its body; `word` ends its name."""
    block = realize.block
    variables = [*(loop.loop_var for loop in loops), *(axis.var for axis in block.iter_vars)]
    renamed = {old: tirx.Var(old.name, old.ty) for old in variables}
    axes = [tirx.IterVar(axis.dom, renamed[axis.var], axis.iter_type) for axis in block.iter_vars]
    reads, writes = ([with_places(region, renamed) for region in regions] for regions in (block.reads, block.writes))
    name = f"{block.name_hint}_{word}"
    tile = s_tir.SBlock(axes, reads, writes, name, with_places(store, renamed), annotations=block.annotations)
    body: Stmt = s_tir.SBlockRealize([with_places(value, renamed) for value in realize.iter_values], True, tile)
    for loop in reversed(loops):
        body = tirx.For(renamed[loop.loop_var], loop.min, loop.extent, loop.kind, body, annotations=loop.annotations)
    return body


def _selection(store: Stmt) -> Expr | None:
    """The selection in an accumulation that leaves out terms by their place; None for any other statement.

    A sum leaves out a term or a factor of it, which then is 0, by one comparison or several; a maximum or minimum has a
    constant instead, and one comparison.
    """
    if not isinstance(store, tirx.BufferStore) or not isinstance(store.value, tirx.Add | tirx.Max | tirx.Min):
        return None
    sums = isinstance(store.value, tirx.Add)
    term = store.value.b
    factors = [term.a, term.b] if sums and isinstance(term, tirx.Mul) else [term]
    for one in factors:
        if not isinstance(one, tirx.Select) or not _accumulates(store):
            continue
        parts = list(conjuncts(one.condition))
        if (sums or len(parts) == 1) and all(type(part) in SLACKS for part in parts):
            other = one.false_value
            constant = is_zero_constant(other) if sums else isinstance(other, tirx.FloatImm | tirx.IntImm)
            return one if constant else None
    return None


def _accumulates(store: BufferStore) -> bool:
    load = store.value.a
    return (
        isinstance(load, ir.TensorLoad)
        and load.source.same_as(store.buffer)
        and all(a.same_as(b) for a, b in zip(load.indices, store.indices, strict=True))
    )


def _extreme(value: Expr, loops: Sequence[For], sign: int) -> Expr | None:
    """The largest `value` over the steps of `loops`, or the smallest if `sign` is -1; None where it is not known.

    It is linear in each loop; or a loop is short, as that over vectors whose last one overlaps.
    """
    for loop in reversed(loops):
        change, extent = step_of(value, loop), int(loop.extent.value)
        if change is None and extent > _FEW:
            return None
        ends = range(extent) if change is None else [extent - 1 if sign * change > 0 else 0]
        values = [with_places(value, {loop.loop_var: tirx.IntImm(str(loop.loop_var.ty.dtype), n)}) for n in ends]
        value = simplified(reduce(tirx.max if sign > 0 else tirx.min, values))
    return value


def step_of(value: Expr, loop: For) -> int | None:
    """The change of `value` from one iteration of `loop` to the next; None where it is not always the same."""
    return step_along(value, loop.loop_var, Domain({loop.loop_var: ir.Range.from_min_extent(loop.min, loop.extent)}))
