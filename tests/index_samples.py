"""Indices of two axes, drawn by hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st
from tvm import tirx

from edgetune.tvm_types import Expr

LANE, ROW = (tirx.Var(name, "int32") for name in "ij")


@st.composite
def indices(draw: st.DrawFn, depth: int = 3) -> Expr:
    """Sums, products by constants, quotients, remainders and clamps of two axes."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from([LANE, ROW, tirx.IntImm("int32", draw(st.integers(-3, 9)))]))
    a, number = draw(indices(depth=depth - 1)), tirx.IntImm("int32", draw(st.integers(1, 9)))
    kind = draw(st.sampled_from(["+", "-", "*", "//", "%", "min"]))
    if kind in "+-":
        b = draw(indices(depth=depth - 1))
        return a + b if kind == "+" else a - b
    made = {"*": lambda: a * number, "//": lambda: tirx.floordiv(a, number), "%": lambda: tirx.floormod(a, number)}
    return made.get(kind, lambda: tirx.min(a, number))()
