"""Barriers between which no thread touches a word of shared memory that another has written: they are left out.

TVM puts a barrier wherever a buffer is written and then read, whoever does both. Here each thread of a block is
followed: the words that it reads and writes between two barriers are sets of numbers. Barriers inside of loops stay,
as do those next to what cannot be followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

import numpy as np
from tvm import ir, tirx

from edgetune.affine.expressions import loads_in
from edgetune.codegen.cuda.lower import AXES, LoweredLaunch, thread_variable
from edgetune.codegen.cuda.tidy import SHARED, is_barrier, rebuilt, statements_in
from edgetune.codegen.cuda.tile_intrinsics import TILE
from edgetune.codegen.cuda.tiles import TileAccess, TileStatement
from edgetune.codegen.cuda.warp_reduction import WARP
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.traverse import children, expressions
from edgetune.tvm_types import Expr, Stmt, TvmBuffer, Var

Numbers: TypeAlias = np.ndarray
"""A value of each thread of a block."""

_MOST_STEPS = 1 << 20  # accesses of all threads in one segment
_WORD = 2  # bytes: the smallest that two threads write without disturbing each other's elements
_OPERATORS = {
    tirx.Add: np.add,
    tirx.Sub: np.subtract,
    tirx.Mul: np.multiply,
    tirx.FloorDiv: np.floor_divide,
    tirx.FloorMod: np.mod,
    tirx.Min: np.minimum,
    tirx.Max: np.maximum,
    tirx.EQ: np.equal,
    tirx.NE: np.not_equal,
    tirx.LT: np.less,
    tirx.LE: np.less_equal,
    tirx.GT: np.greater,
    tirx.GE: np.greater_equal,
    tirx.And: np.logical_and,
    tirx.Or: np.logical_or,
}


class _UnknownError(Exception):
    """Something that cannot be followed."""


@dataclass
class _Segment:
    """What happens between two barriers: by buffer, the words that threads touch, and whether they write them."""

    touched: dict[TvmBuffer, list[tuple[Numbers, Numbers, bool]]] = field(default_factory=dict)
    known: bool = True

    def meets(self, later: _Segment) -> bool:
        """Whether two threads touch a word, one here and one in a `later` segment, and at least one writes it."""
        if not (self.known and later.known):
            return True
        return any(
            (writes or writes_later) and _meet(threads, words, threads_later, words_later)
            for buffer in self.touched.keys() & later.touched.keys()
            for threads, words, writes in self.touched[buffer]
            for threads_later, words_later, writes_later in later.touched[buffer]
        )

    def joined(self, later: _Segment) -> _Segment:
        """Both as one."""
        both = {
            buffer: [*self.touched.get(buffer, ()), *later.touched.get(buffer, ())]
            for buffer in {**self.touched, **later.touched}
        }
        return _Segment(both, self.known and later.known)


def _meet(threads: Numbers, words: Numbers, others: Numbers, their_words: Numbers) -> bool:
    """Whether a word of one thread is one of another thread."""
    size = 1 + max(int(words.max(initial=0)), int(their_words.max(initial=0)))
    lowest, highest = np.full(size, np.iinfo(np.int64).max), np.full(size, -1)
    np.minimum.at(lowest, words, threads)
    np.maximum.at(highest, words, threads)
    low, high = lowest[their_words], highest[their_words]
    return bool(np.any((high >= 0) & ((low != others) | (high != others))))


def without_needless_barriers(launch: LoweredLaunch) -> Stmt:
    """The body of a launch without the barriers that order nothing."""
    if any(isinstance(node, tirx.DeclBuffer) and _is_shared(node.buffer) for node in statements_in(launch.body)):
        return launch.body  # views of shared memory
    return _rebuilt(launch.body, _needless(launch), [0])


def _needless(launch: LoweredLaunch) -> set[int]:
    """Numbers of the barriers outside of loops that order nothing, in the order of the text."""
    follow = _Follow(launch)
    needless: set[int] = set()
    before, current, number = _Segment(), follow.segment, -1
    for statement in _straight(launch.body):
        if not is_barrier(statement):
            follow.statement(statement, np.ones(follow.threads, bool))
            continue
        before = _closed(before, current, number, needless)
        number += 1
        current = follow.segment = _Segment()
    _closed(before, current, number, needless)
    return needless


def _closed(before: _Segment, current: _Segment, number: int, needless: set[int]) -> _Segment:
    """What the next barrier has to order, after the segment that follows the barrier `number`."""
    if before.meets(current):
        return current
    if number >= 0:
        needless.add(number)
    return before.joined(current)


def _straight(node: Stmt) -> Iterator[Stmt]:
    """The statements that all threads pass once, in their order."""
    if isinstance(node, tirx.SeqStmt | tirx.AttrStmt):
        for child in children(node):
            yield from _straight(child)
    else:
        yield node


def _rebuilt(node: Stmt, needless: set[int], passed: list[int]) -> Stmt:
    if isinstance(node, tirx.AttrStmt | tirx.SeqStmt):
        return rebuilt(node, [_rebuilt(child, needless, passed) for child in children(node)])
    if is_barrier(node):
        passed[0] += 1
        if passed[0] - 1 in needless:
            return tirx.Evaluate(tirx.IntImm("int32", 0))
    return node


class _Follow:
    """Follows all threads of a block at once; `segment` gets what they touch."""

    def __init__(self, launch: LoweredLaunch) -> None:
        x, y, _ = launch.block
        self.threads = prod(launch.block)
        self.segment = _Segment()
        self._numbers = np.arange(self.threads)
        self._values: dict[Var, Numbers] = {}
        of_axis = (self._numbers % x, self._numbers // x % y, self._numbers // x // y)
        axes = {f"threadIdx.{axis}": values for axis, values in zip(AXES, of_axis, strict=True)}
        for node in statements_in(launch.body):
            if isinstance(node, tirx.AttrStmt) and node.attr_key == "thread_extent":
                axis = str(node.node.thread_tag)
                if axis in axes:
                    self._values[thread_variable(node)] = axes[axis]
                elif launch.extents[axis] == 1:
                    self._values[thread_variable(node)] = np.zeros_like(self._numbers)
        self._steps = 0

    def statement(self, node: Stmt, active: Numbers) -> None:
        """Follow the `active` threads through a statement."""
        if isinstance(node, tirx.For):
            self._loop(node, active)
            return
        if is_barrier(node) or isinstance(node, tirx.While):
            self.segment.known = False
            return
        if (on_tiles := TileStatement.of(node)) is not None:
            self._touch_tile(on_tiles.in_shared_memory, active)
            return
        reads = loads_in(expressions(node))
        if isinstance(node, tirx.BufferStore):
            reads += loads_in(node.indices)
            self._touch(node.buffer, node.indices, active, writes=True)
        for read in reads:
            self._touch(read.source, read.indices, active, writes=False)
        if isinstance(node, tirx.Bind):
            self._bind(node)
        elif isinstance(node, tirx.IfThenElse):
            taken, other = self._branches(node.condition, active)
            self.statement(node.then_case, taken)
            if node.else_case is not None:
                self.statement(node.else_case, other)
        else:
            for child in children(node):
                self.statement(child, active)

    def _loop(self, node: Stmt, active: Numbers) -> None:
        if not isinstance(node.extent, tirx.IntImm) or not isinstance(node.min, tirx.IntImm):
            self.segment.known = False
            return
        for value in range(int(node.min.value), int(node.min.value) + int(node.extent.value)):
            self._steps += self.threads
            if self._steps > _MOST_STEPS:
                self.segment.known = False
            if not self.segment.known:
                return
            self._values[node.loop_var] = np.full(self.threads, value)
            self.statement(node.body, active)

    def _bind(self, node: Stmt) -> None:
        try:
            self._values[node.var] = self._value(node.value)
        except _UnknownError:
            self._values.pop(node.var, None)

    def _branches(self, condition: Expr, active: Numbers) -> tuple[Numbers, Numbers]:
        """The threads that may take either branch."""
        try:
            holds = self._value(condition).astype(bool)
        except _UnknownError:
            return active, active
        return active & holds, active & ~holds

    def _touch(self, buffer: TvmBuffer, indices: list[Expr], active: Numbers, *, writes: bool) -> None:
        if not _is_shared(buffer):
            return
        of, lanes = element_and_lanes(buffer.ty.dtype)
        try:
            (at,) = (self._value(index) for index in indices)
        except (_UnknownError, ValueError):
            self.segment.known = False
            return
        if lanes != 1 or np.any(at[active] < 0):
            self.segment.known = False
            return
        words = at[active] * of.bytes // _WORD
        self.segment.touched.setdefault(buffer, []).append((self._numbers[active], words, writes))

    def _touch_tile(self, tile: TileAccess | None, active: Numbers) -> None:
        """A warp touches a tile as if it were a thread of its own: which lane holds which element is not said."""
        if tile is None:
            return
        try:
            first = self._value(tile.index)[active]
        except _UnknownError:
            self.segment.known = False
            return
        warps = self.threads + self._numbers[active] // WARP * 2 + tile.writes
        whole = np.unique(np.stack([warps, first]), axis=1)
        of, _ = element_and_lanes(tile.buffer.ty.dtype)
        inside = (np.arange(TILE)[:, None] * tile.pitch + np.arange(TILE)).ravel()
        words = (whole[1][:, None] + inside).ravel() * of.bytes // _WORD
        found = (np.repeat(whole[0], inside.size), words, tile.writes)
        self.segment.touched.setdefault(tile.buffer, []).append(found)

    def _value(self, e: Expr) -> Numbers:
        if isinstance(e, tirx.IntImm):
            return np.full(self.threads, int(e.value))
        if isinstance(e, ir.Var) and e in self._values:
            return self._values[e]
        if isinstance(e, tirx.Cast):
            return self._value(e.value)
        if isinstance(e, tirx.Not):
            return ~self._value(e.a).astype(bool)
        known: Mapping[type, np.ufunc] = _OPERATORS
        if type(e) not in known:
            raise _UnknownError
        value: Numbers = np.asarray(known[type(e)](self._value(e.a), self._value(e.b)))
        return value


def _is_shared(buffer: TvmBuffer) -> bool:
    return str(buffer.scope()) == SHARED
