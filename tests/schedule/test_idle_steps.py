"""Steps of a reduction without anything to add are skipped, and sums over triangles stay what they are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te, tirx

from edgetune.codegen.emit import emit_kernel
from edgetune.codegen.packing import split_packing
from edgetune.frontend.tensor_expression.normal_form import normal_form
from edgetune.schedule.algorithms.apply import replay
from edgetune.schedule.default_schedule import default_trace
from tests.schedule.test_sketches import check
from tests.sketch_samples import board, prim_func

COMPARISONS = {
    "up to": lambda i, j: j <= i,
    "before": lambda i, j: j < i,
    "from": lambda i, j: j >= i,
    "after": lambda i, j: j > i,
    "every second": lambda i, j: 2 * j <= i,
    "equal": lambda i, j: j == i,
}


def triangle(kind: str, rows: int, length: int) -> Any:
    """Sums of the elements of a row whose place compares with that of the result."""
    x = te.placeholder((rows, length), name="x")
    j = te.reduce_axis((0, length), "j")
    zero = tirx.const(0.0, "float32")

    def term(r: Any, i: Any) -> Any:
        return te.sum(tirx.if_then_else(COMPARISONS[kind](i, j), x[r, j], zero), axis=j)

    return normal_form(prim_func([x], te.compute((rows, length), term, "sums")), [])


@settings(max_examples=10)
@given(
    st.sampled_from(sorted(COMPARISONS)),
    st.sampled_from([1, 3, 8]),
    st.sampled_from([4, 16, 24, 32]),
    st.sampled_from([board(512, 32), board(128, 32)]),
    st.integers(1, 10_000),
)
def test_every_schedule_means_what_plain_loops_mean(kind: str, rows: int, length: int, target: Any, seed: int) -> None:
    assert check(triangle(kind, rows, length), target, seed) > 0


@pytest.mark.parametrize(("kind", "skips"), [("up to", True), ("after", True), ("equal", False)])
def test_steps_without_lanes_are_skipped(kind: str, skips: bool) -> None:
    function, target = triangle(kind, 8, 64), board(256, 16)
    module, _ = split_packing(replay(function, default_trace(function, target, 1 << 20)[0]))
    text = emit_kernel(module, target, "k").definition
    assert ("if (" in text) == skips
    assert "mask" in text
