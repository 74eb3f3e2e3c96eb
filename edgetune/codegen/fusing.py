"""Loops that threads share, fused to one whose range a caller cuts: `for i, for j` becomes `for n` with i = n / J.

What stood between the loops (conditions that passes moved there) then runs once for each n.

Seven rows are no work for two threads. With the loop around them, over blocks of channels, they are: pairs of a row and
a block are counted row by row, and a range of them is done block by block, each with its own rows. So threads share no
row but those at the ends of their ranges, of which each does some blocks, and read a block once for all their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx

from edgetune.codegen.traverse import children
from edgetune.codegen.unrolling import extent_of, with_kind
from edgetune.errors import KernelFailed

_SERIAL = int(tirx.ForKind.SERIAL)


@dataclass(frozen=True)
class Across:
    """The loop over `variable`, of `blocks` iterations, around shared ones: a range has its own part of each block."""

    variable: Any
    blocks: int


@dataclass(frozen=True)
class Shared:
    """Loops over the variables `loops`, outermost first, that threads share as the one over `variable`.

    A thread is given ranges of its iterations, each of at least `least`, from `begin` to before `end`. One thread alone
    is given all of the `iterations` as one range.

    With a loop `across`, `begin` and `end` count pairs: iteration i of block b is number i * blocks + b, and `least`
    and `iterations` are those of one block.
    """

    loops: tuple[Any, ...]
    variable: Any
    begin: Any
    end: Any
    least: int
    iterations: int
    across: Across | None = None

    @property
    def first(self) -> Any:
        """The first iteration of a range, or of its part of a block."""
        return self._of_block(self.begin)

    @property
    def behind(self) -> Any:
        """The one behind the last iteration of a range, or of its part of a block."""
        return self._of_block(self.end)

    def _of_block(self, bound: Any) -> Any:
        """Of the block at hand, the first iteration whose number is not below `bound`."""
        if self.across is None:
            return bound
        return tirx.truncdiv(bound - self.across.variable + (self.across.blocks - 1), self.across.blocks)


def shared_loops(loops: Sequence[Any], iterations: int, ranges: int, across: Across | None = None) -> Shared:
    """The loops over the variables `loops`, in all `iterations`, as one that is given out in `ranges` ranges.

    With a loop `across`, `iterations` are those of all its blocks.
    """
    index = str(loops[0].ty.dtype)
    one = loops[0] if len(loops) == 1 else tirx.Var("_".join(str(variable.name) for variable in loops), index)
    blocks = 1 if across is None else across.blocks
    least = max(1, iterations // ranges // blocks)
    bounds = (tirx.Var("begin", index), tirx.Var("end", index))
    return Shared(tuple(loops), one, *bounds, least, iterations // blocks, across)


def fused(body: Any, shared: Shared) -> Any:
    """`body` with the loops that are shared as one.

    Raises KernelFailed where a loop is not where it was before the passes ran.
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
        value = tvm.sym.Analyzer().simplify(tirx.floordiv(one, below)) if below > 1 else one
        parts.append(tirx.Bind(variable, tirx.floormod(value, extent) if variable is not loops[0] else value))

    def outermost(loop: Any) -> Any:
        inner = list(loop.body.seq) if isinstance(loop.body, tirx.SeqStmt) else [loop.body]
        return tirx.For(one, 0, total, _SERIAL, tirx.SeqStmt([*parts, *inner]))

    return _replaced(body, loops[0], outermost)


def check_range(body: Any, variable: Any) -> None:
    """Raise KernelFailed unless everything that a lowered function does stands in a loop over `variable`."""
    if isinstance(body, tirx.For) and body.loop_var.same_as(variable):
        return
    if isinstance(body, (tirx.BufferStore, tirx.Evaluate, tirx.While)):
        raise KernelFailed(f"a statement stands outside the loop over {variable.name}, which threads share: use one")
    for child in children(body):
        check_range(child, variable)


def _extent(body: Any, variable: Any) -> int:
    extents: list[int] = []

    def note(loop: Any) -> Any:
        extents.append(extent_of(loop) or 0)
        return loop

    _replaced(body, variable, note)
    if not extents or len(set(extents)) != 1 or extents[0] == 0:
        raise KernelFailed(f"the loop over {variable.name}, which threads share, was lost in lowering: use one thread")
    return extents[0]


def _replaced(node: Any, variable: Any, change: Any) -> Any:
    """`node` with every loop over `variable` changed; loops are looked for in what stands above vector code."""
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
