"""A reduction over the results of another one: it runs around it, and means what plain loops mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te

from edgetune.schedule.algorithms.apply import replay
from edgetune.schedule.default_schedule import default_trace
from edgetune.schedule.rules.nested_sums import find_nested
from edgetune.schedule.sketches.block_analysis import analyse_blocks
from edgetune.target.target import Target
from tests.examples import costly
from tests.schedule.test_sketches import check
from tests.sketch_samples import board, prim_func, random_arguments, run, run_plain


def sum_of_largest(parts: int, terms: int, width: int, kind: str = "plain") -> Any:
    """For each column, the sum over parts of the largest term of each part."""
    x = te.placeholder((parts, terms, width), name="x")
    p, k = te.reduce_axis((0, parts), "p"), te.reduce_axis((0, terms), "k")
    largest = te.compute((parts, width), lambda n, i: te.max(x[n, k, i], axis=k), "largest")
    total = te.compute((width,), lambda i: te.sum(largest[p, i], axis=p), "total")
    if kind == "mean":
        return prim_func([x], te.compute((width,), lambda i: total[i] / parts, "mean"))
    if kind == "read again":
        return prim_func([x], te.compute((parts, width), lambda n, i: largest[n, i] / total[i], "shares"))
    return prim_func([x], total)


def product_in_parts(parts: int, depth: int, rows: int, columns: int) -> Any:
    """A matrix product whose parts share operands in a tile."""
    x, w = te.placeholder((parts * depth, rows), name="x"), te.placeholder((parts * depth, columns), name="w")
    p, k = te.reduce_axis((0, parts), "p"), te.reduce_axis((0, depth), "k")
    part = te.compute(
        (parts, rows, columns), lambda n, i, j: te.sum(x[n * depth + k, i] * w[n * depth + k, j], axis=k), "part"
    )
    return prim_func([x, w], te.compute((rows, columns), lambda i, j: te.sum(part[p, i, j], axis=p), "product"))


@pytest.mark.long
@costly(12)
@given(
    st.sampled_from(["plain", "mean", "read again"]),
    st.sampled_from([1, 3, 12]),
    st.sampled_from([1, 2, 3, 8, 31, 64]),
    st.sampled_from([board(512, 32), board(256, 16), board(0, 0)]),
    st.integers(1, 10_000),
)
def test_operators_mean_what_plain_loops_mean(kind: str, parts: int, width: int, target: Target, seed: int) -> None:
    assert check(sum_of_largest(parts, 7, width, kind), target, seed) > 0


@pytest.mark.parametrize("function", [sum_of_largest(50, 9, 31), product_in_parts(6, 40, 12, 32)])
def test_one_part_is_stored_at_a_time(function: Any) -> None:
    trace, _ = default_trace(function, board(256, 16), 2048)  # all parts together take more
    module = replay(function, trace)
    assert "Vectorize" in trace
    arrays = random_arguments(function)
    np.testing.assert_allclose(run(module, arrays), run_plain(function, arrays), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("kind", "found"), [("plain", {"largest": "total"}), ("read again", {})])
def test_what_others_read_is_stored(kind: str, found: dict[str, str]) -> None:
    analysis = analyse_blocks(sum_of_largest(4, 4, 8, kind))
    assert analysis is not None
    assert find_nested(analysis.stages) == found
