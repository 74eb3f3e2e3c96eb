"""Loop fusion: sums that read the same elements in loops of equal extents are computed in one pass.

The sum and the sum of squares of each column both read the whole tensor. As two nests of loops they read it twice, from
L2 or memory where it is larger than L1. In one nest an element that is in a register serves both sums.

A nest moves up to an earlier one, together with the statements between them that it depends on, such as those that
clear its sums. None of them may depend on the earlier nest, except for blocks of columns: each step of a loop may read
what the same step of the other one has written. Every sum adds the same terms in the same order as before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import tvm_ffi
from tvm import ir, tirx

from edgetune.affine.expressions import loads_in, operands, variables_in, with_places
from edgetune.affine.linear import linear
from edgetune.codegen.memory import Survey, aliased_buffer, size_of, survey
from edgetune.codegen.traverse import children, expressions, flattened
from edgetune.codegen.unrolling import MAX_TILE_STATEMENTS, extent_of, with_kind
from edgetune.tvm_types import BufferLoad, BufferStore, Expr, For, Stmt, TvmBuffer, Var

_SERIAL = int(tirx.ForKind.SERIAL)
_UNROLLED = int(tirx.ForKind.UNROLLED)
_FAR = 1 << 31  # above every index
_MOST_IN_MEMORY = 8192
"""Most bytes of sums that are in memory during one pass: a part of the smallest L1."""

_KNOWN = (tirx.SeqStmt, tirx.IfThenElse, tirx.For, tirx.BufferStore, tirx.AllocBuffer, tirx.DeclBuffer, tirx.Bind)


def in_one_pass(body: Stmt, register_bytes: int, kept: Collection[Var] = (), *, unrolled: bool) -> Stmt:
    """The statements of a kernel whose sums over the same elements are computed in one pass; `body` if there are none.

    The sums that are in registers in such a pass take at most `register_bytes`. Loops over the variables `kept` stay.
    `unrolled`: loops over sums in registers are marked so. Before that, all loops over sums are taken for such loops.
    """
    fusion = _Fusion(survey(body), register_bytes, frozenset(kept), unrolled)
    joined = fusion.inside(body) if len(fusion.known.allocated) > 1 else body
    return joined if fusion.changed else body


@dataclass
class _Effects:
    """What statements touch outside them. `opaque` statements have effects that are not understood."""

    read: set[TvmBuffer] = field(default_factory=set)
    written: set[TvmBuffer] = field(default_factory=set)
    used: set[Var] = field(default_factory=set)
    bound: set[Var] = field(default_factory=set)
    opaque: bool = False

    def must_follow(self, earlier: _Effects) -> bool:
        """Whether these statements may not move before earlier ones."""
        touched = self.read | self.written
        depends = bool(touched & earlier.written or self.written & earlier.read or self.used & earlier.bound)
        return depends or self.opaque or earlier.opaque


@dataclass
class _Fusion:
    """One run of the pass: what is known of the kernel, the limits, and whether any loops were joined."""

    known: Survey
    register_bytes: int
    kept: frozenset[Var]
    unrolled: bool
    changed: bool = False

    def inside(self, node: Stmt) -> Stmt:
        """`node` with the loops of each sequence in it joined where that saves a pass."""
        if isinstance(node, tirx.SeqStmt):
            return _sequence([self.inside(part) for part in self._joined(flattened(node))])
        if isinstance(node, tirx.For):
            return with_kind(node, int(node.kind), self.inside(node.body))
        if isinstance(node, tirx.IfThenElse):
            otherwise = None if node.else_case is None else self.inside(node.else_case)
            return tirx.IfThenElse(node.condition, self.inside(node.then_case), otherwise)
        if isinstance(node, tirx.AttrStmt):
            return tirx.AttrStmt(node.node, node.attr_key, node.value, self.inside(node.body))
        return node

    def _joined(self, parts: list[Stmt]) -> list[Stmt]:
        """The statements of a sequence, each loop joined with the first one that it can be moved to."""
        later = 1
        while later < len(parts):
            tried = (self._moved(parts, earlier, later) for earlier in range(later))
            found = next((one for one in tried if one is not None), None)
            parts, later = (parts, later + 1) if found is None else (found, later)
        return parts

    def _moved(self, parts: list[Stmt], earlier: int, later: int) -> list[Stmt] | None:
        """The statements with two loops as one, at the place of the first; None if that cannot be, or saves nothing."""
        if not _match(parts[earlier], parts[later], self.kept):
            return None
        joint = self._joint(parts[earlier], parts[later], ())
        if joint is None:
            return None
        effects = {number: self._effects(parts[number]) for number in range(earlier, later + 1)}
        moving = [later]
        for number in range(later - 1, earlier, -1):
            if any(effects[one].must_follow(effects[number]) for one in moving):
                moving.append(number)
        first = effects[earlier]
        if any(effects[one].must_follow(first) for one in moving[1:]):
            return None
        if effects[later].must_follow(first) and not self._in_step(parts[earlier], parts[later], first, effects[later]):
            return None
        self.changed = True
        before = [parts[one] for one in reversed(moving[1:])]
        between = [parts[one] for one in range(earlier + 1, later) if one not in moving]
        return [*parts[:earlier], *before, joint, *between, *parts[later + 1 :]]

    def _in_step(self, first: For, second: For, before: _Effects, after: _Effects) -> bool:
        """Whether the second loop needs nothing of the first but what the same step of the first one writes."""
        if after.opaque or before.opaque or after.written & (before.read | before.written) or after.used & before.bound:
            return False
        kept = before.written & after.read
        own = _steps_apart(first, kept) | _steps_apart(second, kept)
        return len(own) == 1 and None not in own and not any(one in self.known.alias for one in kept)

    def _joint(self, first: For, second: For, around: tuple[For, ...]) -> For | None:
        """Two loops that match as one; None if no sums in it read the same elements."""
        around = (*around, first)
        other = with_places(second.body, {second.loop_var: first.loop_var})
        bodies = first.body, other
        if _match(*bodies, self.kept):
            before, after = map(self._effects, bodies)
            apart = after.must_follow(before) and not self._in_step(*bodies, before, after)
            inner: Stmt | None = None if apart else self._joint(*bodies, around)
        elif not any(map(_has_loops, bodies)):
            inner = _sequence([*flattened(first.body), *flattened(other)]) if self._saves(*bodies, around) else None
        else:
            parts = [*flattened(first.body), *flattened(other)]
            joined = self._joined(parts)
            inner = _sequence(joined) if len(joined) < len(parts) else None
        return None if inner is None else with_kind(first, int(first.kind), inner)

    def _saves(self, first: Stmt, second: Stmt, around: Sequence[For]) -> bool:
        """Whether two bodies load the same elements in each step, and there is room for their sums.

        That is the registers, or `_MOST_IN_MEMORY` bytes for sums that move with the loops.
        """
        stores = [*_stores(first), *_stores(second)]
        sums = {store.buffer for store in stores}
        over_sums = set() if self.unrolled else _used([index for store in stores for index in store.indices])
        tile = {one.loop_var: extent_of(one) or 1 for one in around if _is_unrolled(one) or one.loop_var in over_sums}
        steps = {loop.loop_var for loop in around if loop.loop_var not in tile}
        theirs = [load for load in _loads(second) if load.source not in sums]
        same = any(
            load.source.same_as(other.source) and tvm_ffi.structural_equal(load.indices, other.indices)
            for load in _loads(first)
            if load.source not in sums and steps & _used(load.indices)
            for other in theirs
        )
        if not same or any(map(_calls, (first, second))) or not all(map(self._is_own, sums)):
            return False
        moving = {store.buffer for store in stores if steps & _used(store.indices)}
        in_registers, in_memory = (sum(size_of(self.known.base(one)) for one in of) for of in (sums - moving, moving))
        short = len(stores) * prod(tile.values()) <= MAX_TILE_STATEMENTS
        return short and in_registers <= self.register_bytes and in_memory <= _MOST_IN_MEMORY

    def _effects(self, node: Stmt) -> _Effects:
        found = _Effects()
        self._record(node, found)
        return found

    def _record(self, node: Stmt, found: _Effects) -> None:
        found.opaque |= not isinstance(node, _KNOWN)
        indices = list(node.indices) if isinstance(node, tirx.BufferStore) else []
        found.used |= _used([*expressions(node), *indices])
        for load in loads_in([*expressions(node), *indices]):
            found.read |= self._places(load.source)
        if isinstance(node, (tirx.BufferStore, tirx.AllocBuffer, tirx.DeclBuffer)):
            found.written |= self._places(node.buffer) if isinstance(node, tirx.BufferStore) else {node.buffer}
        if isinstance(node, tirx.DeclBuffer):
            found.read |= self._places(aliased_buffer(node))
        if isinstance(node, tirx.Bind):
            found.bound.add(node.var)
        for child in children(node):
            self._record(child, found)

    def _places(self, buffer: TvmBuffer) -> set[TvmBuffer]:
        """A buffer and the one that it views."""
        return {buffer, self.known.base(buffer)}

    def _is_own(self, buffer: TvmBuffer) -> bool:
        """Whether the kernel allocates a buffer, which therefore is no parameter."""
        return self.known.base(buffer) in self.known.allocated


def _match(first: Stmt, second: Stmt, kept: Collection[Var]) -> bool:
    """Whether two statements are loops of one kind over the same numbers, and nothing is known of either but that."""
    if not isinstance(first, tirx.For) or not isinstance(second, tirx.For):
        return False
    kinds = {int(first.kind), int(second.kind)}
    extents = {extent_of(first), extent_of(second)}
    plain = all(
        isinstance(loop.min, tirx.IntImm) and int(loop.min.value) == 0 and not loop.annotations
        for loop in (first, second)
    )
    same_type = first.loop_var.ty == second.loop_var.ty
    alike = len(kinds) == len(extents) == 1 and None not in extents and kinds <= {_SERIAL, _UNROLLED}
    return plain and alike and same_type and not {first.loop_var, second.loop_var} & frozenset(kept)


def _sequence(parts: Sequence[Stmt]) -> Stmt:
    return parts[0] if len(parts) == 1 else tirx.SeqStmt([*parts])


def _steps_apart(loop: For, buffers: Collection[TvmBuffer]) -> set[int | None]:
    """The distances between the elements of `buffers` that two steps of a loop touch; None where steps share some."""
    extents: dict[Var, int] = {}
    found: set[int | None] = set()

    def visit(node: Stmt) -> None:
        if isinstance(node, tirx.For):
            extents[node.loop_var] = extent_of(node) or _FAR
        places = [(node.buffer, node.indices)] if isinstance(node, tirx.BufferStore) else []
        indices = places[0][1] if places else []
        places += [(load.source, load.indices) for load in loads_in([*expressions(node), *indices])]
        found.update(_distance(at, loop.loop_var, extents) for buffer, at in places if buffer in buffers)
        for child in children(node):
            visit(child)

    visit(loop)
    return found


def _distance(indices: Sequence[Expr], step: Var, extents: Mapping[Var, int]) -> int | None:
    """How far an access moves with each step; None if it reaches into the elements of the next step."""
    index, lanes = indices[0], 1
    if isinstance(index, tirx.Ramp):
        plain = isinstance(index.stride, tirx.IntImm) and int(index.stride.value) == 1
        index, lanes = index.base, int(index.lanes) if plain else _FAR
    form = linear(index) if len(indices) == 1 else None
    if form is None or form.constant < 0 or min(form.factors.values(), default=0) < 0:
        return None
    distance = form.factors.get(step, 0)
    others = ((one, factor) for one, factor in form.factors.items() if not step.same_as(one))
    reach = form.constant + lanes + sum(factor * (extents.get(one, _FAR) - 1) for one, factor in others)
    return distance if reach <= distance else None


def _has_loops(node: Stmt) -> bool:
    return isinstance(node, tirx.For) or any(map(_has_loops, children(node)))


def _stores(node: Stmt) -> list[BufferStore]:
    own = [node] if isinstance(node, tirx.BufferStore) else []
    return own + [store for child in children(node) for store in _stores(child)]


def _is_unrolled(loop: For) -> bool:
    return int(loop.kind) == _UNROLLED


def _loads(node: Stmt) -> list[BufferLoad]:
    return loads_in(expressions(node)) + [load for child in children(node) for load in _loads(child)]


def _calls(node: Stmt) -> bool:
    """Whether a function is called, whose own values need registers."""
    return any(map(_has_call, expressions(node))) or any(map(_calls, children(node)))


def _has_call(node: Expr) -> bool:
    return isinstance(node, ir.Call) or any(map(_has_call, operands(node)))


def _used(nodes: Iterable[Expr]) -> set[Var]:
    found: set[Var] = set()
    variables_in(nodes, found)
    return found
