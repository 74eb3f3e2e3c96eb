"""Rows are reduced a vector at a time where their length allows, and mean the same as the plain loops everywhere."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, topi

from edgetune.codegen.emit import emit_kernel
from edgetune.codegen.packing import split_packing
from edgetune.schedule.algorithms.apply import replay
from edgetune.schedule.default_schedule import default_trace
from edgetune.target.target import Target
from tests.examples import costly
from tests.schedule.test_sketches import check
from tests.sketch_samples import board, prim_func


def rows(kind: str, height: int, width: int) -> Any:
    x = te.placeholder((2, height, width), name="x")
    if kind == "layer_norm":
        scale, shift = (te.placeholder((width,), name=name) for name in ("scale", "shift"))
        return prim_func([x, scale, shift], topi.nn.layer_norm(x, scale, shift, [2], 1e-5))
    operators = {"softmax": topi.nn.softmax, "sum": topi.sum, "max": topi.max, "argmax": topi.argmax}
    return prim_func([x], operators[kind](x, axis=2))


@pytest.mark.long
@costly(12)
@given(
    st.sampled_from(["softmax", "layer_norm", "sum", "max", "argmax"]),
    st.integers(1, 5),
    st.sampled_from([1, 7, 8, 10, 16, 32, 48, 100]),
    st.sampled_from([board(512, 32), board(128, 32), board(0, 0)]),
)
def test_rows_mean_what_plain_loops_mean(kind: str, height: int, width: int, target: Target) -> None:
    check(rows(kind, height, width), target, 1)


def text_of(kind: str, width: int, target: Target) -> str:
    function = rows(kind, 3, width)
    trace, _ = default_trace(function, target)
    module, _ = split_packing(replay(function, trace))
    return emit_kernel(module, target, "rows").definition


@pytest.mark.parametrize("kind", ["softmax", "layer_norm", "sum"])
def test_sums_of_a_row_are_vectors_in_registers(kind: str) -> None:
    text = text_of(kind, 128, board(256, 16))
    assert "f32x8" in text
    assert re.search(r"(_lanes\w*|acc(_\d)*) \+= ", text)
    assert re.search(r"lanes_sum(_each)?_f32x8(x\d)?\(&", text)  # joined by halves, not one after another


def test_a_row_of_no_whole_vectors_stays_scalar() -> None:
    assert "f32x" not in text_of("sum", 10, board(256, 16))
