"""Loop unrolling: marks the loops that TVM will unroll.

A small local buffer becomes registers only if all its indices are constant, so loops over it are unrolled. No body may
grow past a limit, so loops that a schedule unrolls beyond it stay loops.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tvm import ir, tirx

from edgetune.affine.expressions import operands, variables_in
from edgetune.codegen.dot_products import shared_operands
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.traverse import children, expressions
from edgetune.tvm_types import Expr, For, Stmt, TvmBuffer, Var

MAX_STATEMENTS = 512  # stores in one fully unrolled body
MAX_TILE_STATEMENTS = 256  # stores that promoting a tile to registers may cost
MAX_TILE_BYTES = 2048  # the register file of a core with 512-bit vectors

_UNROLLED = int(tirx.ForKind.UNROLLED)


def extent_of(loop: tirx.For) -> int | None:
    """Trip count if it is a constant."""
    return int(loop.extent.value) if isinstance(loop.extent, tirx.IntImm) else None


def with_kind(loop: tirx.For, kind: int, body: Stmt) -> tirx.For:
    """`loop` with another kind and body."""
    if body.same_as(loop.body) and kind == int(loop.kind):
        return loop
    return tirx.For(
        loop.loop_var, loop.min, loop.extent, kind, body, loop.thread_binding, loop.annotations, loop.step, loop.span
    )


def map_loop_kinds(node: Stmt, loop_kind: Callable[[For, Stmt], int]) -> Stmt:
    """`node` with every loop's kind replaced by `loop_kind(loop, new body)`, innermost first."""
    if isinstance(node, tirx.For):
        body = map_loop_kinds(node.body, loop_kind)
        return with_kind(node, loop_kind(node, body), body)
    if isinstance(node, tirx.SeqStmt):
        return tirx.SeqStmt([map_loop_kinds(s, loop_kind) for s in node.seq])
    if isinstance(node, tirx.IfThenElse):
        otherwise = None if node.else_case is None else map_loop_kinds(node.else_case, loop_kind)
        return tirx.IfThenElse(node.condition, map_loop_kinds(node.then_case, loop_kind), otherwise)
    if isinstance(node, tirx.While):
        return tirx.While(node.condition, map_loop_kinds(node.body, loop_kind))
    if isinstance(node, tirx.AttrStmt):
        return tirx.AttrStmt(node.node, node.attr_key, node.value, map_loop_kinds(node.body, loop_kind))
    return node


def weight(node: Stmt) -> int:
    """Stores in `node` once its UNROLLED loops are unrolled."""
    if isinstance(node, tirx.For):
        times = (extent_of(node) or 1) if int(node.kind) == _UNROLLED else 1
        return times * weight(node.body)
    below = children(node)
    return sum(weight(child) for child in below) if below else int(isinstance(node, (tirx.BufferStore, tirx.Evaluate)))


def limit_unrolling(body: Stmt, products: int = 1) -> Stmt:
    """Turn unrolled loops back into loops if their bodies would exceed `MAX_STATEMENTS`.

    So many `products` that are added to a number, not to lanes of a vector, become one statement of a tile.
    """
    most = MAX_STATEMENTS * (1 if _stores_vectors(body) else products)

    def kind(loop: tirx.For, below: Stmt) -> int:
        if int(loop.kind) != _UNROLLED:
            return int(loop.kind)
        extent = extent_of(loop)
        if extent is None or extent * weight(below) > most:
            return int(tirx.ForKind.SERIAL)
        return _UNROLLED

    return map_loop_kinds(body, kind)


def _stores_vectors(node: Stmt) -> bool:
    """Whether a sum has several lanes."""
    if isinstance(node, tirx.BufferStore):
        return isinstance(node.value, tirx.Add) and element_and_lanes(node.value.ty)[1] > 1
    return any(map(_stores_vectors, children(node)))


def unroll_register_tiles(body: Stmt, *, several: bool) -> Stmt:
    """Mark loops over a register tile as UNROLLED, if the code stays small enough.

    A tile is a small allocated buffer that loops run over inside a loop that revisits it: accumulators inside the loops
    of a reduction. A loop around another serial loop is not unrolled: each copy would be a separate nest. What dot
    products share lies in memory (see `shared_operands`, also for `several`).
    """
    tiles = _Tiles(shared_operands(body, several=several))
    tiles.visit(body, [])
    indexing: set[Var] = set()
    for buffer in tiles.revisited:
        indexing |= tiles.indexing[buffer]
    if not indexing:
        return body

    def kind(loop: tirx.For, below: Stmt) -> int:
        extent = extent_of(loop)
        if loop.loop_var not in indexing or extent is None or int(loop.kind) not in (0, 1):
            return int(loop.kind)
        if extent > 1 and _loops(below):
            return int(loop.kind)
        return _UNROLLED if extent * weight(below) <= MAX_TILE_STATEMENTS else int(loop.kind)

    return map_loop_kinds(body, kind)


def _loops(node: Stmt) -> bool:
    """Whether `node` contains a loop that is not unrolled and runs more than once."""
    if isinstance(node, tirx.For) and int(node.kind) != _UNROLLED and extent_of(node) != 1:
        return True
    return any(map(_loops, children(node)))


class _Tiles:
    """Small buffers, the variables in their indices, and the buffers that a loop revisits."""

    def __init__(self, in_memory: Collection[TvmBuffer]) -> None:
        self.in_memory = in_memory
        self.indexing: dict[TvmBuffer, set[Var]] = {}
        self.depth: dict[TvmBuffer, int] = {}
        self.revisited: set[TvmBuffer] = set()

    def visit(self, node: Stmt, loops: list[Var]) -> None:
        """Walk statements; `loops` has the variables of the enclosing loops, outermost first."""
        if isinstance(node, tirx.AllocBuffer):
            if _bytes_of(node.buffer) <= MAX_TILE_BYTES and node.buffer not in self.in_memory:
                self.indexing[node.buffer] = set()
                self.depth[node.buffer] = len(loops)
            return
        if isinstance(node, tirx.BufferStore):
            self._access(node.buffer, node.indices, loops)
        for expression in expressions(node):
            self._expression(expression, loops)
        inside = loops
        if isinstance(node, tirx.For) and extent_of(node) != 1:
            inside = [*loops, node.loop_var]
        for child in children(node):
            self.visit(child, inside)

    def _expression(self, node: Expr, loops: list[Var]) -> None:
        if isinstance(node, ir.TensorLoad):
            self._access(node.source, node.indices, loops)
        for operand in operands(node):
            self._expression(operand, loops)

    def _access(self, buffer: TvmBuffer, indices: Sequence[Expr], loops: list[Var]) -> None:
        known = self.indexing.get(buffer)
        if known is None:
            return
        here: set[Var] = set()
        variables_in(indices, here)
        known |= here
        around = [variable in here for variable in loops[self.depth[buffer] :]]
        # A loop over the tile inside a loop that revisits it; the other way round it is one element at a time.
        if False in around and True in around[around.index(False) :]:
            self.revisited.add(buffer)


def _bytes_of(buffer: TvmBuffer) -> int:
    total = 1
    for extent in buffer.ty.shape:
        if not isinstance(extent, tirx.IntImm):
            return MAX_TILE_BYTES + 1
        total *= int(extent.value)
    of, lanes = element_and_lanes(buffer.ty.dtype)
    return total * lanes * of.bytes
