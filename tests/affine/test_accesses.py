"""Accesses: how they move through their tensors, and whether they are inside."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import tirx

from edgetune.affine.access import Access
from edgetune.affine.domain import Domain, is_inside_at
from edgetune.affine.expressions import mentions
from edgetune.affine.pieces import ends_of
from edgetune.affine.values import integers_at
from edgetune.tvm_types import Expr
from tests.index_samples import LANE, ROW, indices

X = tirx.decl_buffer((5, 6), "float32", "x")


@pytest.mark.parametrize(
    ("places", "step", "follows", "stays"),
    [
        ([ROW, LANE], 1, True, True),
        ([ROW, LANE - 1], 1, True, True),
        ([LANE, ROW], 6, False, False),
        ([ROW, ROW + 2], 0, False, True),
        ([tirx.floordiv(LANE, 6), tirx.floormod(LANE, 6)], 1, False, False),  # neighbours in memory, along two axes
        ([ROW, LANE * 2], 2, False, False),
        ([LANE, LANE], 7, False, False),
    ],
)
def test_moves(places: list[Expr], step: int, follows: bool, stays: bool) -> None:
    access = Access(X, places, Domain.of([(LANE, 30)]))
    assert (access.step(LANE), access.follows(LANE), access.stays_or_follows(LANE)) == (step, follows, stays)


@pytest.mark.parametrize(
    ("places", "step"),
    [
        ([ROW, LANE], 1),
        ([ROW + 1, LANE], 1),
        ([4 - ROW, 5 - LANE], -1),
        ([ROW, LANE * 2], None),  # of 12 places in a row of 6
        ([LANE, ROW], None),
        ([LANE * 0, LANE * 0], 0),
        ([tirx.IntImm("int32", 2), LANE], None),
        ([tirx.floordiv(ROW, 2), LANE], None),
    ],
)
def test_axes_that_count_as_one(places: list[Expr], step: int | None) -> None:
    axes = [tirx.IterVar((0, 5), ROW, 0), tirx.IterVar((0, 6), LANE, 0)]
    assert Access(X, places).joint_step(axes) == step


def test_axes_count_as_one_whatever_others_do() -> None:
    plane, tensor = tirx.Var("plane", "int32"), tirx.decl_buffer((9, 5, 6), "float32", "y")
    axes = [tirx.IterVar((0, 5), ROW, 0), tirx.IterVar((0, 6), LANE, 0)]
    assert Access(tensor, [tirx.floordiv(plane * plane, 3), ROW, LANE]).joint_step(axes) == 1


@given(indices(), st.integers(1, 12), st.integers(1, 6), st.integers(1, 30))
def test_inside_is_what_all_places_say(index: Expr, extent: int, rows: int, size: int) -> None:
    domain = Domain.of([(LANE, extent), (ROW, rows)])
    values = integers_at(index, {LANE: np.arange(extent), ROW: np.arange(rows)[:, None]})
    assert values is not None
    assert domain.is_inside(index, size) == bool(np.all((values >= 0) & (values < size)))
    if mentions(index, LANE):  # conditions on other axes than its own are taken to hold
        inside = (values >= 0) & (values < size) | ~(np.arange(extent) < 3)
        places = {LANE: np.arange(extent), ROW: np.arange(rows)}
        assert is_inside_at(index, size, places, [LANE < 3]) == bool(np.all(inside))


def test_what_is_not_known_is_not_inside() -> None:
    assert not Domain.of([(LANE, 3)]).is_inside(LANE + ROW, 10)


@given(indices(), st.integers(2, 40))
def test_a_piece_is_one_formula(index: Expr, extent: int) -> None:
    index = tirx.min(index, tirx.IntImm("int32", 7))
    ends = ends_of([index], LANE, extent, most=extent + 1)
    assert ends is not None
    assert ends[-1] == extent
    values = integers_at(index, {LANE: np.arange(extent), ROW: np.asarray(0)})
    assert values is not None
    if not mentions(index, ROW):  # what depends on another axis is not known
        for first, end in zip([0, *ends], ends, strict=False):
            assert len(set(np.diff(values[first:end]).tolist())) <= 1
