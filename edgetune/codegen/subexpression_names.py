"""Names for common subexpressions: each offset is named after what it indexes.

TVM calls them cse_v1, cse_v2 and so on. An offset into a single buffer is named after that buffer ("weights_at"), an
offset into several buffers is an "offset", any other subexpression a "value".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm import ir, tirx

from edgetune.affine.expressions import operands, variables_in
from edgetune.codegen.names import plain_name
from edgetune.codegen.traverse import children, expressions
from edgetune.tvm_types import Expr, Stmt, TvmBuffer, Var

_PREFIX = "cse_v"


def is_step(e: Expr) -> bool:
    """Whether an expression is a variable plus or minus a constant, which is a nearby address."""
    return isinstance(e, (tirx.Add, tirx.Sub)) and isinstance(e.a, ir.Var) and isinstance(e.b, tirx.IntImm)


def stems(body: Stmt, copies: Mapping[TvmBuffer, TvmBuffer] | None = None) -> dict[Var, str]:
    """The name stem of each variable of a common subexpression in lowered statements.

    Buffers that are `copies` of others have the names of those.
    """
    found = _Found(copies or {})
    found.statement(body)
    # The parts of a later constant index the same buffers as that constant.
    for var, parts in reversed(found.bound):
        for part in parts:
            found.leads.setdefault(part, set()).update(found.leads.get(var, set()))
    names: dict[Var, str] = {}
    for var, _ in found.bound:
        if str(var.name).startswith(_PREFIX):
            buffers = sorted(found.leads.get(var, set()))
            names[var] = "offset" if len(buffers) > 1 else f"{buffers[0]}_at" if buffers else "value"
    return names


class _Found:
    """Constants in order, each with its variables, and the buffers that each variable indexes directly."""

    def __init__(self, copies: Mapping[TvmBuffer, TvmBuffer]) -> None:
        self._copies = copies
        self.bound: list[tuple[Var, set[Var]]] = []
        self.leads: dict[Var, set[str]] = {}

    def statement(self, node: Stmt) -> None:
        if isinstance(node, tirx.Bind):
            parts: set[Var] = set()
            variables_in([node.value], parts)
            self.bound.append((node.var, parts))
        if isinstance(node, tirx.BufferStore):
            self._index(node.buffer, node.indices)
        for expression in expressions(node):
            self._expression(expression)
        for child in children(node):
            self.statement(child)

    def _expression(self, node: Expr) -> None:
        if isinstance(node, ir.TensorLoad):
            self._index(node.source, node.indices)
        for operand in operands(node):
            self._expression(operand)

    def _index(self, buffer: TvmBuffer, indices: Sequence[Expr]) -> None:
        used: set[Var] = set()
        variables_in(indices, used)
        for var in used:
            self.leads.setdefault(var, set()).add(plain_name(str(self._copies.get(buffer, buffer).name)))
