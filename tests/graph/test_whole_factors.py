"""Whole factors: which indices get the short form, that it is the right one, and what a resize of a model becomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from tvm import ir, te, tirx

from edgetune.graph.whole_factors import with_whole_factors
from tests.sketch_samples import prim_func, random_arguments, run_plain

Index = Callable[[Any], Any]


def half_pixel(factor: int, extent: int) -> Index:
    """ONNX's Resize with nearest elements, halves to the floor, as TVM imports it."""

    def index(i: Any) -> Any:
        step = tirx.const(1 / factor, "float32")
        place = (i.astype("float32") + tirx.const(0.5, "float32")) * step - tirx.const(0.5, "float32")
        place = tirx.ceil(place - tirx.const(0.5, "float32")).astype("int32")
        return tirx.max(tirx.min(place, extent - 1), 0)

    return index


def asymmetric(numerator: int, denominator: int) -> Index:
    """Integers, divided as in C."""
    return lambda i: tirx.min(tirx.Div(i * numerator, tirx.IntImm("int32", denominator)), 27)


def gather(index: Index, extent: int, *, stage: str = "gather") -> Any:
    x = te.placeholder((3, 28), name="x")
    return prim_func([x], te.compute((3, extent), lambda r, i: x[r, index(i)], stage))


def index_of(function: Any) -> str:
    loads: list[Any] = []
    tvm_ffi.structural_walk(function.body, (ir.TensorLoad, loads.append))
    return str(loads[0].indices[1])


@pytest.mark.parametrize(
    ("index", "extent", "short"),
    [
        (half_pixel(2, 28), 56, "v_i // 2"),
        (half_pixel(3, 20), 60, "(v_i + 0) // 3"),
        (asymmetric(1, 2), 56, "v_i // 2"),
        (asymmetric(1, 2), 55, "v_i // 2"),  # each place counts, not each pair
        (asymmetric(2, 3), 42, "v_i * 2 // 3"),
        (asymmetric(2, 1), 14, "v_i * 2"),
        (lambda i: tirx.max(i, 0), 28, "v_i"),
        (lambda i: tirx.Div(i + 3, tirx.IntImm("int32", 4)), 20, "(v_i + 3) // 4"),
    ],
)
def test_an_index_that_always_equals_a_short_form_is_written_so(index: Index, extent: int, short: str) -> None:
    function = gather(index, extent)
    changed = with_whole_factors(function)
    assert index_of(changed) == short.replace("(v_i + 0)", "v_i")
    arrays = random_arguments(function)
    np.testing.assert_array_equal(run_plain(changed, arrays), run_plain(function, arrays))


@pytest.mark.parametrize(
    ("index", "extent"),
    [
        (half_pixel(2, 27), 56),  # the last two read element 26
        (lambda i: tirx.max(i - 1, 0), 28),  # the first is read twice
        (lambda i: tirx.min(i, 20), 28),
        (lambda i: 27 - tirx.max(i, 0), 28),  # backwards
        (lambda i: tirx.Div(i - 5, tirx.IntImm("int32", 2)) + 2, 20),  # quotients below 0 are cut in C
        (lambda i: tirx.round(i.astype("float32") * tirx.const(0.5, "float32")).astype("int32"), 40),
        (lambda i: i // 2, 56),  # short as it is
    ],
)
def test_any_other_index_stays(index: Index, extent: int) -> None:
    function = gather(index, extent)
    assert index_of(with_whole_factors(function)) == index_of(function)


def test_an_index_of_two_axes_stays() -> None:
    x = te.placeholder((28,), name="x")
    function = prim_func([x], te.compute((2, 14), lambda i, j: x[tirx.max(i, j)], "larger"))
    assert with_whole_factors(function).body.same_as(function.body)
