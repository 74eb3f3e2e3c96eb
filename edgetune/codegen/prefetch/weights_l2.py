"""Software prefetching of weights into L2: loads the next block of channels while the current block is computed.

Weights larger than the cache come from memory once per run of a model. If a block of channels is computed for all
pixels, only its first tile reads the weights from memory and waits for them, while memory is idle during later tiles.
Therefore each tile prefetches its part of the next block. A needless or early prefetch costs time, but never changes a
result.
"""

from __future__ import annotations

from math import prod

from tvm import tirx

from edgetune.affine.linear import Linear
from edgetune.codegen.collapse_loops import Shared
from edgetune.codegen.contiguous_access import Stream, map_innermost_loops, prepend, stream_of, total_of, written_in
from edgetune.codegen.prefetch.intrinsics import SECOND_CACHE, prefetch_lines
from edgetune.codegen.traverse import children, map_loops
from edgetune.codegen.unrolling import extent_of, with_kind
from edgetune.tvm_types import Expr, For, Stmt

ANNOTATION = "edgetune_prefetch"
"""On the loop over blocks: data that depends on the block but not on the tile is prefetched one block ahead."""


def prefetch_weights_l2(node: Stmt, shared: Shared | None = None) -> Stmt:
    """`node` with prefetches in annotated loops; unchanged if no data is streamed by blocks.

    If threads share the tiles of a block (all `shared` loops are inside it), each prefetches the whole next block,
    because each core has its own cache.
    """
    return map_loops(node, lambda loop: _prefetched(loop, shared))


def prefetches_weights_l2(node: Stmt) -> bool:
    """Whether a loop over several blocks in `node` carries the annotation."""
    own = isinstance(node, tirx.For) and ANNOTATION in node.annotations and extent_of(node) != 1
    return own or any(map(prefetches_weights_l2, children(node)))


def _prefetched(loop: For, shared: Shared | None) -> Stmt:
    if ANNOTATION not in loop.annotations:
        return with_kind(loop, int(loop.kind), prefetch_weights_l2(loop.body, shared))
    written = written_in(loop)

    def with_prefetches(inner: For, tiles: list[For]) -> Stmt:
        stream = stream_of(inner.body, loop.loop_var, written)
        return inner if stream is None else prepend(inner, _prefetches(stream, loop, [*tiles, inner], shared))

    return with_kind(loop, int(loop.kind), map_innermost_loops(loop.body, with_prefetches))


def _prefetches(stream: Stream, block: For, inside: list[For], shared: Shared | None) -> list[Stmt]:
    """Prefetches of one iteration: a tile's part of what the next block reads here."""
    step = stream.start.factors[block.loop_var]
    inner = {loop.loop_var for loop in inside}
    above = {v: f for v, f in stream.start.factors.items() if v not in inner}
    size = prod(int(extent.value) for extent in stream.buffer.ty.shape)
    if step <= 0 or size % step or size == step or any(f % step for f in above.values()):
        return []
    again = [loop for loop in inside if loop.loop_var not in stream.start.factors and (extent_of(loop) or 1) > 1]
    index = block.loop_var.ty.dtype
    tile, tiles, most = _number(again, shared, index)
    number = total_of(Linear(0, {v: f // step for v, f in above.items()}), index)
    ahead = tirx.Select(number < size // step - 1, tirx.IntImm(index, step), tirx.IntImm(index, 0))
    slow = [loop for loop in inside if loop.loop_var in stream.start.factors]
    if _in_a_line(stream, slow):  # each tile prefetches adjacent lines: memory delivers them faster than distant ones
        length, parts = _shares(stream.length, tiles)
        start, now, rounds = total_of(Linear(stream.start.constant, above), index), tirx.IntImm(index, 0), 1
        for loop in slow:
            start = start + loop.min * stream.start.factors[loop.loop_var]
            now = now * (extent_of(loop) or 1) + (loop.loop_var - loop.min)
            rounds *= extent_of(loop) or 1
        start = start + now * length
    else:
        parts, rounds = 1, 1
        while 2 * parts <= tiles and stream.length % (2 * parts) == 0:
            parts *= 2
        length = stream.length // parts
        start = total_of(stream.start, index)
    start = start + ahead + (tirx.min(tile, parts - 1) if parts < most else tile) * (length * rounds)
    return prefetch_lines(stream.buffer, start, length, SECOND_CACHE)


def _number(loops: list[For], shared: Shared | None, index: str) -> tuple[Expr, int, int]:
    """(number of an iteration of `loops` within a range, least count of such iterations, greatest count)."""
    places = [(loop.loop_var, extent_of(loop) or 1, extent_of(loop) or 1) for loop in loops]
    if shared is not None:
        for first in range(len(places) - len(shared.loops) + 1):
            found = places[first : first + len(shared.loops)]
            if all(v.same_as(w) for (v, _, _), w in zip(found, shared.loops, strict=True)):
                own = (_digits(found, index)[0] - shared.first, shared.least, shared.iterations)
                return _digits([*places[:first], own, *places[first + len(found) :]], index)
    return _digits(places, index)


def _digits(places: list[tuple[Expr, int, int]], index: str) -> tuple[Expr, int, int]:
    """(number with these digits, outermost first; least count of such numbers, greatest count)."""
    number: Expr = tirx.IntImm(index, 0)
    for value, least, _ in places:
        number = number * least + value
    return number, prod(least for _, least, _ in places), prod(most for _, _, most in places)


def _shares(length: int, tiles: int) -> tuple[int, int]:
    """(elements of a share, number of shares) of `length` elements for at most `tiles` tiles, with the least rest."""
    least, most = length // tiles, -(-length // tiles)
    return max((least, tiles), (most, length // most), key=prod)


def _in_a_line(stream: Stream, slow: list[For]) -> bool:
    """Whether the iterations of the loops `slow`, outermost first, read adjacent elements one after another."""
    length = stream.length
    for loop in reversed(slow):
        if stream.start.factors[loop.loop_var] != length:
            return False
        length *= extent_of(loop) or 1
    return bool(slow)
