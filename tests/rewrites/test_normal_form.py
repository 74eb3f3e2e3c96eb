"""The normal form of an expression means the same: weights run forwards, conditions on lanes are selections."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx

from edgetune.frontend.tensor_expression.kernel import kernel_from_te
from edgetune.rewrites.normal_form import normal_form
from edgetune.schedule.algorithms.apply import replay
from edgetune.schedule.default_schedule import default_trace
from tests.examples import costly
from tests.sketch_samples import board, prim_func, random_arguments, run_plain


def backwards(length: int, taps: int, step: int = 1) -> Any:
    """A convolution (not a correlation): its weights run backwards."""
    x, w = te.placeholder((length + step * (taps - 1),), name="x"), te.placeholder((taps, 4), name="w")
    k = te.reduce_axis((0, taps), "k")
    return x, w, te.compute((length, 4), lambda i, c: te.sum(x[i + step * k] * w[taps - 1 - k, c], axis=k), "y")


@costly(10)
@given(length=st.integers(1, 9), taps=st.integers(1, 5), step=st.integers(1, 2))
def test_weights_that_run_backwards_run_forwards(length: int, taps: int, step: int) -> None:
    x, w, y = backwards(length, taps, step)
    function = prim_func([x, w], y)
    arrays = random_arguments(function)
    turned = normal_form(function, [1])
    np.testing.assert_allclose(run_plain(turned, arrays), run_plain(function, arrays), rtol=1e-5, atol=1e-5)
    if taps > 1:
        assert "w[v_k, v_c]" in turned.script()


def test_a_sum_over_no_axis_is_its_term() -> None:
    """An outer product by the rules of `einsum`: its kernel added to what the memory held."""
    x, w = te.placeholder((5,), name="x"), te.placeholder((8,), name="w")
    function = normal_form(prim_func([x, w], te.compute((5, 8), lambda i, j: te.sum(x[i] * w[j], axis=[]), "y")), [])
    arrays = random_arguments(function)
    arrays[-1][...] = 3.0
    np.testing.assert_allclose(run_plain(function, arrays), np.outer(arrays[0], arrays[1]), rtol=1e-6)
    assert "T.init" not in function.script()


@pytest.mark.parametrize("reduced", [te.max, te.min, te.sum])
def test_a_reduction_of_one_term_is_that_term(reduced: Any) -> None:
    """TVM's LLVM back end computes this maximum wrong, so that right packages were refused."""
    x, b, w = (te.placeholder(shape, name=name) for shape, name in (((1, 4, 7), "x"), ((16,), "b"), ((16, 4, 1), "w")))
    k = te.reduce_axis((0, 1), "k")
    y = te.compute((16, 4, 28), lambda c, i, j: reduced(x[k, i, j // 4] * w[c, j % 4, k], axis=k), "y")
    z = te.compute((16, 4, 28), lambda c, i, j: te.max(y[c, i, j] + b[c], tirx.const(0.0)), "z")
    function = normal_form(prim_func([x, b, w], z), [])
    assert "T.init" not in function.script()
    assert "T.grid(16, 4, 28, 1)" not in function.script()
    arrays = random_arguments(function)
    values = np.einsum("ij,cp->cijp", arrays[0][0], arrays[2][:, :, 0]).reshape(16, 4, 28) + arrays[1][:, None, None]
    np.testing.assert_allclose(run_plain(function, arrays), np.maximum(values, 0), rtol=1e-5, atol=1e-6)


def test_an_input_may_run_backwards() -> None:
    x, w, y = backwards(5, 3)
    function = prim_func([x, w], y)
    assert normal_form(function, []).script() == function.script()


def running(rows: int, length: int, *, shifted: bool) -> Any:
    """Sums of all elements before each one; `shifted`: the element itself is guarded from outside of the tensor."""
    x = te.placeholder((rows, length), name="x")
    j = te.reduce_axis((0, length), "j")
    zero = tirx.const(0.0, "float32")
    shift = 1 if shifted else 0

    def term(r: Any, i: Any) -> Any:
        inside = tirx.all(j <= i, j >= shift) if shifted else j <= i
        return te.sum(tirx.if_then_else(inside, x[r, j - shift], zero), axis=j)

    return x, te.compute((rows, length), term, "running")


def test_a_condition_on_lanes_is_a_selection_where_all_is_inside() -> None:
    x, y = running(3, 8, shifted=False)
    kernel = kernel_from_te([x, y], "running")
    assert "T.Select" in kernel.function.script()
    (values, out) = random_arguments(kernel.function)
    np.testing.assert_allclose(run_plain(kernel.function, [values, out]), np.cumsum(values, 1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("first", [True, False])
def test_a_condition_that_guards_a_tensor_stays(first: bool) -> None:
    if first:
        x, y = running(3, 8, shifted=True)
    else:  # the condition is on rows alone: a branch saves work
        x = te.placeholder((8, 16), name="x")
        j = te.reduce_axis((0, 8), "j")
        zero = tirx.const(0.0, "float32")
        y = te.compute((8, 16), lambda r, c: te.sum(tirx.if_then_else(r < 4, x[j, c], zero), axis=j), "y")
    script = kernel_from_te([x, y], "guarded").function.script()
    assert "if_then_else" in script
    assert "T.Select" not in script


def test_a_stage_may_be_called_root() -> None:
    x = te.placeholder((4, 16), name="x")
    kernel = kernel_from_te([x, te.compute((4, 16), lambda i, j: te.sqrt(x[i, j]), "root")], "roots")
    trace, note = default_trace(kernel.function, board(256, 16))
    assert note == "elementwise"
    assert replay(kernel.function, trace) is not None


def test_a_condition_that_guards_a_division_stays() -> None:
    """The integers before it would divide by 0."""
    x = te.placeholder((8, 8), "int32", name="x")
    j = te.reduce_axis((0, 8), "j")
    zero = tirx.const(0, "int32")

    def term(r: Any, c: Any) -> Any:
        return te.sum(tirx.if_then_else(j < c, tirx.floordiv(x[r, j], c - j), zero), axis=j)

    kernel = kernel_from_te([x, te.compute((8, 8), term, "y")], "guarded")
    assert "if_then_else" in kernel.function.script()


def mean(term: Any, dtype: str = "float32") -> Any:
    """The sum of terms of two rows."""
    x, w = te.placeholder((5, 48), dtype, name="x"), te.placeholder((48,), dtype, name="w")
    k = te.reduce_axis((0, 48), "k")
    return prim_func([x, w], te.compute((5,), lambda i: te.sum(term(x[i, k], w[k], k), axis=k), "mean"))


@pytest.mark.parametrize(
    ("term", "divisions"),
    [
        (lambda x, _, __: x / 48.0, 0),
        (lambda x, w, _: x * w / 48.0 - (w / 3.0) * (x / -5.0), 0),
        (lambda x, w, k: tirx.Select(k < 7, x / 7.0, x / w), 1),
        (lambda x, w, _: (x / 3.0) / (w + 9.0), 1),
        (lambda x, w, _: (x / 3.0 - w) * w, 1),  # a difference may be much smaller than both
        (lambda x, _, __: te.floor(x / 0.3), 1),
        (lambda x, _, __: te.exp(x / 3.0), 1),
        (lambda x, w, _: tirx.Select(x / 3.0 > 0.5, x, w), 1),
        (lambda x, _, __: x / 1e-35, 1),  # its reciprocal is close to the largest number
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_terms_are_multiplied_instead_of_divided_by_a_constant(term: Any, divisions: int, dtype: str) -> None:
    function = mean(term, dtype)
    arrays = random_arguments(function)
    turned = normal_form(function, [])
    count = sum("/" in part for part in turned.script().split("T.init")[1].split(" "))
    assert count == divisions
    close = 1e-6 if dtype == "float32" else 1e-14
    np.testing.assert_allclose(run_plain(turned, arrays), run_plain(function, arrays), rtol=close, atol=close)


def test_integers_and_extremes_are_divided() -> None:
    x = te.placeholder((5, 48), name="x")
    k = te.reduce_axis((0, 48), "k")
    function = prim_func([x], te.compute((5,), lambda i: te.max(x[i, k] / 3.0, axis=k), "most"))
    assert normal_form(function, []).script() == function.script()
    function = mean(lambda x, _, __: tirx.truncdiv(x, 3), "int32")
    assert normal_form(function, []).script() == function.script()
