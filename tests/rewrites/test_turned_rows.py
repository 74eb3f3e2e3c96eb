"""Turned rows: what tensors of short rows cost that lanes of several reductions cross."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx

from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.program import Program
from tests.examples import costly
from tests.executed_instructions import executed
from tests.te_programs import program_from_te

GAP = 0.25


def gravity(bodies: int, places: int, *, masses: int = 1) -> tuple[Program, np.ndarray, np.ndarray]:
    """The forces on bodies: their program, what its kernels compute, and the same in double precision.

    `masses` are columns of a tensor; the first one is read.
    """

    def compute(x: te.Tensor, m: te.Tensor) -> te.Tensor:
        d, j = te.reduce_axis((0, places), "d"), te.reduce_axis((0, bodies), "j")
        squares = te.compute((bodies, bodies), lambda a, b: te.sum((x[b, d] - x[a, d]) * (x[b, d] - x[a, d]), axis=d))
        weights = te.compute((bodies, bodies), lambda a, b: m[b, 0] / tirx.sqrt(squares[a, b] + GAP), "weights")
        return te.compute((bodies, places), lambda a, c: te.sum(weights[a, j] * (x[j, c] - x[a, c]), axis=j), "forces")

    random = np.random.default_rng(0)
    feed = {
        "x": random.standard_normal((bodies, places)).astype(np.float32),
        "m": random.standard_normal((bodies, masses)).astype(np.float32),
    }
    program = program_from_te(compute, {name: (one.shape, "float32") for name, one in feed.items()}, {}, "made")
    (answer,) = evaluate_program(program, [feed])[0].values()
    x, m = (one.astype(np.float64) for one in feed.values())
    gaps = x[None] - x[:, None]
    weights = m[:, 0] / np.sqrt((gaps**2).sum(-1) + GAP)
    return program, answer, np.einsum("aj,ajc->ac", weights, gaps)


@pytest.mark.long
@pytest.mark.parametrize(
    ("bodies", "places", "masses", "most"),
    [
        (400, 3, 1, 1_600_000),
        (400, 2, 4, 1_100_000),
        (400, 8, 1, 1_920_000),  # a row fills a vector
        (100, 3, 1, 118_000),  # little work
    ],
)
def test_rows_that_lanes_cross_cost_no_more_than_columns(
    bodies: int, places: int, masses: int, most: int, tmp_path: Path
) -> None:
    """The first two took 3,290,529 and 1,663,617 instructions as rows."""
    program, answer, wanted = gravity(bodies, places, masses=masses)
    assert executed(program, tmp_path) < most
    np.testing.assert_allclose(answer, wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.long
@costly(12)
@given(bodies=st.integers(200, 420), places=st.integers(1, 7), masses=st.integers(1, 3))
def test_gravity_is_right(bodies: int, places: int, masses: int) -> None:
    _, answer, wanted = gravity(bodies, places, masses=masses)
    np.testing.assert_allclose(answer, wanted, rtol=1e-4, atol=1e-3)


def overlaps(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    """The overlaps of all pairs of intervals, whose ends are computed from their middles and lengths."""

    def ends(x: te.Tensor, name: str) -> te.Tensor:
        def end(n: tirx.Var, c: tirx.Var) -> tirx.PrimExpr:
            half = te.abs(x[n, 1]) * 0.5
            return x[n, 0] + tirx.Select(c < 1, half * -1.0, half)

        return te.compute(x.shape, end, name)

    one, other = ends(a, "one"), ends(b, "other")
    shape = (a.shape[0], b.shape[0])
    return te.compute(shape, lambda i, j: te.min(one[i, 1], other[j, 1]) - te.max(one[i, 0], other[j, 0]), "overlaps")


@pytest.mark.long
@pytest.mark.parametrize(("first", "second", "most"), [(211, 301, 102_000), (7, 5001, 82_000), (31, 32, 1_010)])
def test_what_all_pairs_read_is_computed_once_as_columns(first: int, second: int, most: int, tmp_path: Path) -> None:
    """The first took 138,024 instructions in one kernel."""
    random = np.random.default_rng(0)
    feed = {name: random.standard_normal((n, 2)).astype(np.float32) for name, n in (("a", first), ("b", second))}
    program = program_from_te(overlaps, {name: (one.shape, "float32") for name, one in feed.items()}, {}, "made")
    assert executed(program, tmp_path) < most
    (answer,) = evaluate_program(program, [feed])[0].values()
    (low, high), (other_low, other_high) = (
        (x[:, 0].astype(np.float64) - np.abs(x[:, 1]) / 2, x[:, 0] + np.abs(x[:, 1]) / 2) for x in feed.values()
    )
    wanted = np.minimum(high[:, None], other_high) - np.maximum(low[:, None], other_low)
    np.testing.assert_allclose(answer, wanted, rtol=1e-4, atol=1e-5)
