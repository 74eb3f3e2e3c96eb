"""Kinds of faults that can be put into a Python file, such as a comparison turned or a statement dropped.

Each kind finds its places in a syntax tree; a fault is the place and the text that takes the place of its own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_TURNED: dict[type[ast.cmpop], str] = {
    ast.Lt: ">=", ast.LtE: ">", ast.Gt: "<=", ast.GtE: "<", ast.Eq: "!=", ast.NotEq: "==",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
_LOCK = re.compile(r"lock|hold|held|lease|exclusive|claim|mutex", re.IGNORECASE)


@dataclass(frozen=True)
class Fault:
    """A change of one file: lines and columns from 1 and 0 as `ast` counts them, in bytes of UTF-8."""

    kind: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str

    def apply(self, source: str) -> str:
        """Return the file's text with the fault."""
        lines = source.encode().splitlines(keepends=True)
        before = b"".join(lines[: self.line - 1]) + lines[self.line - 1][: self.column]
        after = lines[self.end_line - 1][self.end_column :] + b"".join(lines[self.end_line :])
        return (before + self.text.encode() + after).decode()


_Place = ast.expr | ast.stmt


def _fault(kind: str, place: _Place, text: str) -> Fault:
    assert place.end_lineno is not None
    assert place.end_col_offset is not None
    return Fault(kind, place.lineno, place.col_offset, place.end_lineno, place.end_col_offset, text)


def _turned_comparisons(tree: ast.AST) -> Iterator[Fault]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
            yield _fault("a comparison turned", node, f"({left} {_TURNED[type(node.ops[0])]} {right})")


def _bounds(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the bounds of ranges and slices, and what is compared with by size."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
            yield node.comparators[0]
        elif isinstance(node, ast.Slice):
            yield from (bound for bound in (node.lower, node.upper) if bound is not None)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
            yield from node.args[:2]


def _bounds_off_by_one(tree: ast.AST) -> Iterator[Fault]:
    for bound in _bounds(tree):
        yield _fault("a bound off by one", bound, f"({ast.unparse(bound)} + 1)")


def _dropped_statements(tree: ast.AST) -> Iterator[Fault]:
    for node in ast.walk(tree):
        if isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            yield _fault("a statement dropped", node, "pass")


def _locks_not_taken(tree: ast.AST) -> Iterator[Fault]:
    for node in ast.walk(tree):
        for item in node.items if isinstance(node, ast.With) else ():
            if item.optional_vars is None and _LOCK.search(ast.unparse(item.context_expr)):
                yield _fault("a lock not taken", item.context_expr, '__import__("contextlib").nullcontext()')


def _checks_skipped(tree: ast.AST) -> Iterator[Fault]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and any(isinstance(inner, ast.Raise) for inner in node.body):
            yield _fault("a check skipped", node.test, f"(False and ({ast.unparse(node.test)}))")


KINDS: tuple[Callable[[ast.AST], Iterator[Fault]], ...] = (
    _turned_comparisons,
    _bounds_off_by_one,
    _dropped_statements,
    _locks_not_taken,
    _checks_skipped,
)


def faults(source: str) -> list[list[Fault]]:
    """Return the faults that a file can have, by kind. Those of f-strings are left out: their places are not exact."""
    tree = ast.parse(source)
    inside = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    taken = {id(child) for node in inside for child in ast.walk(node)}
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.expr) and id(node) in taken]
    places = {(node.lineno, node.col_offset) for node in nodes}
    return [[fault for fault in kind(tree) if (fault.line, fault.column) not in places] for kind in KINDS]
