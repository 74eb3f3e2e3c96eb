"""Index simplification: an index that is linear over all iterations of its loops is written as a linear form.

Axes that became one loop are taken apart again by division and remainder, and flat buffers join them. Where a vector
divides the joined loop but none of its axes, TVM does not see that nothing is left of the divisions: every lane would
have an address of its own. Both forms are compared at all iterations, so no algebra has to know the pattern.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np
import tvm_ffi
from tvm import ir, tirx

from edgetune.affine.expressions import operands, variables_in
from edgetune.affine.linear import Linear, linear
from edgetune.affine.values import values_at
from edgetune.codegen.contiguous_access import total_of
from edgetune.codegen.traverse import children
from edgetune.codegen.unrolling import extent_of
from edgetune.tvm_types import BufferLoad, BufferStore, Expr, PrimFunc, Stmt, Var

MOST_ITERATIONS = 1 << 25
_AT_ONCE = 1 << 20  # iterations that are evaluated together: a few arrays of 8 MB
_TRIED = 64  # random iterations that show most other indices to be no linear form

Places = Mapping[Var, np.ndarray]


class _UnknownError(Exception):
    """An index cannot be compared: its values are not known, or it has too many iterations."""


def with_linear_indices(function: PrimFunc) -> PrimFunc:
    """A flat function in which indices with divisions or remainders are linear forms, where they always equal one."""
    extents = dict(_extents(function.body))

    def rewritten(index: Expr) -> Expr:
        form = _linear_form(index, extents)
        return index if form is None else total_of(form, str(index.ty.dtype))

    def load(one: BufferLoad) -> BufferLoad:
        indices = [rewritten(index) for index in one.indices]
        return one if _equal(indices, one.indices) else tirx.BufferLoad(one.source, indices)

    def store(one: BufferStore) -> BufferStore:
        indices = [rewritten(index) for index in one.indices]
        return one if _equal(indices, one.indices) else tirx.BufferStore(one.buffer, one.value, indices)

    body = tvm_ffi.structural_map(function.body, [(ir.TensorLoad, load), (tirx.BufferStore, store)], order="post")
    return function if body.same_as(function.body) else function.with_body(body)


def _equal(new: Sequence[Expr], old: Sequence[Expr]) -> bool:
    return all(a.same_as(b) for a, b in zip(new, old, strict=True))


def _extents(node: Stmt) -> Iterator[tuple[Var, int]]:
    """The extents of all loops that begin at 0."""
    if isinstance(node, tirx.For):
        extent = extent_of(node)
        if extent is not None and isinstance(node.min, tirx.IntImm) and not int(node.min.value):
            yield node.loop_var, extent
    for child in children(node):
        yield from _extents(child)


def _linear_form(index: Expr, extents: Mapping[Var, int]) -> Linear | None:
    """The linear form that `index` equals in all iterations; None where it is one, or is none, or that is not known."""
    used: set[Var] = set()
    variables_in([index], used)
    if not _divides(index) or linear(index) is not None or not all(variable in extents for variable in used):
        return None
    moving = [variable for variable, extent in extents.items() if variable in used and extent > 1]
    still: Places = {variable: np.asarray(0) for variable in used}
    try:
        start = int(_value(index, still))
        steps = {variable: int(_value(index, {**still, variable: np.asarray(1)})) - start for variable in moving}
        form = Linear(start, {variable: step for variable, step in steps.items() if step})
        every = _iterations(moving, extents, still)
        return form if all(bool(np.all(_value(index, at) == _total(form, at))) for at in every) else None
    except _UnknownError:
        return None


def _iterations(moving: list[Var], extents: Mapping[Var, int], still: Places) -> Iterator[Places]:
    """Some random iterations, then all, in parts. Raises _UnknownError where they are too many."""
    moving = sorted(moving, key=lambda variable: -extents[variable])
    random = np.random.default_rng(0)
    yield {**still, **{variable: random.integers(0, extents[variable], _TRIED) for variable in moving}}
    rest = prod(extents[variable] for variable in moving[1:])
    if not moving or rest > _AT_ONCE or rest * extents[moving[0]] > MOST_ITERATIONS:
        raise _UnknownError
    inner = np.ix_(*(np.arange(extents[variable]) for variable in moving[1:])) if moving[1:] else ()
    step = max(1, _AT_ONCE // rest)
    for first in range(0, extents[moving[0]], step):
        outer = np.arange(first, min(first + step, extents[moving[0]])).reshape(-1, *[1] * len(inner))
        yield {**still, moving[0]: outer, **dict(zip(moving[1:], inner, strict=True))}


def _total(form: Linear, at: Places) -> np.ndarray:
    return np.asarray(form.constant + sum(factor * at[variable] for variable, factor in form.factors.items()))


def _divides(index: Expr) -> bool:
    return isinstance(index, (tirx.FloorDiv, tirx.FloorMod)) or any(map(_divides, operands(index)))


def _value(index: Expr, at: Places) -> np.ndarray:
    """An index at places of its variables. Raises _UnknownError."""
    found = values_at(index, at)
    if found is None:
        raise _UnknownError
    return found
