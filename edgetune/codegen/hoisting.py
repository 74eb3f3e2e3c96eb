"""First iterations out of loops: a reduction whose initialisation stands inside as `if (k == 0)` gets it in front.

Compilers do not see through that test in a nest of loops; without it they keep the sum in a register.
"""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx

from edgetune.codegen.traverse import children, expressions, loops_changed, variables_in
from edgetune.codegen.unrolling import extent_of, with_kind


def hoist_initialisation(node: Any) -> Any:
    """`node` with leading `if (loop variable is at its start)` statements moved in front of their loops."""
    return loops_changed(node, _hoisted)


def _hoisted(node: Any) -> Any:
    body = hoist_initialisation(node.body)
    parts = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    first = parts[0]
    serial = int(node.kind) in (int(tirx.ForKind.SERIAL), int(tirx.ForKind.UNROLLED))
    if len(parts) > 1 and serial and (extent_of(node) or 0) > 0:
        rest = _conditions_but_start(first, node)
        if rest is not None:
            loop = with_kind(node, int(node.kind), parts[1] if len(parts) == 2 else tirx.SeqStmt(parts[1:]))
            before = first.then_case if not rest else tirx.IfThenElse(_all(rest), first.then_case, None)
            return tirx.SeqStmt([before, loop])
    return with_kind(node, int(node.kind), body)


def _all(conditions: list[Any]) -> Any:
    joined = conditions[0]
    for condition in conditions[1:]:
        joined = tirx.And(joined, condition)
    return joined


def _conditions_but_start(statement: Any, loop: Any) -> list[Any] | None:
    """The other conditions of an `if` that needs the loop's first iteration; None if it is no such statement."""
    if not isinstance(statement, tirx.IfThenElse) or statement.else_case is not None:
        return None
    start: list[Any] = []
    rest: list[Any] = []
    for condition in _conjuncts(statement.condition):
        (start if _is_start(condition, loop) else rest).append(condition)
    found: set[Any] = set()
    variables_in(rest, found)
    _variables(statement.then_case, found)
    return rest if start and loop.loop_var not in found else None


def _conjuncts(condition: Any) -> list[Any]:
    if isinstance(condition, tirx.And):
        return [*_conjuncts(condition.a), *_conjuncts(condition.b)]
    return [condition]


def _is_start(condition: Any, loop: Any) -> bool:
    if not isinstance(condition, tirx.EQ):
        return False
    for a, b in ((condition.a, condition.b), (condition.b, condition.a)):
        if isinstance(a, ir.Var) and a.same_as(loop.loop_var) and isinstance(b, tirx.IntImm):
            return isinstance(loop.min, tirx.IntImm) and int(loop.min.value) == int(b.value)
    return False


def _variables(node: Any, found: set[Any]) -> None:
    variables_in(expressions(node), found)
    if isinstance(node, tirx.BufferStore):
        variables_in(node.indices, found)
    for child in children(node):
        _variables(child, found)
