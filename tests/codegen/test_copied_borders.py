"""Borders of copies: loops are divided where a border begins and ends, and copy the same elements."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx
from tvm.s_tir import Schedule

from edgetune.codegen import KernelSource, emit_kernel
from edgetune.target.target import load_target
from edgetune.tvm_types import PrimFunc
from tests.codegen_run import SANITIZERS, run_kernel
from tests.examples import costly
from tests.sketch_samples import prim_func, run_plain

_SECONDS = 5.0  # of CPU, for a kernel that takes a hundredth of one


def bordered(
    shape: tuple[int, int, int], before: tuple[int, int], after: tuple[int, int], dtype: str, stored: str
) -> PrimFunc:
    """A copy of rows, columns and channels with a border, and one more row of another number behind it."""
    rows, columns, channels = shape
    x = te.placeholder(shape, dtype, "x")
    out = (rows + before[0] + after[0] + 1, columns + before[1] + after[1], channels)

    def value(i: tirx.Var, j: tirx.Var, c: tirx.Var) -> tirx.PrimExpr:
        inside = te.all(i >= before[0], i < before[0] + rows, j >= before[1], j < before[1] + columns)
        image = te.if_then_else(inside, x[i - before[0], j - before[1], c], tirx.const(7, dtype))
        return te.if_then_else(i < out[0] - 1, image, tirx.const(0, dtype)).astype(stored)

    return prim_func([x], te.compute(out, value, "copy"))


def printed(function: PrimFunc, lanes: int = 1, board: str = "host") -> KernelSource:
    """The function as it is, or with vectors of `lanes` channels."""
    sch = Schedule(function)
    if lanes > 1:
        *_, last = sch.get_loops(sch.get_sblock("copy"))
        sch.vectorize(sch.split(last, [None, lanes])[-1])
    return emit_kernel(sch.mod, load_target(board), "k")


@costly(40)
@given(
    st.tuples(st.integers(1, 5), st.integers(1, 40), st.sampled_from([1, 3, 4, 16])),
    st.tuples(st.integers(0, 2), st.integers(0, 3)),
    st.tuples(st.integers(0, 2), st.integers(0, 3)),
    st.sampled_from([("int8", "int8"), ("int8", "int16"), ("uint8", "int16"), ("float32", "float32")]),
    st.booleans(),
)
def test_copies_have_the_same_elements(
    tmp_path_factory: pytest.TempPathFactory,
    shape: tuple[int, int, int],
    before: tuple[int, int],
    after: tuple[int, int],
    types: tuple[str, str],
    vectors: bool,
) -> None:
    function = bordered(shape, before, after, *types)
    x = np.random.default_rng(1).integers(0, 127, shape).astype(types[0])
    out = np.zeros([int(extent) for extent in function.params[1].shape], types[1])
    source = printed(function, 4 if vectors and shape[-1] % 4 == 0 else 1)
    folder = tmp_path_factory.mktemp("copy")
    found = run_kernel(source, load_target("host"), [x, out], folder, extra=SANITIZERS)[-1]
    np.testing.assert_array_equal(found, run_plain(function, [x, out]))


def test_no_element_asks_where_it_is() -> None:
    text = printed(bordered((5, 40, 16), (1, 1), (1, 2), "int8", "int8"), 16).definition
    assert "?" not in text
    assert "if (" not in text  # constants bound rows as well


@pytest.mark.parametrize("stored", ["int16", "float32"])
def test_copies_in_a_wider_type_are_divided_too(stored: str) -> None:
    text = printed(bordered((5, 40, 16), (1, 1), (1, 2), "int8", stored), 8).definition
    assert "?" not in text


def test_halves_are_copied_by_vectors_that_are_converted_at_once() -> None:
    for name, vector in (("rpi4", "from_half_f32x4"), ("host", "from_half_f32x")):
        source = printed(bordered((5, 40, 16), (1, 1), (1, 2), "float16", "float16"), 4, name)
        assert vector in source.definition
        assert "[lane]" not in source.definition
        assert "){from_f16" not in source.definition


def test_long_loops_take_no_longer() -> None:
    """A loop was walked once for each iteration."""
    x = te.placeholder((1 << 23,), "float32", "x")
    y = te.compute((1 << 23,), lambda i: te.if_then_else(te.all(i >= 5, i < (1 << 22)), x[i - 5], 0.0), "copy")
    began = process_time()
    assert "?" not in printed(prim_func([x], y)).definition
    assert process_time() - began < _SECONDS


def test_loops_in_a_vector_stay() -> None:
    function = bordered((5, 40, 16), (1, 1), (1, 2), "int8", "int8")
    sch = Schedule(function)
    _, columns, channels = sch.get_loops(sch.get_sblock("copy"))
    sch.reorder(channels, columns)
    sch.vectorize(channels)
    assert "?" in emit_kernel(sch.mod, load_target("host"), "k").definition


def test_what_another_loop_decides_is_asked_before_the_copy() -> None:
    x = te.placeholder((30, 40), "int8", "x")
    window = te.compute(
        (28, 4, 42),
        lambda i, k, j: te.if_then_else(
            te.all(i + k >= 1, i + k < 31, j >= 1, j < 41), x[i + k - 1, j - 1], tirx.const(-5, "int8")
        ),
        "window",
    )
    text = printed(prim_func([x], window)).definition
    assert "?" not in text
    assert text.count("if (") == 1
    assert "i8x16u" in text  # rows of the image are vectors


def test_values_that_are_computed_stay(tmp_path: Path) -> None:
    x = te.placeholder((9,), "float32", "x")
    y = te.compute((12,), lambda i: te.if_then_else(te.all(i >= 1, i < 10), x[i - 1] * 2.0, 0.0), "y")
    source = printed(prim_func([x], y))
    assert "?" in source.definition
    given_arrays = [np.arange(9, dtype="float32"), np.zeros(12, "float32")]
    found = run_kernel(source, load_target("host"), given_arrays, tmp_path)[-1]
    np.testing.assert_array_equal(found, run_plain(prim_func([x], y), given_arrays))


def test_conditions_on_elements_stay() -> None:
    x = te.placeholder((64,), "float32", "x")
    y = te.compute(x.shape, lambda i: te.if_then_else(x[i] > 0, x[i], 0.0), "y")
    assert "?" in printed(prim_func([x], y)).definition
