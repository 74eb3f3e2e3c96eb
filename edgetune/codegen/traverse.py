"""TIR traversal: operands of expressions, children of statements, and walks that use them."""

from __future__ import annotations

from collections.abc import Callable

from tvm import tirx

from edgetune.tvm_types import Expr, For, Stmt


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


def map_loops(node: Stmt, change: Callable[[For], Stmt]) -> Stmt:
    """`node` with the outermost loops of its sequences and attributes replaced by the result of `change`."""
    if isinstance(node, tirx.SeqStmt):
        return tirx.SeqStmt([map_loops(child, change) for child in node.seq])
    if isinstance(node, tirx.AttrStmt):
        return tirx.AttrStmt(node.node, node.attr_key, node.value, map_loops(node.body, change))
    return change(node) if isinstance(node, tirx.For) else node
