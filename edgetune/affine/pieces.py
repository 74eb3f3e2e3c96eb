"""Pieces: the parts of an axis on each of which a condition, a floored quotient or an extreme is one formula."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from tvm import tirx

from edgetune.affine.domain import MOST_PLACES
from edgetune.affine.expressions import expressions
from edgetune.affine.values import COMPARISONS, Values, integers_at
from edgetune.tvm_types import Expr, Var


def formula_at(node: Expr, axis: Var, places: Values) -> Values | None:
    """A number for each place, which is the same where one formula replaces `node`; None for other nodes.

    That of a comparison is its truth, that of a quotient or a remainder is the quotient, and that of a minimum or a
    maximum is whether its first side is less.
    """
    if type(node) in COMPARISONS:
        found = integers_at(node, {axis: places})
        return None if found is None else found.astype(np.int64)
    if isinstance(node, tirx.FloorDiv | tirx.FloorMod) and isinstance(node.b, tirx.IntImm) and int(node.b.value) > 0:
        found = integers_at(node.a, {axis: places})
        return None if found is None else found // int(node.b.value)
    if isinstance(node, tirx.Min | tirx.Max):
        one, other = (integers_at(side, {axis: places}) for side in (node.a, node.b))
        return None if one is None or other is None else (one < other).astype(np.int64)
    return None


def ends_of(values: Iterable[Expr], axis: Var, extent: int, most: int) -> list[int] | None:
    """Where the pieces of an axis end: the places before which such a formula of the axis alone changes.

    None where there are more than `most` pieces, or too many places to look at.
    """
    if extent > MOST_PLACES:
        return None
    places = np.arange(extent)
    ends = {extent}
    for node in (one for value in values for one in expressions(value)):
        formula = formula_at(node, axis, places)
        if formula is not None:
            ends |= {int(place) + 1 for place in np.flatnonzero(np.diff(formula))}
        if len(ends) > most:
            return None
    return sorted(ends)
