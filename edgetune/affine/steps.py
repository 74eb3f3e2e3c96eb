"""Steps: by how much an index changes from one place of an axis to the next."""

from __future__ import annotations

from tvm import ir, sym, tirx

from edgetune.affine.domain import Domain
from edgetune.affine.expressions import mentions, with_places
from edgetune.affine.linear import linear
from edgetune.tvm_types import Expr, Var


def step_along(index: Expr, axis: Var, domain: Domain | None = None) -> int | None:
    """The change of `index` from one place of `axis` to the next, which is 0 where it has no such axis.

    None where that is not always the same. In a `domain` that has the axis, a quotient or a remainder of it may have a
    step as well.
    """
    form = linear(index)
    if form is not None:
        return form.factors.get(axis, 0)
    if not mentions(index, axis):
        return 0
    analyzer = sym.Analyzer() if domain is None else domain.analyzer
    index = analyzer.simplify(index)  # inside of the domain: the place after the last one is outside
    change = analyzer.simplify(with_places(index, {axis: axis + 1}) - index)
    return int(change.value) if isinstance(change, tirx.IntImm) else None


def steps_in_blocks(index: Expr, axis: Var, places: int) -> bool:
    """Whether `index` moves by one with `axis` inside each block of so many places."""
    if step_along(index, axis) == 1:
        return True
    analyzer = sym.Analyzer()
    block, lane = tirx.Var("block", axis.ty), tirx.Var("lane", axis.ty)
    dtype = str(axis.ty.dtype)
    analyzer.bind(lane, ir.Range.from_min_extent(tirx.IntImm(dtype, 0), tirx.IntImm(dtype, places)))
    change = with_places(index, {axis: block * places + lane}) - with_places(index, {axis: block * places})
    return bool(analyzer.can_prove_equal(change, lane))
