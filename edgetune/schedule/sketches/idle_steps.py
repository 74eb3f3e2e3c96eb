"""Idle steps: steps of a reduction in which the condition of a selection holds for no lane are skipped.

A sum over a triangle, `acc = acc + Select(j <= i, x[j], 0)`, adds zeros where j is beyond the largest i of a tile, and
selects nothing where j is within the smallest. Tests around each step of the tile save half of the work, and the
selections of most of the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tvm_ffi
from tvm import ir, s_tir, sym, tirx

from edgetune.graph.tvm_types import BufferStore, Expr, For, Node, Stmt, Var
from edgetune.schedule.sketches.block_analysis import is_one, mentions

_COMPARISONS = {
    tirx.LE: lambda node: node.b - node.a,
    tirx.LT: lambda node: node.b - node.a - 1,
    tirx.GE: lambda node: node.a - node.b,
    tirx.GT: lambda node: node.a - node.b - 1,
}


def skip_idle_steps(loop: For) -> Stmt:
    """The body of a serial loop under the condition that some lane of the tile inside has something to add.

    Where all lanes have, they do not select. The tile is unrolled and vectorised loops around one accumulation. The
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
    condition = _selected(body.block.body)
    if condition is None:
        return loop.body
    values = {axis.var: value for axis, value in zip(body.block.iter_vars, body.iter_values, strict=True)}
    slack = _substituted(_COMPARISONS[type(condition)](condition), values)
    most, least = (_extreme(slack, inner, sign) for sign in (1, -1))
    if most is None or least is None or not mentions(most, loop.loop_var):
        return loop.body
    selecting = tirx.IfThenElse(most >= 0, loop.body, None)
    return tirx.IfThenElse(least >= 0, _without_selection(inner, body), selecting)


def _without_selection(loops: Sequence[For], realize: Stmt) -> Stmt:
    """A copy of the tile, with variables of its own, that adds in every lane."""
    block = realize.block
    variables = [*(loop.loop_var for loop in loops), *(axis.var for axis in block.iter_vars)]
    renamed = {old: tirx.Var(old.name, old.ty) for old in variables}
    store = block.body
    added = tirx.BufferStore(store.buffer, store.value.a + store.value.b.true_value, store.indices)
    axes = [tirx.IterVar(axis.dom, renamed[axis.var], axis.iter_type) for axis in block.iter_vars]
    reads, writes = ([_substituted(region, renamed) for region in regions] for regions in (block.reads, block.writes))
    name = f"{block.name_hint}_whole"
    tile = s_tir.SBlock(axes, reads, writes, name, _substituted(added, renamed), annotations=block.annotations)
    body: Stmt = s_tir.SBlockRealize([_substituted(value, renamed) for value in realize.iter_values], True, tile)
    for loop in reversed(loops):
        body = tirx.For(renamed[loop.loop_var], loop.min, loop.extent, loop.kind, body, annotations=loop.annotations)
    return body


def _selected(store: Stmt) -> Expr | None:
    """The comparison without which `store` adds zero; None for any other statement."""
    if not isinstance(store, tirx.BufferStore) or not isinstance(store.value, tirx.Add):
        return None
    term = store.value.b
    if not isinstance(term, tirx.Select) or not _is_zero(term.false_value) or not _adds(store):
        return None
    return term.condition if type(term.condition) in _COMPARISONS else None


def _adds(store: BufferStore) -> bool:
    load = store.value.a
    return (
        isinstance(load, ir.TensorLoad)
        and load.source.same_as(store.buffer)
        and all(a.same_as(b) for a, b in zip(load.indices, store.indices, strict=True))
    )


def _is_zero(value: Expr) -> bool:
    return isinstance(value, tirx.FloatImm | tirx.IntImm) and float(value.value) == 0.0


def _extreme(value: Expr, loops: list[For], sign: int) -> Expr | None:
    """The largest `value` over the steps of `loops`, or the smallest if `sign` is -1; None where it is not linear."""
    analyzer = sym.Analyzer()
    for loop in loops:
        step = analyzer.simplify(_substituted(value, {loop.loop_var: loop.loop_var + 1}) - value)
        if not isinstance(step, tirx.IntImm):
            return None
        last = loop.extent - 1 if sign * int(step.value) > 0 else tirx.IntImm(str(loop.loop_var.ty.dtype), 0)
        value = analyzer.simplify(_substituted(value, {loop.loop_var: last}))
    return value


def _substituted(value: Node, values: Mapping[Var, Expr]) -> Node:
    def change(one: Var) -> Expr:
        return next((new for old, new in values.items() if one.same_as(old)), one)

    return tvm_ffi.structural_map(value, [(ir.Var, change)])
