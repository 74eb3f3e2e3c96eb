"""Borders of copies: loops that copy a tensor with a border become loops over the border and loops over the rest.

`for j in 0..34: copy[j] = 1 <= j < 33 ? image[j - 1] : zero` asks for each element what one loop for the elements of
the image, and one for those on either side of it, need not ask. What a condition says of outer loops alone is asked
before the inner ones: an `if` around both copies. Where a border moves with a loop around the copy, as in strips of a
row, each of its iterations has a copy of its own, and those alike have one. A loop that would become too many stays as
it is, and so does a copy that gathers elements, whose vectors are shuffled.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import tvm_ffi
from tvm import tirx

from edgetune.affine.domain import simplified
from edgetune.affine.expressions import (
    conjuncts,
    is_branch,
    is_moved,
    is_one,
    is_zero,
    loads_in,
    mentions,
    unconverted,
    variables_in,
    with_places,
)
from edgetune.affine.steps import step_along
from edgetune.codegen.traverse import children
from edgetune.codegen.unrolling import extent_of, with_kind
from edgetune.graph.element_type import element_bytes
from edgetune.tvm_types import BufferStore, Expr, For, Stmt, Var

_MOST_RANGES = 4
"""Loops that one loop becomes: a border on both sides, the image, and what fills a last step."""

_MOST_ITERATIONS = 16
"""Iterations of a loop around a copy that may have copies of their own, before those alike have one."""

_MOST_CASES = 4
"""Copies that one copy becomes: in the first strip, in others, in the last one, and one more."""

_BOUNDS: Mapping[type[Expr], Callable[[int, int], bool]] = {
    tirx.LT: operator.lt,
    tirx.LE: operator.le,
    tirx.GT: operator.gt,
    tirx.GE: operator.ge,
}

_VECTOR_BYTES = 16
"""Bytes that a loop of a row copies at a time: the vectors of all cores have as many at least."""


@dataclass(frozen=True)
class _Range:
    """Iterations from `first` to before `end`, in which the bounds of a loop hold or not, in their order."""

    first: int
    end: int
    holds: tuple[bool, ...]


def divide_borders(node: Stmt, kept: Collection[Var] = (), around: Sequence[For] = ()) -> Stmt:
    """`node` with the loops of each copy that has a border divided, but those over the variables `kept`.

    `around` are the loops that it is in.
    """
    if isinstance(node, tirx.For):
        loops, store = _nest(node, kept)
        if store is not None and _is_copy(store.value) and _lies_side_by_side(store, loops[-1].loop_var):
            return _by_iterations(loops, store, around)
        return with_kind(node, int(node.kind), divide_borders(node.body, kept, [*around, node]))
    if isinstance(node, tirx.SeqStmt):
        return tirx.SeqStmt([divide_borders(child, kept, around) for child in node.seq])
    if isinstance(node, tirx.AttrStmt):
        return tirx.AttrStmt(node.node, node.attr_key, node.value, divide_borders(node.body, kept, around))
    if isinstance(node, tirx.IfThenElse):
        cases = [divide_borders(child, kept, around) for child in children(node)]
        return tirx.IfThenElse(node.condition, *cases, *([None] if len(cases) == 1 else []))
    return node


def _by_iterations(loops: Sequence[For], store: BufferStore, around: Sequence[For]) -> Stmt:
    """The `loops` around a store, divided for each iteration of the loop around them that moves its borders."""
    moving = next((loop for loop in around if _moves_borders(store.value, loop, loops[-1].loop_var)), None)
    if moving is None:
        return _divided(loops, store)
    cases: list[tuple[int, Stmt]] = []
    for iteration in range(extent_of(moving) or 0):
        made = _divided(loops, _at_iteration(store, moving.loop_var, iteration))
        if not cases or not tvm_ffi.structural_equal(cases[-1][1], made):
            cases.append((iteration, made))
    if len(cases) > _MOST_CASES:
        return _divided(loops, store)
    *others, (first, found) = cases
    for begin, made in reversed(others):
        found = tirx.IfThenElse(moving.loop_var < first, made, found)
        first = begin
    return found


def _moves_borders(value: Expr, loop: For, innermost: Var) -> bool:
    """Whether a condition of a value depends on a short loop and on the `innermost` one at once."""
    extent = extent_of(loop)
    if extent is None or extent > _MOST_ITERATIONS or not isinstance(loop.min, tirx.IntImm) or int(loop.min.value):
        return False
    asked = [one for choice in _choices(value) for one in conjuncts(choice.args[0])]
    return any(mentions(one, loop.loop_var) and mentions(one, innermost) for one in asked)


def _at_iteration(store: BufferStore, var: Var, iteration: int) -> BufferStore:
    """A store whose conditions are those of one iteration of a loop around it."""
    place = {var: tirx.IntImm(str(var.ty.dtype), iteration)}

    def settled(value: Expr) -> Expr:
        if isinstance(value, tirx.Cast):
            return tirx.Cast(value.ty, settled(value.value))
        if not is_branch(value):
            return value
        condition, *sides = value.args
        asked = [simplified(with_places(one, place)) for one in conjuncts(condition)]
        left = [one for one in asked if not is_one(one)]
        if any(is_zero(one) for one in left):
            return settled(sides[1])
        if not left:
            return settled(sides[0])
        return tirx.if_then_else(reduce(tirx.And, left), *map(settled, sides))

    return tirx.BufferStore(store.buffer, settled(store.value), store.indices)


def _nest(node: Stmt, kept: Collection[Var]) -> tuple[list[For], BufferStore | None]:
    """The loops around one store; None in its place where there is anything else, or a loop that is `kept`."""
    loops: list[For] = []
    while isinstance(node, tirx.For):
        plain = not node.annotations and not any(node.loop_var.same_as(one) for one in kept)
        if not plain or extent_of(node) is None or not isinstance(node.min, tirx.IntImm) or int(node.min.value):
            return [], None
        loops.append(node)
        node = node.body
    return loops, node if isinstance(node, tirx.BufferStore) else None


def _is_copy(value: Expr) -> bool:
    """Whether a value is an element or a constant, chosen by places alone."""
    asked = [choice.args[0] for choice in _choices(value)]
    return bool(asked) and is_moved(value) and not loads_in(asked)


def _lies_side_by_side(store: BufferStore, var: Var) -> bool:
    """Whether neighbours along the innermost loop are neighbours in both tensors: others are shuffled, not copied."""
    return all(step_along(one.indices[-1], var) == 1 for one in (store, *loads_in([store.value])))


def _divided(loops: Sequence[For], store: BufferStore) -> Stmt:
    """The `loops` around a store, divided from the outermost one on."""
    if not loops:
        return store
    loop, *inner = loops
    if int(loop.kind) == int(tirx.ForKind.VECTORIZED):
        return with_kind(loop, int(loop.kind), _inside(inner, store))  # TVM makes lanes of all that is in it
    if int(loop.kind) != int(tirx.ForKind.SERIAL):
        return with_kind(loop, int(loop.kind), _divided(inner, store))
    bounds = list(_bounds(store.value, loop.loop_var))
    ranges = _ranges(bounds, loop)
    if not bounds or len(ranges) > _MOST_RANGES:
        return with_kind(loop, int(loop.kind), _asked_before(inner, store))
    parts = [_over(loop, part, _asked_before(inner, _storing(store, bounds, part.holds))) for part in ranges]
    return parts[0] if len(parts) == 1 else tirx.SeqStmt(parts)


def _inside(loops: Sequence[For], store: Stmt) -> Stmt:
    """A store inside of loops as they are."""
    for loop in reversed(loops):
        store = with_kind(loop, int(loop.kind), store)
    return store


def _over(loop: For, part: _Range, body: Stmt) -> Stmt:
    """A part of a loop; of one iteration, there is no loop."""
    count, var = part.end - part.first, loop.loop_var
    index = str(var.ty.dtype)
    first = tirx.IntImm(index, part.first)
    if count == 1:
        return with_places(body, {var: first})
    lanes = _lanes(body)
    vectors = count // lanes if lanes > 1 else 0
    made: list[Stmt] = []
    if vectors:
        own, lane = tirx.Var(str(var.name), var.ty), tirx.Var("lane", var.ty)
        place = with_places(body, {var: own * lanes + lane + first})
        inner = tirx.For(lane, tirx.IntImm(index, 0), tirx.IntImm(index, lanes), tirx.ForKind.VECTORIZED, place)
        made.append(tirx.For(own, tirx.IntImm(index, 0), tirx.IntImm(index, vectors), loop.kind, inner))
    if left := count - vectors * lanes:
        own, begin = tirx.Var(str(var.name), var.ty), tirx.IntImm(index, part.end - left)
        made.append(tirx.For(own, begin, tirx.IntImm(index, left), loop.kind, with_places(body, {var: own})))
    return made[0] if len(made) == 1 else tirx.SeqStmt(made)


def _lanes(body: Stmt) -> int:
    """The elements that a loop around `body` copies at a time: 1 around another loop, or where something is asked."""
    if not isinstance(body, tirx.BufferStore) or [*_choices(body.value)]:
        return 1
    return max(1, _VECTOR_BYTES // element_bytes(body.buffer))


def _asked_before(inner: Sequence[For], store: BufferStore) -> Stmt:
    """The `inner` loops, inside an `if` that asks what does not depend on them."""
    outer = next(_asked(store.value, [loop.loop_var for loop in inner]), []) if inner else []
    if not outer:
        return _divided(inner, store)
    holding = _storing(store, outer, [True] * len(outer))
    failing = tirx.BufferStore(store.buffer, _without(store.value, outer), store.indices)
    return tirx.IfThenElse(reduce(tirx.And, outer), _asked_before(inner, holding), _asked_before(inner, failing))


def _asked(value: Expr, inner: Collection[Var]) -> Iterator[list[Expr]]:
    """By choices in a value, the conditions of one that mention none of the `inner` variables."""
    for choice in _choices(value):
        outer = [one for one in conjuncts(choice.args[0]) if not any(mentions(one, var) for var in inner)]
        if outer:
            yield outer


def _choices(value: Expr) -> Iterator[Expr]:
    inner = unconverted(value)
    if is_branch(inner):
        yield inner
        for side in inner.args[1:]:
            yield from _choices(side)


def _bounds(value: Expr, var: Var) -> Iterator[Expr]:
    """The conditions of a value that bound a variable by constants."""
    for choice in _choices(value):
        for one in conjuncts(choice.args[0]):
            found: set[Var] = set()
            variables_in([one], found)
            if type(one) in _BOUNDS and found == {var} and step_along(one.a - one.b, var):
                yield one


def _ranges(bounds: Sequence[Expr], loop: For) -> list[_Range]:
    """The iterations of a loop by which of the `bounds` hold; each holds up to some iteration or from it on."""
    extent = extent_of(loop) or 0
    lines = [_Line.of(bound, loop.loop_var) for bound in bounds]
    turns = {turn for line in lines for turn in line.turns() if 0 < turn < extent}
    starts = [0, *sorted(turns)]
    found: list[_Range] = []
    for first, end in zip(starts, [*starts[1:], extent], strict=True):
        holds = tuple(line.holds(first) for line in lines)
        if found and found[-1].holds == holds:
            found[-1] = replace(found[-1], end=end)
        else:
            found.append(_Range(first, end, holds))
    return found


@dataclass(frozen=True)
class _Line:
    """A bound as `start + step * iteration`, compared with 0."""

    start: int
    step: int
    compare: Callable[[int, int], bool]

    @classmethod
    def of(cls, bound: Expr, var: Var) -> _Line:
        """That of a bound of a variable, which is linear."""
        at_zero = simplified(with_places(bound.a - bound.b, {var: tirx.IntImm(str(var.ty.dtype), 0)}))
        return cls(int(at_zero.value), step_along(bound.a - bound.b, var) or 0, _BOUNDS[type(bound)])

    def holds(self, iteration: int) -> bool:
        """Whether the bound holds in an iteration."""
        return self.compare(self.start + self.step * iteration, 0)

    def turns(self) -> range:
        """Iterations next to the zero: if the bound begins or ceases to hold, it does so at one of them."""
        zero = -self.start // self.step
        return range(zero, zero + 3)


def _storing(store: BufferStore, conditions: Sequence[Expr], holds: Sequence[bool]) -> BufferStore:
    """A store of what is chosen where it is known which of some conditions hold."""

    def settled(value: Expr) -> Expr:
        if isinstance(value, tirx.Cast):
            return tirx.Cast(value.ty, settled(value.value))
        if not is_branch(value):
            return value
        condition, *sides = value.args
        asked = [*conjuncts(condition)]
        answers = [_answer(one, conditions, holds) for one in asked]
        if False in answers:
            return settled(sides[1])
        left = [one for one, answer in zip(asked, answers, strict=True) if answer is None]
        if not left:
            return settled(sides[0])
        return tirx.if_then_else(reduce(tirx.And, left), *map(settled, sides))

    return tirx.BufferStore(store.buffer, settled(store.value), store.indices)


def _answer(one: Expr, conditions: Sequence[Expr], holds: Sequence[bool]) -> bool | None:
    known = (held for other, held in zip(conditions, holds, strict=True) if tvm_ffi.structural_equal(one, other))
    return next(known, None)


def _without(value: Expr, conditions: Sequence[Expr]) -> Expr:
    """A value where not all of some conditions hold."""
    if isinstance(value, tirx.Cast):
        return tirx.Cast(value.ty, _without(value.value, conditions))
    if not is_branch(value):
        return value
    condition, *sides = value.args
    asked = [*conjuncts(condition)]
    if all(any(tvm_ffi.structural_equal(one, other) for other in asked) for one in conditions):
        return _without(sides[1], conditions)
    return tirx.if_then_else(condition, *(_without(side, conditions) for side in sides))
