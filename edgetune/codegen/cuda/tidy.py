"""Statements of a launch as a person writes them: conditions stand once, and products of an index in their places.

TVM tests a condition anew in each statement of the threads that join partial sums, and names each product of an index
and a constant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import tvm_ffi
from tvm import ir, tirx

from edgetune.affine.expressions import loads_in, variables_in
from edgetune.codegen.intrinsics import operator
from edgetune.codegen.traverse import children, expressions
from edgetune.tvm_types import Expr, Node, Stmt, TvmBuffer, Var

BARRIER = "tvm_storage_sync"
LOCAL, SHARED = "local", "shared"


def tidied(body: Stmt) -> Stmt:
    """The same statements with fewer conditions and constants."""
    products: dict[Var, Expr] = {}
    rest = _without_products(body, products, {one.var for one in statements_in(body) if isinstance(one, tirx.Bind)})
    return _joined(with_values(rest, products))


def with_values(node: Node, values: Mapping[Var, Expr]) -> Node:
    """`node` with values in the places of variables."""
    return tvm_ffi.structural_map(node, (ir.Var, lambda variable: values.get(variable, variable)))


def statements_in(node: Stmt) -> Iterator[Stmt]:
    """A statement and all statements inside it."""
    yield node
    for child in children(node):
        yield from statements_in(child)


def is_barrier(node: Stmt) -> bool:
    """Whether a statement is a barrier of a block."""
    return isinstance(node, tirx.Evaluate) and isinstance(node.value, ir.Call) and operator(node.value) == BARRIER


def copies_in(body: Stmt) -> dict[TvmBuffer, TvmBuffer]:
    """By buffer in shared memory that holds elements of one tensor in device memory, or zeroes: that tensor."""
    sources: dict[TvmBuffer, set[TvmBuffer | None]] = {}
    for node in statements_in(body):
        if isinstance(node, tirx.BufferStore) and str(node.buffer.scope()) == SHARED:
            sources.setdefault(node.buffer, set()).add(_copied(node.value))
    found = {buffer: next(iter(of)) for buffer, of in sources.items() if len(of) == 1}
    return {buffer: source for buffer, source in found.items() if source is not None}


def _copied(value: Expr) -> TvmBuffer | None:
    """The tensor in device memory of which a value is an element; None where it is computed."""
    if isinstance(value, ir.Call) and operator(value) == "if_then_else":
        return _copied(value.args[1]) if isinstance(value.args[2], tirx.FloatImm) else None
    if isinstance(value, tirx.Select):
        return _copied(value.true_value) if isinstance(value.false_value, tirx.FloatImm) else None
    if isinstance(value, ir.TensorLoad) and str(value.source.scope()) not in (LOCAL, SHARED):
        return value.source
    return None


def _without_products(node: Stmt, products: dict[Var, Expr], bound: Collection[Var]) -> Stmt:
    """`node` without the constants that are an index times, or over, a number, which go to `products`.

    `bound` are all constants; any other variable counts a loop or threads.
    """
    if isinstance(node, tirx.Bind) and _is_product(node.value, bound):
        products[node.var] = with_values(node.value, products)
        return tirx.Evaluate(tirx.IntImm("int32", 0))
    return rebuilt(node, [_without_products(child, products, bound) for child in children(node)])


def _is_product(value: Expr, bound: Collection[Var]) -> bool:
    simple = isinstance(value, tirx.Mul | tirx.FloorDiv | tirx.FloorMod) and isinstance(value.b, tirx.IntImm)
    if not simple or not isinstance(value.a, ir.Var):
        return False
    return isinstance(value, tirx.Mul) or value.a not in bound


def rebuilt(node: Stmt, inside: list[Stmt]) -> Stmt:
    """`node` around other statements, as many as it has `children`."""
    if isinstance(node, tirx.SeqStmt):
        return tirx.SeqStmt(inside)
    if isinstance(node, tirx.AttrStmt):
        return tirx.AttrStmt(node.node, node.attr_key, node.value, *inside)
    if isinstance(node, tirx.IfThenElse):
        return tirx.IfThenElse(node.condition, inside[0], inside[1] if len(inside) > 1 else None)
    if isinstance(node, tirx.For):
        return tirx.For(
            node.loop_var,
            node.min,
            node.extent,
            int(node.kind),
            *inside,
            node.thread_binding,
            node.annotations,
            node.step,
            node.span,
        )
    if isinstance(node, tirx.While):
        return tirx.While(node.condition, *inside)
    return node


def _joined(node: Stmt) -> Stmt:
    """`node` whose equal conditions, one after the other, are one; what no step of a loop changes stands before it."""
    inside = [_joined(child) for child in children(node)]
    if isinstance(node, tirx.SeqStmt):
        return _sequence(inside)
    if isinstance(node, tirx.IfThenElse) and not inside[1:]:
        return tirx.IfThenElse(_plain(node.condition), inside[0], None)
    if isinstance(node, tirx.For):
        return _loop(node, inside[0])
    return rebuilt(node, inside)


def _loop(node: Stmt, body: Stmt) -> Stmt:
    """The loop `node` over `body`, after the constants and inside of the condition that no step changes."""
    parts = _parts([body])
    before: list[Stmt] = []
    while isinstance(parts[0], tirx.Bind) and len(parts) > 1 and not loads_in([parts[0].value]):
        if _uses(parts[0].value, node.loop_var):
            break
        before.append(parts.pop(0))
    if len(parts) == 1 and _is_fixed(parts[0]) and not _uses(parts[0].condition, node.loop_var):
        whole = tirx.IfThenElse(parts[0].condition, _loop(node, parts[0].then_case), None)
    else:
        whole = rebuilt(node, [_sequence(parts)])
    return tirx.SeqStmt([*before, whole]) if before else whole


def _parts(statements: list[Stmt]) -> list[Stmt]:
    found: list[Stmt] = []
    for one in statements:
        found += _parts(list(one.seq)) if isinstance(one, tirx.SeqStmt) else [one]
    return found


def _sequence(inside: list[Stmt]) -> Stmt:
    found: list[Stmt] = []
    for part in _parts(inside):
        if found and is_barrier(part) and _is_fixed(found[-1]) and _touches_registers_alone(found[-1].then_case):
            found.insert(-1, part)  # the registers of a thread wait for nobody
        elif found and _is_fixed(part) and _is_fixed(found[-1]) and _same(found[-1].condition, part.condition):
            found[-1] = tirx.IfThenElse(part.condition, _sequence([found[-1].then_case, part.then_case]), None)
        else:
            found.append(part)
    return found[0] if len(found) == 1 else tirx.SeqStmt(found)


def _is_fixed(node: Stmt) -> bool:
    """Whether a statement is a condition of a thread's place, without a barrier inside."""
    if not isinstance(node, tirx.IfThenElse) or node.else_case is not None or loads_in([node.condition]):
        return False
    return not any(is_barrier(one) for one in statements_in(node))


def _touches_registers_alone(node: Stmt) -> bool:
    for one in statements_in(node):
        buffers = [load.source for load in loads_in(expressions(one))]
        if isinstance(one, tirx.BufferStore):
            buffers.append(one.buffer)
        if any(str(buffer.scope()) != LOCAL for buffer in buffers):
            return False
    return True


def _plain(condition: Expr) -> Expr:
    """`x < 1` of a place of a thread as `x == 0`."""
    first = isinstance(condition, tirx.LT) and isinstance(condition.a, ir.Var) and isinstance(condition.b, tirx.IntImm)
    if first and int(condition.b.value) == 1:
        return tirx.EQ(condition.a, tirx.IntImm(condition.b.ty.dtype, 0))
    return condition


def _same(a: Expr, b: Expr) -> bool:
    return bool(tvm_ffi.structural_equal(a, b))


def _uses(e: Expr, variable: Var) -> bool:
    found: set[Var] = set()
    variables_in([e], found)
    return variable in found
