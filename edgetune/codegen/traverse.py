"""TIR traversal: operands of expressions, children of statements, and walks that use them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tvm import ir, tirx

from edgetune.graph.tvm_types import BufferLoad, Expr, For, Stmt, Var

_BINARY = (
    tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod, tirx.Min, tirx.Max,
    tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.And, tirx.Or,
    tirx.LShift, tirx.RShift, tirx.BitwiseAnd, tirx.BitwiseOr, tirx.BitwiseXor,
)  # fmt: skip
_FIELDS: dict[type, tuple[str, ...]] = dict.fromkeys(_BINARY, ("a", "b")) | {
    tirx.Not: ("a",),
    tirx.BitwiseNot: ("a",),
    tirx.Cast: ("value",),
    tirx.Select: ("condition", "true_value", "false_value"),
    tirx.Ramp: ("base", "stride"),
    tirx.Broadcast: ("value",),
    tirx.Let: ("value", "body"),
}


def operands(node: Expr) -> list[Expr]:
    """Expressions directly under an expression; those of a load are its indices."""
    kind = type(node)
    fields = _FIELDS.get(kind)
    if fields is not None:
        return [getattr(node, field) for field in fields]
    if kind is ir.Call:
        return list(node.args)
    if kind is ir.TensorLoad:
        return list(node.indices)
    if kind is tirx.Shuffle:
        return [*node.vectors, *node.indices]
    return []


def children(node: Stmt) -> list[Stmt]:
    """Statements directly under a statement."""
    if isinstance(node, tirx.SeqStmt):
        return list(node.seq)
    if isinstance(node, tirx.IfThenElse):
        return [node.then_case] if node.else_case is None else [node.then_case, node.else_case]
    if isinstance(node, (tirx.For, tirx.While, tirx.AttrStmt)):
        return [node.body]
    return []


def flattened(node: Stmt) -> list[Stmt]:
    """The statements of a sequence, and of those in it; of anything else the statement itself."""
    return [part for child in node.seq for part in flattened(child)] if isinstance(node, tirx.SeqStmt) else [node]


def expressions(node: Stmt) -> list[Expr]:
    """Expressions directly in a statement; the indices of a store are not among them."""
    if isinstance(node, (tirx.BufferStore, tirx.Bind, tirx.Evaluate)):
        return [node.value]
    if isinstance(node, (tirx.IfThenElse, tirx.While)):
        return [node.condition]
    if isinstance(node, tirx.For):
        return [node.min, node.extent]
    return []


def variables_in(nodes: Iterable[Expr], found: set[Var]) -> None:
    """Add every variable that occurs in the expressions `nodes` to `found`."""
    for node in nodes:
        if isinstance(node, ir.Var):
            found.add(node)
        variables_in(operands(node), found)


def loads_in(nodes: Iterable[Expr]) -> list[BufferLoad]:
    """Every load in the expressions `nodes`, each before the loads in its indices."""
    found = []
    for node in nodes:
        if isinstance(node, ir.TensorLoad):
            found.append(node)
        found += loads_in(operands(node))
    return found


def map_loops(node: Stmt, change: Callable[[For], Stmt]) -> Stmt:
    """`node` with the outermost loops of its sequences and attributes replaced by the result of `change`."""
    if isinstance(node, tirx.SeqStmt):
        return tirx.SeqStmt([map_loops(child, change) for child in node.seq])
    if isinstance(node, tirx.AttrStmt):
        return tirx.AttrStmt(node.node, node.attr_key, node.value, map_loops(node.body, change))
    return change(node) if isinstance(node, tirx.For) else node
