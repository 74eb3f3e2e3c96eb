"""Conditional terms: a sum whose terms a condition leaves out, as fewer terms, or as products of padded factors.

Two rewrites of sums, with the same results for finite elements:

- Where the condition holds for few places of an axis, as near the diagonal of a band matrix, `|i - k| <= 8`, or inside
  a block, `k / 32 == i / 32`, the axis has no others: k is `i - 8 + n`. What is left of the condition says that k lies
  inside its range.
- A condition along the lanes around a product belongs to the factors that would be read outside of their tensors:
  `k <= t ? x[t - k] * w[k] : 0` is `(k <= t ? x[t - k] : 0) * w[k]`, of which x may be padded (`copy_layouts.py`).
  What it says besides belongs to another factor. A factor that is infinite where another is 0 makes NaN then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import tvm_ffi
from tvm import ir, sym, tirx

from edgetune.affine.access import Access
from edgetune.affine.domain import Domain
from edgetune.affine.expressions import SLACKS, conjuncts, is_branch, mentions, with_places
from edgetune.affine.steps import step_along
from edgetune.graph.reduction_stage import (
    ReductionStage,
    factors_of,
    is_zero_constant,
    reduction_of,
    unconditional,
    variable,
)
from edgetune.rewrites.stored_values import statements_in, with_statements
from edgetune.target.core import WIDEST
from edgetune.target.costs import MARGINS
from edgetune.tvm_types import BufferLoad, Expr, PrimFunc, Stmt, Var


def with_bounded_terms(function: PrimFunc) -> PrimFunc:
    """`function`, unscheduled, whose conditional sums have fewer terms, or conditions on single factors."""
    before = statements_in(function)
    after = [_bounded(statement) for statement in before]
    same = all(one is other for one, other in zip(before, after, strict=True))
    return function if same else with_statements(function, after, [])


def _bounded(statement: Stmt) -> Stmt:
    whole = reduction_of(statement)
    if whole is None or whole.combine is not tirx.Add or not is_zero_constant(whole.first) or not whole.spatial:
        return statement
    stage = _with_fewer_terms(whole)
    factored = _with_conditional_factors(stage)
    return statement if factored is whole else factored.statement()


def _analyzer(stage: ReductionStage) -> sym.Analyzer:
    return Domain.of((*stage.spatial, *stage.summed)).analyzer


def _product(factors: Sequence[Expr]) -> Expr:
    return reduce(lambda one, other: one * other, factors)


@dataclass(frozen=True)
class _Bound:
    """`step * k + rest` is at least 0."""

    step: int
    rest: Expr


def _bounds(condition: Expr, axis: Var, analyzer: sym.Analyzer) -> Iterator[_Bound]:
    """What a condition says about an axis, where it is linear along it."""
    for slack in _slacks(condition, axis):
        step = step_along(slack, axis)
        rest = analyzer.simplify(slack - (step or 0) * axis)
        if step and not mentions(rest, axis):
            yield _Bound(step, rest)


def _slacks(condition: Expr, axis: Var) -> list[Expr]:
    """Integers that are all at least 0 where a condition holds, and only there; none where they are not known."""
    if type(condition) in SLACKS and "int" in str(condition.a.ty.dtype):
        return [SLACKS[type(condition)](condition)]
    if not isinstance(condition, tirx.EQ) or "int" not in str(condition.a.ty.dtype):
        return []
    for one, other in ((condition.a, condition.b), (condition.b, condition.a)):
        if isinstance(one, tirx.FloorDiv) and isinstance(one.b, tirx.IntImm) and mentions(one, axis):
            first = other * one.b
            return [one.a - first, first + one.b - 1 - one.a] if int(one.b.value) > 0 else []
    return [condition.a - condition.b, condition.b - condition.a]


def _with_fewer_terms(stage: ReductionStage) -> ReductionStage:
    """The sum over the shortest range of an axis in which its conditions can hold."""
    conditions, value = unconditional(stage.term)
    analyzer = _analyzer(stage)
    for axis, extent in stage.summed:
        found = [bound for one in conditions for bound in _bounds(one, axis, analyzer)]
        ranges = []
        for low in (one for one in found if one.step > 0):
            for high in (one for one in found if one.step == -low.step):
                gap = analyzer.simplify(low.rest + high.rest)
                if isinstance(gap, tirx.IntImm) and int(gap.value) >= 0:
                    ranges.append((int(gap.value) // low.step + 1, low, high))
        if ranges:
            places, low, high = min(ranges, key=lambda one: one[0])
            shorter = _shortened(stage, (axis, extent), (conditions, value), places, low, high)
            if shorter is not None:
                return _with_fewer_terms(shorter)
    return stage


def _shortened(
    stage: ReductionStage,
    whole: tuple[Var, int],
    term: tuple[Sequence[Expr], Expr],
    places: int,
    low: _Bound,
    high: _Bound,
) -> ReductionStage | None:
    """The sum with `places` places of an axis, from where its bounds allow some; None where that is no gain."""
    axis, extent = whole
    lane = stage.spatial[-1][0]
    step = low.step
    first = -low.rest if step == 1 else tirx.floordiv(high.rest, step) - (places - 1)
    if places > MARGINS.places_left * extent or (step > 1 and mentions(first, lane)):
        return None
    own = variable(str(axis.name), stage.index_type)
    place = first + own if places > 1 else first
    axes = tuple((own, places) if one.same_as(axis) else (one, size) for one, size in stage.summed)
    made = replace(stage, summed=tuple(one for one in axes if places > 1 or not one[0].same_as(own)))
    analyzer = _analyzer(made)

    def moved(value: Expr) -> Expr:
        return tvm_ffi.structural_map(with_places(value, {axis: place}), (ir.TensorLoad, simplified))

    def simplified(load: BufferLoad) -> BufferLoad:
        return tirx.BufferLoad(load.source, [analyzer.simplify(index) for index in load.indices])

    conditions, value = term
    asked = [*(moved(one) for one in conditions), place >= 0, place < extent]
    left = [one for one in map(analyzer.simplify, asked) if not analyzer.can_prove(one)]
    result = moved(value)
    made = replace(made, term=result)
    vectors = all(Access.of(load).step(lane) in (0, 1) for load in made.loads())
    along = places > 1 and all(Access.of(load).step(own) in (0, 1) for load in made.loads())
    if not vectors and not along and places * WIDEST.lanes > MARGINS.places_left * extent:
        return None  # each element is read by itself
    if not left:
        return made
    zero = tirx.const(0, str(result.ty.dtype))
    return replace(made, term=tirx.if_then_else(tirx.all(*left), result, zero))


def _with_conditional_factors(stage: ReductionStage) -> ReductionStage:
    """The sum with the condition of a product at the factors that would be read outside of their tensors."""
    if not is_branch(stage.term) or not is_zero_constant(stage.term.args[2]):
        return stage
    condition, value, zero = stage.term.args
    parts, analyzer = list(conjuncts(condition)), _analyzer(stage)
    if not mentions(condition, stage.spatial[-1][0]) or not all(type(part) in SLACKS for part in parts):
        return stage
    factors = list(factors_of(value))
    needed = [_outside(factor, analyzer) for factor in factors]
    inside = next((number for number, slacks in enumerate(needed) if not slacks), None)
    if inside is None or len([slacks for slacks in needed if slacks]) != 1:
        return stage
    place = next(number for number, slacks in enumerate(needed) if slacks)
    others = [factor for number, factor in enumerate(factors) if number != place]
    if not all(isinstance(factor, ir.TensorLoad | tirx.FloatImm | tirx.IntImm) for factor in others):
        return stage  # a function or a quotient may be infinite where the term is left out
    slacks = [SLACKS[type(part)](part) for part in parts]
    asks = [any(analyzer.can_prove_equal(slack, one) for one in needed[place]) for slack in slacks]
    known = [any(analyzer.can_prove_equal(slack, one) for slack in slacks) for one in needed[place]]
    own = [part for part, asked in zip(parts, asks, strict=True) if asked] if all(known) else parts
    left = [part for part in parts if not any(part.same_as(one) for one in own)]
    factors[place] = tirx.if_then_else(tirx.all(*own), factors[place], zero)
    if left:
        factors[inside] = tirx.if_then_else(tirx.all(*left), factors[inside], zero)
    return replace(stage, term=_product(factors))


def _outside(factor: Expr, analyzer: sym.Analyzer) -> list[Expr]:
    """What would have to be at least 0 so that a factor reads inside of its tensors, and is not known to be."""
    loads: list[BufferLoad] = []
    tvm_ffi.structural_walk(factor, (ir.TensorLoad, loads.append))
    ends = [
        slack
        for load in loads
        for index, extent in zip(load.indices, load.source.ty.shape, strict=True)
        for slack in (index, extent - 1 - index)
    ]
    return [slack for slack in ends if not analyzer.can_prove(slack >= 0)]
