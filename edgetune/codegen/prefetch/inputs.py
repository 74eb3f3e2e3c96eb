"""Software prefetching of inputs: loads the next tile's inputs into L1 while the current tile is summed.

Inputs larger than L2 come from beyond it, a few lines for each step of a short sum. The hardware prefetcher follows few
streams at once, and a tile has one stream per pixel. Therefore each step prefetches its part of the next tile's inputs.
A needless prefetch costs time, but never changes a result.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod

from tvm import tirx

from edgetune.affine.linear import Linear, linear
from edgetune.codegen.contiguous_access import map_innermost_loops, prepend, total_of, written_in
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.prefetch.intrinsics import FIRST_CACHE, LINE, certain_loads, prefetch_line
from edgetune.codegen.traverse import children, expressions, map_loops
from edgetune.codegen.unrolling import extent_of, with_kind
from edgetune.tvm_types import BufferLoad, Expr, For, Stmt, TvmBuffer

ANNOTATION = "edgetune_next_tile"
"""On the loop over tiles: its innermost loops prefetch those inputs of the next tile that depend on the loop."""

_MOST = 16  # prefetches of one step; a sum that needs more waits for memory in any case


@dataclass(frozen=True)
class _Rows:
    """The rows of a tensor that a tile reads: each has `length` adjacent elements, the first from `start` on.

    `strides` has pairs (distance in elements, count): first for adjacent rows, then for groups of rows, and so on.
    """

    buffer: TvmBuffer
    start: Linear
    strides: tuple[tuple[int, int], ...]
    length: int


def prefetch_inputs(node: Stmt) -> Stmt:
    """`node` with prefetches in the innermost loops of annotated loops; unchanged if a tile reads no plain rows."""
    return map_loops(node, _changed)


def _changed(loop: For) -> Stmt:
    if ANNOTATION not in loop.annotations:
        return with_kind(loop, int(loop.kind), prefetch_inputs(loop.body))
    if extent_of(loop) == 1:  # a loop of extent 1 survives only to carry the annotation; unroll it now
        return with_kind(loop, int(tirx.ForKind.UNROLLED), prefetch_inputs(loop.body))
    written = written_in(loop)

    def with_prefetches(inner: For, around: list[For]) -> Stmt:
        found = [rows for load in _reads(inner.body) if (rows := _rows(load, loop, inner)) is not None]
        of = {rows.buffer: rows for rows in found if rows.buffer not in written}
        if len(of) != 1 or len(found) != 1:  # several reads of a tensor overlap, so one prefetches for the others
            return inner
        return prepend(inner, _prefetches(found[0], loop, [*around, inner]))

    return with_kind(loop, int(loop.kind), map_innermost_loops(loop.body, with_prefetches))


def _rows(load: BufferLoad, tiles: For, inner: For) -> _Rows | None:
    """The rows that a tile reads by `load`; `tiles` moves from tile to tile, `inner` along a row. None if no rows."""
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


def _prefetches(read: _Rows, tiles: For, inside: list[For]) -> list[Stmt]:
    """Prefetches of one step: its part of the lines of all rows, in the order of the steps.

    Loops of `inside` whose variable does not change the address read the same data again; they divide the lines.
    """
    of, _ = element_and_lanes(read.buffer.ty.dtype)
    index = tiles.loop_var.ty.dtype
    each = LINE // of.bytes
    if each < 1 or read.length < each:
        return []
    sharing = [loop for loop in inside if loop.loop_var not in read.start.factors and (extent_of(loop) or 1) > 1]
    steps = prod(extent_of(loop) or 1 for loop in sharing)
    in_row = -(-read.length // each)
    lines = in_row * prod(extent for _, extent in read.strides)
    if -(-lines // steps) > _MOST:
        return []
    step: Expr = tirx.IntImm(index, 0)
    for loop in sharing:
        step = step * (extent_of(loop) or 1) + (loop.loop_var - loop.min)
    shared = gcd(lines, steps)
    first = tirx.floordiv(step * (lines // shared), steps // shared)  # the last step prefetches the last line
    ahead = read.start.factors[tiles.loop_var] * of.bytes
    prefetches = []
    for number in range(-(-lines // steps)):
        where = total_of(read.start, index) + _place(first + number, in_row, each, read.strides)
        load = read.buffer.vload([where], str(read.buffer.ty.dtype))
        prefetches.append(prefetch_line(load, FIRST_CACHE, ahead=ahead))
    return prefetches


def _place(line: Expr, in_row: int, each: int, strides: tuple[tuple[int, int], ...]) -> Expr:
    """Elements from the start of a tile's rows to line number `line`; a row has `in_row` lines of `each` elements."""
    if not strides:
        return line * each
    place, rest = tirx.floormod(line, in_row) * each, tirx.floordiv(line, in_row)
    for factor, extent in strides[:-1]:
        place, rest = place + tirx.floormod(rest, extent) * factor, tirx.floordiv(rest, extent)
    return place + rest * strides[-1][0]


def _loops(node: Stmt) -> list[For]:
    own = [node] if isinstance(node, tirx.For) else []
    return own + [loop for child in children(node) for loop in _loops(child)]


def _reads(node: Stmt) -> list[BufferLoad]:
    """Loads in statements that are executed under any condition."""
    if isinstance(node, (tirx.Evaluate, tirx.IfThenElse)):  # a prefetch is not a read
        return []
    own = [load for expression in expressions(node) for load in certain_loads(expression)]
    return own + [load for child in children(node) for load in _reads(child)]
