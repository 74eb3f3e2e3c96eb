"""Loop collapsing: the loops that threads share become one loop; `for i, for j` becomes `for n` with i = n / J.

A caller passes the range of n. Statements between the loops (conditions that passes moved there) then run once for each
n.

A loop around the shared ones can be counted with them. Example: seven rows are too few for two threads, but with the
loop over blocks of channels around them there are enough pairs of a row and a block. Pairs are numbered row by row; a
range of pairs is executed block by block, each with its own rows. So threads share only rows at the ends of their
ranges, where each thread does some of the blocks, and a thread reads a block once for all its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import tirx

from edgetune.affine.domain import simplified
from edgetune.codegen.traverse import children
from edgetune.codegen.unrolling import extent_of, with_kind
from edgetune.errors import KernelFailed
from edgetune.tvm_types import Expr, For, Stmt, Var

_SERIAL = int(tirx.ForKind.SERIAL)


@dataclass(frozen=True)
class Across:
    """The loop over `variable`, with `blocks` iterations, around shared loops: a range has a part of each block."""

    variable: Var
    blocks: int


@dataclass(frozen=True)
class Shared:
    """Loops over the variables `loops`, outermost first, that threads share as one loop over `variable`.

    A thread gets ranges of its iterations, from `begin` to before `end`, each of at least `least`. A single thread gets
    all `iterations` as one range.

    With a loop `across`, `begin` and `end` count pairs: iteration i of block b has the number i * blocks + b. `least`
    and `iterations` are then numbers per block.
    """

    loops: tuple[Var, ...]
    variable: Var
    begin: Var
    end: Var
    least: int
    iterations: int
    across: Across | None = None

    @property
    def first(self) -> Expr:
        """The first iteration of a range, or of its part of a block."""
        return self._of_block(self.begin)

    @property
    def past_last(self) -> Expr:
        """The iteration after the last one of a range, or of its part of a block."""
        return self._of_block(self.end)

    def _of_block(self, bound: Expr) -> Expr:
        """The first iteration of the current block whose number is not less than `bound`."""
        if self.across is None:
            return bound
        return tirx.truncdiv(bound - self.across.variable + (self.across.blocks - 1), self.across.blocks)


def shared_loops(loops: Sequence[Var], iterations: int, ranges: int, across: Across | None = None) -> Shared:
    """The loops over the variables `loops`, with `iterations` in total, as one loop divided into `ranges` ranges.

    With a loop `across`, `iterations` counts all its blocks.
    """
    index = str(loops[0].ty.dtype)
    one = loops[0] if len(loops) == 1 else tirx.Var("_".join(str(variable.name) for variable in loops), index)
    blocks = 1 if across is None else across.blocks
    least = max(1, iterations // ranges // blocks)
    bounds = (tirx.Var("begin", index), tirx.Var("end", index))
    return Shared(tuple(loops), one, *bounds, least, iterations // blocks, across)


def collapse(body: Stmt, shared: Shared) -> Stmt:
    """`body` with the shared loops collapsed into one.

    Raises KernelFailed if lowering passes have moved or removed one of the loops.
    """
    loops, one = shared.loops, shared.variable
    if len(loops) == 1:
        return _replaced(body, one, lambda loop: with_kind(loop, _SERIAL, loop.body))
    extents = [_extent(body, variable) for variable in loops]
    for variable in loops[1:]:
        body = _replaced(body, variable, lambda loop: loop.body)
    total = 1
    for extent in extents:
        total *= extent
    parts = []
    below = total
    for variable, extent in zip(loops, extents, strict=True):
        below //= extent
        value = simplified(tirx.floordiv(one, below)) if below > 1 else one
        parts.append(tirx.Bind(variable, tirx.floormod(value, extent) if variable is not loops[0] else value))

    def outermost(loop: For) -> For:
        inner = list(loop.body.seq) if isinstance(loop.body, tirx.SeqStmt) else [loop.body]
        return tirx.For(one, 0, total, _SERIAL, tirx.SeqStmt([*parts, *inner]))

    return _replaced(body, loops[0], outermost)


def check_range(body: Stmt, variable: Var) -> None:
    """Raise KernelFailed unless every statement of a lowered function is inside a loop over `variable`."""
    if isinstance(body, tirx.For) and body.loop_var.same_as(variable):
        return
    if isinstance(body, (tirx.BufferStore, tirx.Evaluate, tirx.While)):
        raise KernelFailed(f"a statement stands outside the loop over {variable.name}, which threads share: use one")
    for child in children(body):
        check_range(child, variable)


def _extent(body: Stmt, variable: Var) -> int:
    extents: list[int] = []

    def note(loop: For) -> For:
        extents.append(extent_of(loop) or 0)
        return loop

    _replaced(body, variable, note)
    if not extents or len(set(extents)) != 1 or extents[0] == 0:
        raise KernelFailed(f"the loop over {variable.name}, which threads share, was lost in lowering: use one thread")
    return extents[0]


def _replaced(node: Stmt, variable: Var, change: Callable[[For], Stmt]) -> Stmt:
    """`node` with every loop over `variable` changed; searches only statements above vector code."""
    if isinstance(node, tirx.For):
        if node.loop_var.same_as(variable):
            return change(node)
        return with_kind(node, int(node.kind), _replaced(node.body, variable, change))
    if isinstance(node, tirx.SeqStmt):
        return tirx.SeqStmt([_replaced(part, variable, change) for part in node.seq])
    if isinstance(node, tirx.IfThenElse):
        otherwise = None if node.else_case is None else _replaced(node.else_case, variable, change)
        return tirx.IfThenElse(node.condition, _replaced(node.then_case, variable, change), otherwise)
    if isinstance(node, tirx.AttrStmt):
        return tirx.AttrStmt(node.node, node.attr_key, node.value, _replaced(node.body, variable, change))
    return node
