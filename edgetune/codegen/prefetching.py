"""Weights of the next block of channels on their way to the second cache while this block is computed.

Weights that exceed the cache come from memory once for each run of a model. A block of channels that is done for all
pixels reads its own from there for its first tile alone, which waits for them, while later tiles leave the memory idle.
Here each tile asks for its part of the next block. What is asked for too much or too early costs time, never a result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import tirx

from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.fusing import Shared
from edgetune.codegen.linear import Linear, linear
from edgetune.codegen.traverse import children, expressions, loads_in, loops_changed
from edgetune.codegen.unrolling import extent_of, with_kind

ANNOTATION = "edgetune_prefetch"
"""On the loop over blocks: what it reads alone, and in all tiles alike, is asked for one block ahead."""

_LINE = 64  # bytes of a line of the cache
_SECOND_CACHE = 2  # the locality of __builtin_prefetch that leaves the first cache to what is computed


@dataclass(frozen=True)
class Stream:
    """What one iteration of an innermost loop reads of a buffer: `length` neighbours, from `start` on."""

    buffer: Any
    start: Linear
    length: int


def prefetch_blocks(node: Any, shared: Shared | None = None) -> Any:
    """`node` with prefetches in loops that carry the annotation; unchanged where nothing is streamed by blocks.

    Where threads have the tiles of a block among them, `shared` loops all inside it, each asks for the whole next
    block: its core's cache is its own.
    """
    return loops_changed(node, lambda loop: _prefetched(loop, shared))


def asks_ahead(node: Any) -> bool:
    """Whether a loop over several blocks in `node` carries the annotation."""
    own = isinstance(node, tirx.For) and ANNOTATION in node.annotations and extent_of(node) != 1
    return own or any(map(asks_ahead, children(node)))


def _prefetched(loop: Any, shared: Shared | None) -> Any:
    if ANNOTATION in loop.annotations:
        return with_kind(loop, int(loop.kind), _ahead(loop.body, loop, [], written_in(loop), shared))
    return with_kind(loop, int(loop.kind), prefetch_blocks(loop.body, shared))


def _ahead(node: Any, block: Any, tiles: list[Any], written: set[Any], shared: Shared | None) -> Any:
    """`node` with prefetches in its innermost loops; `tiles` are the loops between it and the loop over blocks."""
    if isinstance(node, tirx.SeqStmt):
        return tirx.SeqStmt([_ahead(child, block, tiles, written, shared) for child in node.seq])
    if isinstance(node, tirx.IfThenElse) and node.else_case is None:
        return tirx.IfThenElse(node.condition, _ahead(node.then_case, block, tiles, written, shared), None)
    if not isinstance(node, tirx.For) or int(node.kind) != int(tirx.ForKind.SERIAL):
        return node
    if contains_loops(node.body):
        return with_kind(node, int(node.kind), _ahead(node.body, block, [*tiles, node], written, shared))
    stream = stream_of(node.body, block.loop_var, written)
    if stream is None:
        return node
    asked = _requests(stream, block, [*tiles, node], shared)
    body = list(node.body.seq) if isinstance(node.body, tirx.SeqStmt) else [node.body]
    return with_kind(node, int(node.kind), tirx.SeqStmt([*asked, *body])) if asked else node


def _requests(stream: Stream, block: Any, inside: list[Any], shared: Shared | None) -> list[Any]:
    """Prefetches of one iteration: the part that a tile is to fetch of what the next block reads in this place."""
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
    if _in_a_line(stream, slow):  # each tile asks for neighbours: memory gives them faster than lines that lie apart
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
    of, _ = element_and_lanes(stream.buffer.ty.dtype)
    asked = [stream.buffer.vload([start + n], str(stream.buffer.ty.dtype)) for n in range(0, length, _LINE // of.bytes)]
    return [tirx.Evaluate(tirx.call_intrin("int32", "tirx.prefetch", load, 0, _SECOND_CACHE, 0)) for load in asked]


def _number(loops: list[Any], shared: Shared | None, index: Any) -> tuple[Any, int, int]:
    """(number of an iteration of `loops` among those of a range, how many these are at least, and at most)."""
    places = [(loop.loop_var, extent_of(loop) or 1, extent_of(loop) or 1) for loop in loops]
    if shared is not None:
        for first in range(len(places) - len(shared.loops) + 1):
            found = places[first : first + len(shared.loops)]
            if all(v.same_as(w) for (v, _, _), w in zip(found, shared.loops, strict=True)):
                own = (_digits(found, index)[0] - shared.begin, shared.least, shared.iterations)
                return _digits([*places[:first], own, *places[first + len(found) :]], index)
    return _digits(places, index)


def _digits(places: list[tuple[Any, int, int]], index: Any) -> tuple[Any, int, int]:
    """(number of which these are the digits, outermost first; numbers there are at least, and at most)."""
    number: Any = tirx.IntImm(index, 0)
    for value, least, _ in places:
        number = number * least + value
    return number, prod(least for _, least, _ in places), prod(most for _, _, most in places)


def _shares(length: int, tiles: int) -> tuple[int, int]:
    """(elements of a share, shares) of `length` elements for at most `tiles` tiles, with the smallest rest."""
    least, most = length // tiles, -(-length // tiles)
    return max((least, tiles), (most, length // most), key=prod)


def _in_a_line(stream: Stream, slow: list[Any]) -> bool:
    """Whether the iterations of the loops `slow`, outermost first, read one after another what lies side by side."""
    length = stream.length
    for loop in reversed(slow):
        if stream.start.factors[loop.loop_var] != length:
            return False
        length *= extent_of(loop) or 1
    return bool(slow)


def stream_of(body: Any, block: Any, written: set[Any]) -> Stream | None:
    """The buffer of which `body` reads neighbours that `block` decides on, the one with the longest step of it."""
    unrolled = {loop.loop_var: extent_of(loop) or 1 for loop in _all_loops(body)}
    found: dict[Any, list[tuple[Linear, int]]] = {}
    for load in _loads(body):
        index = load.indices[0] if len(load.indices) == 1 else None
        lanes = int(index.lanes) if isinstance(index, tirx.Ramp) and _is_one(index.stride) else 1
        form = linear(index.base if isinstance(index, tirx.Ramp) else index)
        if form is not None and load.source not in written and form.factors.get(block, 0) > 0:
            found.setdefault(load.source, []).append((form, lanes))
    best: Stream | None = None
    for buffer, reads in found.items():
        form, lanes = reads[0]
        covered = lanes * prod(unrolled[v] for v in form.factors if v in unrolled)
        last = sum(f * (unrolled[v] - 1) for v, f in form.factors.items() if v in unrolled) + lanes
        same = len(reads) == 1 and last == covered
        start = Linear(form.constant, {v: f for v, f in form.factors.items() if v not in unrolled})
        if same and (best is None or start.factors[block] > best.start.factors[block]):
            best = Stream(buffer, start, covered)
    return best


def total_of(form: Linear, dtype: Any) -> Any:
    """The linear form as an expression."""
    total: Any = tirx.IntImm(dtype, form.constant)
    for variable, factor in form.factors.items():
        total = total + variable * factor
    return total


def _is_one(value: Any) -> bool:
    return isinstance(value, tirx.IntImm) and int(value.value) == 1


def _all_loops(node: Any) -> Iterator[Any]:
    if isinstance(node, tirx.For):
        yield node
    for child in children(node):
        yield from _all_loops(child)


def contains_loops(node: Any) -> bool:
    """Whether a loop in `node` stays one."""
    return any(int(loop.kind) == int(tirx.ForKind.SERIAL) and extent_of(loop) != 1 for loop in _all_loops(node))


def written_in(node: Any) -> set[Any]:
    """Buffers that `node` stores to."""
    found = {node.buffer} if isinstance(node, tirx.BufferStore) else set()
    return found.union(*map(written_in, children(node)))


def _loads(node: Any) -> Iterator[Any]:
    if isinstance(node, tirx.Evaluate):  # a request is no read
        return
    yield from loads_in(expressions(node))
    for child in children(node):
        yield from _loads(child)
