"""Expressions in several kernels: what is divided, and that the parts mean what the whole means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tvm import te, tirx, topi

from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.program import Program
from tests.examples import costly
from tests.executed_instructions import executed
from tests.te_programs import program_from_te

Array = np.ndarray


def parted(compute: Callable[..., Any], inputs: dict[str, Array], weights: dict[str, Array]) -> tuple[Program, Array]:
    """The program of an expression, and what its kernels compute."""
    shapes = {name: (value.shape, "float32") for name, value in inputs.items()}
    program = program_from_te(compute, shapes, weights, "made")
    (output,) = evaluate_program(program, [inputs])[0].values()
    return program, output


def values(seed: int, **shapes: tuple[int, ...]) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    return {name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def images_first(x: Array, w: Array, stride: int, padding: int) -> Array:
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, w.shape[-2:], axis=(2, 3))[:, :, ::stride, ::stride]
    return np.asarray(np.einsum("nchwij,ocij->nohw", seen, w))


@pytest.mark.long
@costly(15)
@given(
    st.tuples(st.integers(1, 2), st.integers(4, 9), st.integers(5, 9), st.integers(5, 9)),
    st.integers(4, 9),
    st.tuples(st.sampled_from([1, 3]), st.sampled_from([2, 3])),
    st.integers(1, 2),
    st.integers(0, 1),
    st.booleans(),
    st.sampled_from(["", "bias", "scaled", "before"]),
)
def test_convolutions_with_channels_first(
    image: tuple[int, ...], out: int, kernel: tuple[int, int], stride: int, padding: int, known: bool, tail: str
) -> None:
    assume(image[1] * kernel[0] * kernel[1] >= 32)
    arrays = values(0, x=image, w=(out, image[1], *kernel), b=(out,))

    def compute(x: te.Tensor, *others: te.Tensor) -> te.Tensor:
        w, b = sorted(others, key=lambda one: -len(one.shape))
        seen = topi.nn.relu(x) if tail == "before" else x
        y = topi.nn.conv2d_nchw(seen, w, stride, padding, 1)
        if tail == "bias":
            y = te.compute(y.shape, lambda n, o, i, j: y[n, o, i, j] + b[o], "biased")
        return te.compute(y.shape, lambda *at: y(*at) * 1.5, "scaled") if tail == "scaled" else y

    expected = images_first(
        np.maximum(arrays["x"], 0) if tail == "before" else arrays["x"], arrays["w"], stride, padding
    )
    expected = expected + arrays["b"][:, None, None] if tail == "bias" else expected
    expected = expected * 1.5 if tail == "scaled" else expected
    inputs = {"x": arrays["x"]} if known else arrays
    weights = {name: arrays[name] for name in ("w", "b")} if known else {}
    program, output = parted(compute, inputs, weights)
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-4)
    more = len(program.calls) - (3 if known else 4)
    assert 0 <= more <= (tail == "before"), "transpositions of the image, the weights, the result, and what is before"
    constants = [p.name for kernel in program.kernels for p in kernel.params if p.role == "constant"]
    assert "made_conv2d_nhwc" in [kernel.name for kernel in program.kernels], "loops are named by their order"
    assert constants == (["w", *(["b"] if tail == "bias" else [])] if known else [])


@pytest.mark.long
def test_the_sum_with_an_image_comes_after_the_transposition(tmp_path: Path) -> None:
    """Another image with channels first is no operand of what follows the convolution with channels last."""
    arrays = values(7, x=(1, 8, 9, 9), w=(8, 8, 3, 3), r=(1, 8, 9, 9))

    def compute(x: te.Tensor, r: te.Tensor, w: te.Tensor) -> list[te.Tensor]:
        y = topi.nn.relu(topi.nn.conv2d_nchw(x, w, 1, 1, 1))
        return [
            te.compute(y.shape, lambda *at: y(*at) + r(*at), "joined"),
            te.compute(y.shape, lambda *at: y(*at) * 2.0, "doubled"),
        ]

    shapes = {name: (arrays[name].shape, "float32") for name in "xr"}
    program = program_from_te(compute, shapes, {"w": arrays["w"]}, "made")
    first, second = evaluate_program(program, [{name: arrays[name] for name in "xr"}])[0].values()
    expected = np.maximum(images_first(arrays["x"], arrays["w"], 1, 1), 0)
    np.testing.assert_allclose(first, expected + arrays["r"], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(second, expected * 2, rtol=1e-4, atol=1e-4)
    assert executed(program, tmp_path) < 25_000  # 37,625 with channels first


@pytest.mark.long
def test_three_axes_of_an_image(tmp_path: Path) -> None:
    arrays = values(1, x=(1, 4, 5, 6, 7), w=(8, 4, 3, 3, 3))
    program, output = parted(
        lambda x, w: topi.nn.conv3d_ncdhw(x, w, 1, 1, 1, 1), {"x": arrays["x"]}, {"w": arrays["w"]}
    )
    padded = np.pad(arrays["x"].astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1), (1, 1)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, (3, 3, 3), axis=(2, 3, 4))
    np.testing.assert_allclose(output, np.einsum("ncdhwijk,ocijk->nodhw", seen, arrays["w"]), rtol=1e-4, atol=1e-4)
    assert executed(program, tmp_path) < 53_000  # 79,887 with channels first


def product(x: te.Tensor, y: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, x.shape[1]), "k")
    return te.compute((x.shape[0], y.shape[1]), lambda i, j: te.sum(x[i, k] * y[k, j], axis=k), "product")


def test_a_product_beside_other_sums_is_a_kernel_of_its_own() -> None:
    arrays = values(2, x=(32, 64), y=(64, 48))
    program, output = parted(lambda x, y: product(topi.nn.softmax(x), y), arrays, {})
    assert [kernel.name for kernel in program.kernels] == ["made_T_softmax_maxelem", "made_product"]
    shares = np.exp(arrays["x"].astype(np.float64))
    expected = shares / shares.sum(1, keepdims=True) @ arrays["y"]
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-4)


def test_what_follows_a_product_in_other_rows_is_a_kernel_of_its_own() -> None:
    arrays = values(3, x=(32, 64), y=(64, 48))
    program, output = parted(lambda x, y: topi.nn.softmax(topi.nn.relu(product(x, y))), arrays, {})
    assert len(program.kernels) == 2
    assert program.kernels[0].sources == ("product",)
    powers = np.exp(np.maximum(arrays["x"].astype(np.float64) @ arrays["y"], 0))
    np.testing.assert_allclose(output, powers / powers.sum(1, keepdims=True), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("depth", "kernels"), [(64, (2, 1)), (12, (1, 2)), (2, (1,))])
def test_the_other_division_means_the_same(depth: int, kernels: tuple[int, ...]) -> None:
    """Many products share a tensor between: parts first. Few: the whole first. Very few: no division."""
    arrays = values(6, x=(128, depth), y=(depth, 48))
    program, output = parted(lambda x, y: topi.nn.softmax(product(x, y)), arrays, {})
    assert (len(program.kernels), *(len(one.kernels) for one in program.divisions)) == kernels
    for other in program.divisions:
        (result,) = evaluate_program(other, [arrays])[0].values()
        np.testing.assert_allclose(result, output, rtol=1e-4, atol=1e-5)


def test_every_product_is_a_kernel_of_its_own() -> None:
    arrays = values(4, x=(64, 64), y=(64, 64))

    def compute(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        return product(topi.nn.softmax(product(x, y)), y)

    program, output = parted(compute, arrays, {})
    assert [kernel.sources for kernel in program.kernels][::2] == [("product",), ("product_1",)]
    powers = np.exp(arrays["x"].astype(np.float64) @ arrays["y"])
    np.testing.assert_allclose(output, powers / powers.sum(1, keepdims=True) @ arrays["y"], rtol=1e-4, atol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize(("size", "most"), [(8, 211_000), (4, 57_000)])
def test_products_of_few_terms_have_tiles_of_their_own(size: int, most: int, tmp_path: Path) -> None:
    """A matrix on both sides of small blocks: in one kernel, only one product had a tile (263,205 instructions)."""
    arrays = values(7, x=(512, size, size), t=(size, size))

    def compute(x: te.Tensor, t: te.Tensor) -> te.Tensor:
        i, j = te.reduce_axis((0, size), "i"), te.reduce_axis((0, size), "j")
        rows = te.compute(x.shape, lambda b, u, c: te.sum(t[u, i] * x[b, i, c], axis=i), "rows")
        return te.compute(x.shape, lambda b, u, v: te.sum(rows[b, u, j] * t[v, j], axis=j), "both")

    program, output = parted(compute, arrays, {})
    assert executed(program, tmp_path) < most
    wide = arrays["t"].astype(np.float64)
    np.testing.assert_allclose(output, wide @ arrays["x"] @ wide.T, rtol=1e-4, atol=1e-4)


def nothing_shared(x: te.Tensor) -> te.Tensor:
    j, k = te.reduce_axis((0, 1000), "j"), te.reduce_axis((0, 1000), "k")
    most = te.compute((64,), lambda i: te.max(x[i, j], axis=j), "most")
    return te.compute((64,), lambda i: te.sum(te.exp(x[i, k] - most[i]), axis=k), "total")


def outer(x: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, 2), "k")
    y = te.compute((64, 1000), lambda i, j: te.sum(x[i, k] * x[k, j], axis=k), "outer")
    m = te.reduce_axis((0, 1000), "m")
    return te.compute((64,), lambda i: te.max(y[i, m], axis=m), "largest")


@pytest.mark.long
@pytest.mark.parametrize(
    ("expression", "most"), [(nothing_shared, 256_000), (outer, 183_000), (topi.nn.softmax, 339_000)]
)
def test_sums_stay_together(expression: Callable[..., Any], most: int, tmp_path: Path) -> None:
    """No operand is used often, or a tensor between would cost more than the products."""
    program, _ = parted(expression, values(5, x=(64, 1000)), {})
    assert executed(program, tmp_path) < most


def test_windows_of_rows_without_channels_stay_as_they_are() -> None:
    def filtered(x: te.Tensor) -> te.Tensor:
        i, j = te.reduce_axis((0, 6), "i"), te.reduce_axis((0, 6), "j")
        return te.compute((20, 20), lambda r, c: te.sum(x[r + i, c + j] * tirx.const(2.0), axis=[i, j]), "filtered")

    program, _ = parted(filtered, values(6, x=(25, 25)), {})
    assert len(program.kernels) == 1


def two_products(x: te.Tensor, y: te.Tensor, z: te.Tensor) -> te.Tensor:
    """The ratio of two sums, both of which read rows of an operand as columns."""
    k, m = te.reduce_axis((0, 64), "k"), te.reduce_axis((0, 64), "m")
    shape = (127, 100)
    least = te.compute(shape, lambda i, j: te.sum(te.min(x[i, k], y[j, k]), axis=k), "least")
    most = te.compute(shape, lambda i, j: te.sum(te.max(x[i, m], z[j, m]), axis=m), "most")
    return te.compute(shape, lambda i, j: least[i, j] / most[i, j], "ratio")


@pytest.mark.long
@pytest.mark.parametrize(("columns", "most"), [(48, 118_000), (1, 3_500)])
def test_arithmetic_on_an_operand_is_done_once_where_many_products_read_it(
    columns: int, most: int, tmp_path: Path
) -> None:
    """The first took 170,213 instructions in one kernel."""
    arrays = values(10, x=(64, 100), y=(100, columns))

    def compute(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        bent = te.compute(x.shape, lambda i, k: te.max(x[i, k], tirx.const(0.0, "float32")) * 2.0, "bent")
        return product(bent, y)

    program, output = parted(compute, arrays, {})
    assert executed(program, tmp_path) < most
    np.testing.assert_allclose(output, 2 * np.maximum(arrays["x"], 0) @ arrays["y"], rtol=1e-4, atol=1e-4)


@pytest.mark.long
def test_arithmetic_before_padding_is_done_once(tmp_path: Path) -> None:
    arrays = values(14, x=(1, 20, 20, 32), w=(3, 3, 32, 48))

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        return topi.nn.conv2d_nhwc(topi.nn.pad(topi.nn.relu(x), [0, 1, 1, 0], [0, 1, 1, 0]), w, 1, 0, 1)

    program, output = parted(compute, arrays, {})
    assert executed(program, tmp_path) < 2_470_000  # 4,149,427 in one kernel
    wide = np.pad(np.maximum(arrays["x"], 0), ((0, 0), (1, 1), (1, 1), (0, 0)))
    seen = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(1, 2))
    np.testing.assert_allclose(output, np.einsum("nhwcij,ijco->nhwo", seen, arrays["w"]), rtol=1e-3, atol=1e-3)


def test_arithmetic_before_windows_of_single_channels_stays() -> None:
    """Each result reads nine elements of its own channel: rows of the operand stay in L1 in one kernel."""
    arrays = values(13, x=(30, 30, 64), w=(3, 3, 64))

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        bent = te.compute(x.shape, lambda i, j, c: te.max(x[i, j, c], tirx.const(0.0, "float32")) * 2.0, "bent")
        i, j = te.reduce_axis((0, 3), "i"), te.reduce_axis((0, 3), "j")
        shape = (28, 28, 64)
        return te.compute(shape, lambda r, s, c: te.sum(bent[r + i, s + j, c] * w[i, j, c], axis=[i, j]), "windows")

    program, _ = parted(compute, arrays, {})
    assert len(program.kernels) == 1


def test_padding_of_dilated_operands_stays_with_their_product() -> None:
    """Both only move elements, and the product tests which taps are zeros."""
    arrays = values(11, x=(1, 16, 16, 32), w=(3, 3, 32, 48))

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        wide = topi.nn.pad(topi.nn.dilate(x, [1, 2, 2, 1]), [0, 1, 1, 0], [0, 1, 1, 0])
        return topi.nn.conv2d_nhwc(wide, w, 1, 0, 1)

    program, _ = parted(compute, arrays, {})
    assert len(program.kernels) == 1


@pytest.mark.long
def test_an_operand_in_the_order_of_the_lanes_is_not_copied(tmp_path: Path) -> None:
    """Results of two columns have lanes along the rows; the terms of both operands are contiguous already."""
    arrays = values(12, x=(61, 200), y=(101, 2, 200))

    def compute(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, 200), "k")
        return te.compute((61, 101, 2), lambda t, f, c: te.sum(x[t, k] * y[f, c, k], axis=k), "waves")

    program, output = parted(compute, arrays, {})
    assert executed(program, tmp_path) < 727_000  # 813,815 in one kernel
    np.testing.assert_allclose(output, np.einsum("tk,fck->tfc", arrays["x"], arrays["y"]), rtol=1e-4, atol=1e-4)


@pytest.mark.long
def test_two_products_share_the_copy_of_an_operand(tmp_path: Path) -> None:
    arrays = {name: np.abs(value) for name, value in values(7, x=(127, 64), y=(100, 64)).items()}
    program, output = parted(lambda x, y: two_products(x, y, y), arrays, {})
    two, _ = parted(two_products, {**arrays, "z": arrays["y"]}, {})
    assert executed(program, tmp_path) < executed(two, tmp_path)
    x, y = arrays["x"][:, None], arrays["y"]
    np.testing.assert_allclose(output, np.minimum(x, y).sum(-1) / np.maximum(x, y).sum(-1), rtol=1e-5)


@pytest.mark.long
def test_copies_of_two_operands_are_two_tensors(tmp_path: Path) -> None:
    arrays = {name: np.abs(value) for name, value in values(8, x=(127, 64), y=(100, 64), z=(100, 64)).items()}
    program, output = parted(two_products, arrays, {})
    assert executed(program, tmp_path) < 803_000  # 892,720 in one kernel
    x, y, z = arrays["x"][:, None], arrays["y"], arrays["z"]
    np.testing.assert_allclose(output, np.minimum(x, y).sum(-1) / np.maximum(x, z).sum(-1), rtol=1e-5)


def test_kernels_and_tensors_have_names_of_their_own() -> None:
    """The copy of y, an input, and a product that reads the copy share one name in the expression."""

    def compute(x: te.Tensor, y: te.Tensor, y_last: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, 64), "k")
        total = te.compute((127, 100), lambda i, j: te.sum(x[i, k] * y[j, k], axis=k), "y_last")
        return te.compute((127, 100), lambda i, j: total[i, j] + y_last[j], "moved")

    arrays = values(9, x=(127, 64), y=(100, 64), y_last=(100,))
    program, output = parted(compute, arrays, {})
    assert [kernel.name for kernel in program.kernels] == ["made_y_last", "made_y_last_1"]
    assert sorted(buffer.name for buffer in program.buffers) == ["moved", "x", "y", "y_last", "y_last_1"]
    expected = arrays["x"].astype(np.float64) @ arrays["y"].T + arrays["y_last"]
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-4)


def test_what_a_product_does_not_need_comes_before_it() -> None:
    """The sum of a softmax is made beside its elements, so that the quotient follows the product in its kernel."""
    arrays = values(7, x=(127, 96), v=(96, 32))

    def compute(x: te.Tensor, v: te.Tensor) -> te.Tensor:
        j, k, n = (te.reduce_axis((0, 96), name) for name in "jkn")
        most = te.compute((127,), lambda i: te.max(x[i, j], axis=j), "most")
        power = te.compute((127, 96), lambda i, s: te.exp(x[i, s] - most[i]), "power")
        total = te.compute((127,), lambda i: te.sum(power[i, k], axis=k), "total")
        mixed = te.compute((127, 32), lambda i, d: te.sum(power[i, n] * v[n, d], axis=n), "mixed")
        return te.compute((127, 32), lambda i, d: mixed[i, d] / total[i], "attended")

    program, output = parted(compute, arrays, {})
    assert [kernel.name for kernel in program.kernels] == ["made_most", "made_mixed"]
    power = np.exp(arrays["x"].astype(np.float64))
    np.testing.assert_allclose(output, power @ arrays["v"] / power.sum(1, keepdims=True), rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_a_product_of_a_tensor_with_itself_has_a_tile(tmp_path: Path) -> None:
    arrays = values(8, x=(200, 31))

    def compute(x: te.Tensor) -> te.Tensor:
        i, k = te.reduce_axis((0, 200), "i"), te.reduce_axis((0, 200), "k")
        total = te.compute((31,), lambda c: te.sum(x[i, c], axis=i), "total")
        gap = te.compute((200, 31), lambda r, c: x[r, c] - total[c] / 200.0, "gap")
        return te.compute((31, 31), lambda a, b: te.sum(gap[k, a] * gap[k, b], axis=k), "gram")

    program, output = parted(compute, arrays, {})
    assert executed(program, tmp_path) < 98_000  # 162,956 in one kernel
    gap = arrays["x"] - arrays["x"].astype(np.float64).mean(0)
    np.testing.assert_allclose(output, gap.T @ gap, rtol=1e-4, atol=1e-4)
