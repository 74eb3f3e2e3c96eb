"""Values of indices at places are those of Python, element by element."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tirx

from edgetune.affine.values import integers_at, values_at
from edgetune.tvm_types import Expr
from tests.index_samples import LANE, ROW

PLACES = {LANE: np.arange(6), ROW: np.arange(4)[:, None]}


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (LANE * 3 - ROW, lambda i, j: i * 3 - j),
        (tirx.floordiv(LANE - 4, 3), lambda i, _: (i - 4) // 3),
        (tirx.floormod(LANE - 4, 3), lambda i, _: (i - 4) % 3),
        (tirx.max(tirx.min(LANE + ROW, 5), 2), lambda i, j: max(min(i + j, 5), 2)),
        (tirx.Select(tirx.And(LANE > 1, tirx.Not(ROW < 2)), LANE, ROW), lambda i, j: i if i > 1 and j >= 2 else j),
        (tirx.Cast("int32", tirx.ceil((tirx.Cast("float32", LANE) + 0.5) * 0.5 - 1.0)), lambda i, _: -(-(i - 1) // 2)),
        (tirx.Div(LANE, tirx.IntImm("int32", 2)), lambda i, _: i // 2),
    ],
)
def test_integers(value: Expr, wanted: object) -> None:
    found = integers_at(value, PLACES)
    assert found is not None
    assert callable(wanted)
    assert [[int(one) for one in row] for row in found] == [[wanted(i, j) for i in range(6)] for j in range(4)]


@pytest.mark.parametrize(
    "value",
    [
        tirx.Var("unknown", "int32"),
        tirx.FloorDiv(LANE, ROW),  # by 0
        tirx.FloorMod(LANE, tirx.IntImm("int32", 0)),
        tirx.Div(LANE - 3, tirx.IntImm("int32", 2)),  # C cuts below 0
        tirx.sqrt(tirx.Cast("float32", LANE)),
        tirx.Cast("float32", LANE),  # no integers
        tirx.Cast("int32", tirx.Cast("float32", LANE) / 0.5 * 1e30),  # no integer of 32 bits
        tirx.Ramp(LANE, tirx.IntImm("int32", 1), 4),  # lanes are no places
    ],
    ids=("variable", "quotient by 0", "remainder by 0", "cut quotient", "function", "float", "far float", "lanes"),
)
def test_what_is_not_known(value: Expr) -> None:
    assert integers_at(value, PLACES) is None


def test_lanes_of_a_vector() -> None:
    found = values_at(tirx.Ramp(tirx.IntImm("int32", 2), tirx.IntImm("int32", 3), 4), {})
    assert found is not None
    assert found.tolist() == [2, 5, 8, 11]
