"""Windows are reduced along one axis after the other where neighbours share enough; the result stays the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx, topi

from edgetune.graph.separable_windows import scratch_of_lines, separate_windows
from edgetune.schedule.default_schedule import default_trace
from edgetune.schedule.sketches.block_analysis import analyse_blocks
from tests.examples import costly
from tests.sketch_samples import board

COMBINED: dict[str, Any] = {"sum": te.sum, "max": te.max, "min": te.min}
BY_NUMPY: dict[str, Any] = {"sum": np.sum, "max": np.max, "min": np.min}


def windows(
    shape: tuple[int, ...], taps: tuple[int, ...], stride: int, kind: str = "max", dtype: str = "float32"
) -> Any:
    """A reduction over windows of the leading axes; the last axis are channels."""
    x = te.placeholder(shape, dtype, "x")
    axes = [te.reduce_axis((0, extent), f"k{number}") for number, extent in enumerate(taps)]
    out = [(extent - tap) // stride + 1 for extent, tap in zip(shape, taps, strict=False)]

    def value(*place: Any) -> Any:
        at = [stride * one + axis for one, axis in zip(place, axes, strict=False)]
        return COMBINED[kind](x[(*at, *place[len(taps) :])], axis=axes)

    return te.create_prim_func([x, te.compute((*out, *shape[len(taps) :]), value, "windows")])


def by_numpy(x: np.ndarray, taps: tuple[int, ...], stride: int, kind: str) -> np.ndarray:
    seen = np.lib.stride_tricks.sliding_window_view(x, taps, tuple(range(len(taps))))
    seen = seen[tuple(slice(None, None, stride) for _ in taps)]
    return np.asarray(BY_NUMPY[kind](seen, axis=tuple(range(-len(taps), 0))))


def run(function: tirx.PrimFunc, x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    result = tvm.runtime.tensor(np.zeros(shape, x.dtype))
    tvm.compile(tvm.IRModule({"main": function}), target="llvm")["main"](tvm.runtime.tensor(x), result)
    return np.asarray(result.numpy())


def stages(function: tirx.PrimFunc) -> int:
    found = analyse_blocks(function)
    assert found is not None
    return len(found.stages)


@pytest.mark.long
@costly(15)
@given(
    st.sampled_from([(5, 5), (4, 7), (9, 3), (5, 5, 5), (3, 4, 5)]),
    st.sampled_from([1, 2]),
    st.sampled_from(sorted(COMBINED)),
    st.sampled_from(["float32", "int32", "int8"]),
    st.integers(0, 100),
)
def test_windows_mean_what_they_meant(taps: tuple[int, ...], stride: int, kind: str, dtype: str, seed: int) -> None:
    shape = (*(stride * 9 + tap for tap in taps), 6)
    x = np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)
    expected = by_numpy(x, taps, stride, kind)
    function = separate_windows(windows(shape, taps, stride, kind, dtype))
    np.testing.assert_array_equal(run(function, x, expected.shape), expected)


@pytest.mark.parametrize(
    ("taps", "stride", "expected"),
    [((5, 5), 1, 2), ((4, 4), 1, 2), ((4, 4, 4), 1, 3), ((3, 3), 1, 1), ((3, 3), 2, 1), ((5, 1), 1, 1)],
)
def test_windows_have_stages_where_neighbours_share_enough(taps: tuple[int, ...], stride: int, expected: int) -> None:
    """3 by 3 takes 6 steps instead of 9, which another stage's loads and stores outweigh."""
    shape = (*(stride * 15 + tap for tap in taps), 8)
    assert stages(separate_windows(windows(shape, taps, stride))) == expected


@pytest.mark.parametrize(("stride", "expected"), [(1, 1), (2, 2)])
def test_windows_that_move_along_lanes_by_two_count_what_their_loads_cost(stride: int, expected: int) -> None:
    """Channels first, 64 images of 57 by 57: every second element of nine rows was loaded, not of three (59 us, 41)."""
    x = te.placeholder((8, 57, 57), name="x")
    i, j = te.reduce_axis((0, 3), "i"), te.reduce_axis((0, 3), "j")
    size = (57 - 3) // stride + 1
    pool = te.compute(
        (8, size, size), lambda c, h, w: te.max(x[c, h * stride + i, w * stride + j], axis=[i, j]), "pool"
    )
    function = separate_windows(te.create_prim_func([x, pool]))
    assert stages(function) == expected
    image = np.random.default_rng(0).standard_normal((8, 57, 57)).astype(np.float32)
    seen = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(1, 2))[:, ::stride, ::stride]
    np.testing.assert_array_equal(run(function, image, (8, size, size)), seen.max((-2, -1)))


def test_a_product_and_a_window_that_repeats_an_axis_stay_whole() -> None:
    x, w = te.placeholder((20, 20), name="x"), te.placeholder((5, 5), name="w")
    i, j = (te.reduce_axis((0, 5), name) for name in "ij")
    product = te.compute((16, 16), lambda r, c: te.sum(x[r + i, c + j] * w[i, j], axis=[i, j]), "product")
    diagonal = te.compute((16, 16), lambda r, c: te.max(x[r + i, r + j] + 0 * c, axis=[i, j]), "diagonal")
    turned = te.compute((16, 16), lambda r, c: te.max(x[r + i + j, c], axis=[i, j]), "turned")
    for inputs, output in (([x, w], product), ([x], diagonal), ([x], turned)):
        function = te.create_prim_func([*inputs, output])
        assert separate_windows(function).same_as(function)


def test_windows_that_begin_or_end_elsewhere_stay_whole() -> None:
    """A sum that begins at 1 would count it for each line; the bound of j // 2 + j % 2 is one more than it reaches."""
    x, y = te.placeholder((64, 64), name="x"), te.placeholder((64, 8), name="y")
    i, j = (te.reduce_axis((0, 5), name) for name in "ij")
    from_1 = te.comm_reducer(lambda a, b: a + b, lambda kind: tirx.const(1, kind), name="from_1")
    begun = te.compute((60, 60), lambda h, w: from_1(x[h + i, w + j], axis=[i, j]), "begun")
    loose = te.compute((60, 7), lambda h, w: te.max(y[h + i, w // 2 + w % 2 + j], axis=[i, j]), "loose")
    for source, output in ((x, begun), (y, loose)):
        function = te.create_prim_func([source, output])
        assert separate_windows(function).same_as(function)


def test_one_line_is_kept_between_the_stages_of_padded_pooling() -> None:
    x = te.placeholder((1, 8, 20, 20), name="x")
    pooled = topi.nn.pool2d(x, (5, 5), (1, 1), (1, 1), (2, 2, 2, 2), "max", layout="NCHW")
    function = separate_windows(te.create_prim_func([x, pooled]))
    assert stages(function) == 3
    assert 0 < scratch_of_lines(function) <= 4 * (24 * 24 + 20 * 24)
    assert "spatial tile" in default_trace(function, board(256, 16), scratch_of_lines(function))[1]
    assert scratch_of_lines(windows((20, 20, 8), (3, 3), 1)) == 0


def test_a_stage_is_no_line_because_of_its_name() -> None:
    x, i = te.placeholder((30, 30), name="x"), te.reduce_axis((0, 3), "i")
    named = te.compute((30, 30), lambda h, w: x[h, w] + 1.0, "a_lines")
    largest = te.compute((28, 30), lambda h, w: te.max(named[h + i, w], axis=i), "largest")
    assert scratch_of_lines(te.create_prim_func([x, largest])) == 0


def test_a_result_may_have_more_axes_than_the_window() -> None:
    x = te.placeholder((30, 30), name="x")
    i, j = (te.reduce_axis((0, 6), name) for name in "ij")
    one = te.compute((1, 25, 25, 1), lambda _n, h, w, _c: te.max(x[h + i, w + j], axis=[i, j]), "one")
    function = separate_windows(te.create_prim_func([x, one]))
    assert stages(function) == 2
    assert 4 * 30 <= scratch_of_lines(function) <= 4 * 25 * 30
    array = np.random.default_rng(0).random((30, 30), np.float32)
    expected = by_numpy(array, (6, 6), 1, "max")
    np.testing.assert_array_equal(run(function, array, (1, 25, 25, 1))[0, :, :, 0], expected)


def test_stages_keep_the_type_of_indices() -> None:
    """The indices of models have 64 bits, and a cast between types hides lanes from all rules."""
    long = [tirx.IntImm("int64", extent) for extent in (20, 20, 8)]
    x, zero, taps = te.placeholder(long, name="x"), tirx.IntImm("int64", 0), tirx.IntImm("int64", 5)
    i, j = (te.reduce_axis((zero, taps), name) for name in "ij")
    out = [tirx.IntImm("int64", extent) for extent in (16, 16, 8)]
    largest = te.compute(out, lambda h, w, c: te.max(x[h + i, w + j, c], axis=[i, j]), "largest")
    function = separate_windows(te.create_prim_func([x, largest]))
    assert stages(function) == 2
    assert "Cast" not in function.script()


@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4), ("int8", 1)])
def test_windows_without_padding_keep_one_line_of_their_own_type(dtype: str, size: int) -> None:
    """Room for one pixel, or for half of the bytes of a line, left plain loops."""
    function = separate_windows(windows((40, 40, 8), (5, 5), 1, dtype=dtype))
    assert scratch_of_lines(function) == size * 40 * 8


TERMS: dict[str, Any] = {
    "squares": lambda x, _, *at: x[at] * x[at],
    "products": lambda x, y, *at: x[at] * y[at],
    "distances": lambda x, y, *at: te.abs(x[at] - y[at]) + 1.0,
}


@pytest.mark.parametrize(("size", "stride"), [(8, 8), (5, 1)])
@pytest.mark.parametrize("kind", sorted(TERMS))
def test_terms_of_elements_at_one_place_are_reduced_along_one_axis_after_the_other(
    kind: str, size: int, stride: int
) -> None:
    """Sums of squares of 2,048 blocks of 8 by 8, and of products."""
    results = 12 if stride == size else 56
    extent = (results - 1) * stride + size
    x, y = te.placeholder((extent, extent), name="x"), te.placeholder((extent, extent), name="y")
    i, j = (te.reduce_axis((0, size), name) for name in "ij")
    term = TERMS[kind]
    sums = te.compute(
        (results, results), lambda r, c: te.sum(term(x, y, r * stride + i, c * stride + j), axis=[i, j]), "sums"
    )
    inputs = [x] if kind == "squares" else [x, y]
    function = separate_windows(te.create_prim_func([*inputs, sums]))
    assert stages(function) == 2
    a, b = (np.random.default_rng(n).integers(-5, 6, (extent, extent)).astype(np.float32) for n in range(2))
    result = tvm.runtime.tensor(np.zeros((results, results), np.float32))
    given_arrays = [tvm.runtime.tensor(one) for one in ([a] if kind == "squares" else [a, b])]
    tvm.compile(tvm.IRModule({"main": function}), target="llvm")["main"](*given_arrays, result)
    values = {"squares": a * a, "products": a * b, "distances": np.abs(a - b) + 1}[kind]
    seen = np.lib.stride_tricks.sliding_window_view(values, (size, size))[::stride, ::stride]
    np.testing.assert_array_equal(np.asarray(result.numpy()), seen.sum((-2, -1)))


def test_terms_that_depend_on_their_place_stay_whole() -> None:
    x, y = te.placeholder((64, 64), name="x"), te.placeholder((64, 64), name="y")
    i, j = (te.reduce_axis((0, 8), name) for name in "ij")
    lower = te.compute(
        (8, 8),
        lambda r, c: te.sum(tirx.Select(i >= j, x[r * 8 + i, c * 8 + j], tirx.const(0.0, "float32")), axis=[i, j]),
        "lower",
    )
    turned = te.compute(
        (8, 8), lambda r, c: te.sum(x[r * 8 + i, c * 8 + j] * y[c * 8 + j, r * 8 + i], axis=[i, j]), "turned"
    )
    for inputs, output in (([x], lower), ([x, y], turned)):
        function = te.create_prim_func([*inputs, output])
        assert separate_windows(function).same_as(function)
