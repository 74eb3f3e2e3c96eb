"""Loops that nvcc has to unroll: those that index buffers of one thread, which become registers."""

from __future__ import annotations

from tvm import tirx

from edgetune.affine.expressions import loads_in, variables_in
from edgetune.codegen.cuda.tidy import LOCAL
from edgetune.codegen.cuda.tiles import is_tile
from edgetune.codegen.traverse import children, expressions
from edgetune.tvm_types import Expr, Stmt, TvmBuffer, Var

_MOST_UNROLLED = 64  # copies of a loop's body, those of loops around it included


def unrolled_loops(body: Stmt) -> set[Var]:
    """Variables of loops that index a buffer of one thread; a register has no address, so these must be unrolled."""
    indices: set[Var] = set()
    _local_indices(body, indices)
    found: set[Var] = set()
    _unrolled(body, indices, 1, found)
    return found


def _unrolled(node: Stmt, indices: set[Var], copies: int, found: set[Var]) -> None:
    if isinstance(node, tirx.For) and node.loop_var in indices and isinstance(node.extent, tirx.IntImm):
        copies *= int(node.extent.value)
        if copies <= _MOST_UNROLLED:
            found.add(node.loop_var)
    for child in children(node):
        _unrolled(child, indices, copies, found)


def _local_indices(node: Stmt, found: set[Var], bound: dict[Var, Expr] | None = None) -> None:
    """Variables in indices of local buffers, directly or through constants of common subexpressions."""
    bound = {} if bound is None else bound
    if isinstance(node, tirx.Bind):
        bound[node.var] = node.value
    loads = loads_in(expressions(node))
    if isinstance(node, tirx.BufferStore):
        loads += loads_in(node.indices)
        if _is_local(node.buffer):
            _expanded(node.indices, bound, found)
    for load in loads:
        if _is_local(load.source):
            _expanded(load.indices, bound, found)
    for child in children(node):
        _local_indices(child, found, bound)


def _expanded(indices: list[Expr], bound: dict[Var, Expr], found: set[Var]) -> None:
    used: set[Var] = set()
    variables_in(indices, used)
    for variable in used - found:
        found.add(variable)
        if variable in bound:
            _expanded([bound[variable]], bound, found)


def _is_local(buffer: TvmBuffer) -> bool:
    return str(buffer.scope()) == LOCAL or is_tile(buffer)
