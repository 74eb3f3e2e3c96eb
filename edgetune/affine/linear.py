"""Affine index analysis: indices as linear forms of loop variables."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable
from dataclasses import dataclass

from tvm import ir, tirx

from edgetune.tvm_types import Expr, Var


@dataclass(frozen=True)
class Linear:
    """constant + sum of factor * variable; no factor is 0."""

    constant: int
    factors: dict[Var, int]

    def plus(self, other: Linear, sign: int = 1) -> Linear:
        """The sum, or with `sign` -1 the difference."""
        factors = dict(self.factors)
        for variable, factor in other.factors.items():
            factors[variable] = factors.get(variable, 0) + sign * factor
        return Linear(self.constant + sign * other.constant, {v: f for v, f in factors.items() if f})

    def times(self, factor: int) -> Linear:
        """All terms multiplied by `factor`."""
        return Linear(self.constant * factor, {v: f * factor for v, f in self.factors.items() if f * factor})


def linear(
    e: Expr, known: Container[Var] | None = None, term: Callable[[Expr], Hashable | None] = lambda _: None
) -> Linear | None:
    """`e` as a linear form of variables (only `known` ones if given); None if it is not linear.

    `term` may return a stand-in for a part that is not linear, or None.
    """
    if isinstance(e, tirx.IntImm):
        return Linear(int(e.value), {})
    if isinstance(e, ir.Var):
        return Linear(0, {e: 1}) if known is None or e in known else None
    if isinstance(e, (tirx.Add, tirx.Sub, tirx.Mul)):
        a, b = linear(e.a, known, term), linear(e.b, known, term)
        if a is None or b is None:
            return None
        if not isinstance(e, tirx.Mul):
            return a.plus(b, 1 if isinstance(e, tirx.Add) else -1)
        if not b.factors:
            return a.times(b.constant)
        return b.times(a.constant) if not a.factors else None
    part = term(e)
    return None if part is None else Linear(0, {part: 1})
