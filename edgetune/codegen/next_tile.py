"""Inputs of the next tile on their way to the first cache while this tile is summed.

Inputs that exceed the second cache come from beyond it, a few lines for each step of a sum that is soon done. What
fetches lines unasked follows few streams at once, and a tile has one for each of its pixels. Here each step asks for
its part of what the next tile reads. What is asked for needlessly costs time, never a result.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod
from typing import Any

from tvm import tirx

from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.linear import Linear, linear
from edgetune.codegen.requests import FIRST_CACHE, LINE, certain_loads, request
from edgetune.codegen.streams import innermost_changed, preceded, total_of, written_in
from edgetune.codegen.traverse import children, expressions, loops_changed
from edgetune.codegen.unrolling import extent_of, with_kind

ANNOTATION = "edgetune_next_tile"
"""On the loop over tiles: the innermost loops in it ask for what the next tile reads where the loop moves it."""

_MOST = 16  # requests of one step; a sum with more of them waits for memory whatever it asks for


@dataclass(frozen=True)
class _Rows:
    """What a tile reads of a tensor: rows of `length` neighbours, from `start` on.

    `apart`: elements from one to the next, and how many, of rows side by side, then of groups of them, and so on.
    """

    buffer: Any
    start: Linear
    apart: tuple[tuple[int, int], ...]
    length: int


def ask_for_next_tiles(node: Any) -> Any:
    """`node` with requests in the innermost loops below annotated ones; unchanged where a tile reads no plain rows."""
    return loops_changed(node, _changed)


def _changed(loop: Any) -> Any:
    if ANNOTATION not in loop.annotations:
        return with_kind(loop, int(loop.kind), ask_for_next_tiles(loop.body))
    if extent_of(loop) == 1:  # a loop that is none stays one for its annotation alone, up to here
        return with_kind(loop, int(tirx.ForKind.UNROLLED), ask_for_next_tiles(loop.body))
    written = written_in(loop)

    def asking(inner: Any, around: list[Any]) -> Any:
        found = [rows for load in _reads(inner.body) if (rows := _rows(load, loop, inner)) is not None]
        of = {rows.buffer: rows for rows in found if rows.buffer not in written}
        if len(of) != 1 or len(found) != 1:  # several reads of a tensor overlap, and one of them asks for the others
            return inner
        return preceded(inner, _requests(found[0], loop, [*around, inner]))

    return with_kind(loop, int(loop.kind), innermost_changed(loop.body, asking))


def _rows(load: Any, tiles: Any, inner: Any) -> _Rows | None:
    """What a tile reads by `load`, which `tiles` moves from tile to tile and `inner` along a row; None if no rows."""
    index = load.indices[0] if len(load.indices) == 1 else None
    form = None if index is None or isinstance(index, tirx.Ramp) else linear(index)
    if form is None or form.factors.get(tiles.loop_var, 0) <= 0:
        return None
    unrolled = {loop.loop_var: extent_of(loop) or 1 for loop in _loops(inner.body)}
    steps = sorted((f, unrolled[v]) for v, f in form.factors.items() if v in unrolled)
    along = form.factors.get(inner.loop_var, 0)
    length, across = 1, []
    for factor, extent in steps:
        if factor == length and factor < along:
            length *= extent
        else:
            across.append((factor, extent))
    if along != length:
        return None
    length *= extent_of(inner) or 1
    while across and across[0][0] == length:
        length *= across.pop(0)[1]
    if any(factor < length for factor, _ in across):
        return None
    start = Linear(form.constant, {v: f for v, f in form.factors.items() if v not in unrolled and v != inner.loop_var})
    return _Rows(load.source, start, tuple(across), length)


def _requests(read: _Rows, tiles: Any, inside: list[Any]) -> list[Any]:
    """Requests of one step: its part of the lines of all rows, in the order of the steps.

    Loops of `inside` that do not move what is read go over it again, and share the lines among them.
    """
    of, _ = element_and_lanes(read.buffer.ty.dtype)
    index = tiles.loop_var.ty.dtype
    each = LINE // of.bytes
    if each < 1 or read.length < each:
        return []
    sharing = [loop for loop in inside if loop.loop_var not in read.start.factors and (extent_of(loop) or 1) > 1]
    steps = prod(extent_of(loop) or 1 for loop in sharing)
    in_row = -(-read.length // each)
    lines = in_row * prod(extent for _, extent in read.apart)
    if -(-lines // steps) > _MOST:
        return []
    step: Any = tirx.IntImm(index, 0)
    for loop in sharing:
        step = step * (extent_of(loop) or 1) + (loop.loop_var - loop.min)
    shared = gcd(lines, steps)
    first = tirx.floordiv(step * (lines // shared), steps // shared)  # the last step of all asks for the last line
    ahead = read.start.factors[tiles.loop_var] * of.bytes
    asked = []
    for number in range(-(-lines // steps)):
        where = total_of(read.start, index) + _place(first + number, in_row, each, read.apart)
        load = read.buffer.vload([where], str(read.buffer.ty.dtype))
        asked.append(request(load, FIRST_CACHE, ahead=ahead))
    return asked


def _place(line: Any, in_row: int, each: int, apart: tuple[tuple[int, int], ...]) -> Any:
    """Elements from the start of a tile's rows to line number `line` of them, `in_row` lines of `each` a row."""
    if not apart:
        return line * each
    place, rest = tirx.floormod(line, in_row) * each, tirx.floordiv(line, in_row)
    for factor, extent in apart[:-1]:
        place, rest = place + tirx.floormod(rest, extent) * factor, tirx.floordiv(rest, extent)
    return place + rest * apart[-1][0]


def _loops(node: Any) -> list[Any]:
    own = [node] if isinstance(node, tirx.For) else []
    return own + [loop for child in children(node) for loop in _loops(child)]


def _reads(node: Any) -> list[Any]:
    """Loads in statements that happen whatever a condition says."""
    if isinstance(node, (tirx.Evaluate, tirx.IfThenElse)):  # a request is no read
        return []
    own = [load for expression in expressions(node) for load in certain_loads(expression)]
    return own + [load for child in children(node) for load in _reads(child)]
