"""Sums over zero-stuffed tensors are dense sums, one for each phase, and mean the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tvm import te, tirx, topi

from edgetune.codegen import emit_kernel
from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.program import Program
from edgetune.rewrites import kernel_forms as forms
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.target.core import WIDEST, Core
from edgetune.target.costs import MARGINS
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.examples import costly
from tests.executed_instructions import executed
from tests.rewrites.test_copies_for_lanes import Expression, made
from tests.sketch_samples import random_arguments, run_plain
from tests.te_programs import program_from_te

ZERO = tirx.const(0.0, "float32")


def stuffed(factor: int, results: int, ahead: int, *, staged: bool, backwards: bool) -> Expression:
    """A filter over x with `factor` - 1 zeros after each element, `ahead` of it and behind it.

    `staged`: these are a tensor; `backwards`: results look back at what they read.
    """

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        rows, length = map(int, x.shape)
        taps = int(w.shape[-1])
        k = te.reduce_axis((0, taps), "k")

        def element(c: te.Var, place: te.Var) -> te.Tensor:
            at = place - ahead
            held = tirx.all(tirx.floormod(at, factor) == 0, at >= 0, at < length * factor)
            return tirx.if_then_else(held, x[c, tirx.floordiv(at, factor)], ZERO)

        wide = te.compute((rows, results + taps - 1), element, "wide")
        weight = w if len(w.shape) == 1 else None

        def value(c: te.Var, t: te.Var) -> te.Tensor:
            place = t + taps - 1 - k if backwards else t + k
            return te.sum(
                (wide(c, place) if staged else element(c, place)) * (weight[k] if weight is not None else w[c, k]),
                axis=k,
            )

        return te.compute((rows, results), value, "filtered")

    return compute


def filtered(x: np.ndarray, w: np.ndarray, factor: int, results: int, ahead: int, *, backwards: bool) -> np.ndarray:
    """The same in double precision."""
    taps, rows = w.shape[-1], len(x)
    wide = np.zeros((rows, max(results + taps, x.shape[1] * factor + ahead)))
    wide[:, ahead : ahead + x.shape[1] * factor : factor] = x
    seen = np.lib.stride_tricks.sliding_window_view(wide, taps, axis=1)[:, :results]
    weights = w[..., ::-1] if backwards else w
    return np.asarray(np.einsum("ctk,ck->ct", seen, np.broadcast_to(weights, (rows, taps))))


def upscaled(strides: tuple[int, int], padding: tuple[int, int], *, last: bool = False) -> Expression:
    """A transposed convolution, with channels first or `last`."""

    def first(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        return topi.nn.conv2d_transpose_nchw(x, w, strides, padding, "float32", (0, 0))

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        taps = [int(extent) for extent in w.shape[:2]]
        edges = [0, *(extent - 1 - pad for extent, pad in zip(taps, padding, strict=True)), 0]
        wide = topi.nn.pad(topi.nn.dilate(x, [1, *strides, 1], name="dilated"), edges, edges)
        i, j, c = (te.reduce_axis((0, int(extent)), name) for extent, name in zip(w.shape[:3], "ijc", strict=True))
        shape = (x.shape[0], wide.shape[1] - taps[0] + 1, wide.shape[2] - taps[1] + 1, w.shape[3])

        def value(n: te.Var, y: te.Var, z: te.Var, o: te.Var) -> te.Tensor:
            return te.sum(wide[n, y + i, z + j, c] * w[taps[0] - 1 - i, taps[1] - 1 - j, c, o], axis=[i, j, c])

        return te.compute(shape, value, "upscaled")

    return compute if last else first


def scattered(x: np.ndarray, w: np.ndarray, strides: tuple[int, int], padding: tuple[int, int]) -> np.ndarray:
    """The transposed convolution of (n, c, h, w) as what each element of x adds to the results, in double precision."""
    batch, _, *image = x.shape
    full = [(size - 1) * step + taps for size, step, taps in zip(image, strides, w.shape[2:], strict=True)]
    out = np.zeros((batch, w.shape[1], *full))
    for i in range(w.shape[2]):
        for j in range(w.shape[3]):
            added = np.einsum("nchw,co->nohw", x.astype(np.float64), w[:, :, i, j])
            out[:, :, i :: strides[0], j :: strides[1]][:, :, : image[0], : image[1]] += added
    return out[:, :, padding[0] : full[0] - padding[0], padding[1] : full[1] - padding[1]]


def names(program: Program) -> list[str]:
    """The names of the kernels without that of the program."""
    return [kernel.name.removeprefix("made_") for kernel in program.kernels]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sum that has phases is made of them, also where that takes longer."""
    monkeypatch.setattr(Core, "least_terms", 0)
    monkeypatch.setattr(forms, "WIDEST", replace(WIDEST, margins=replace(MARGINS, gain=1e9)))


@pytest.mark.long
@pytest.mark.parametrize(
    ("results", "ahead", "factor", "taps", "most"),
    [
        (2970, 0, 3, 31, 258_000),  # the last tap of a phase is one too many
        (2970, 0, 3, 30, 330_000),
        (2970, 8, 3, 30, 356_000),
        (2971, 0, 3, 30, 383_000),
        (2970, 0, 3, 4, 83_000),  # to interleave results takes longer
        (970, 0, 1, 31, 187_000),  # no zeros
        (40, 0, 3, 31, 3_000),  # little work
    ],
)
def test_filters_between_zeros_are_dense_where_that_is_faster(
    *, results: int, ahead: int, factor: int, taps: int, most: int, tmp_path: Path
) -> None:
    """The first took 355,078 instructions with the zeros, the next two 684,258 and 763,924."""
    expression = stuffed(factor, results, ahead, staged=True, backwards=False)
    program, _, _ = made(expression, (16, 1000), (taps,)) if results > 40 else made(expression, (1, 30), (taps,))
    assert executed(program, tmp_path) < most
    assert len(program.divisions) == (len(program.kernels) > 1)  # a search compares them with the whole


@pytest.mark.long
@pytest.mark.usefixtures("always")
@costly(20)
@given(
    rows=st.sampled_from([1, 3]),
    length=st.integers(1, 40),
    results=st.integers(1, 130),
    factor=st.integers(2, 4),
    taps=st.integers(2, 9),
    ahead=st.integers(0, 9),
    each=st.booleans(),
    staged=st.booleans(),
    backwards=st.booleans(),
)
def test_a_filter_between_zeros_is_right(  # noqa: PLR0913  each is a property of the filter
    *,
    rows: int,
    length: int,
    results: int,
    factor: int,
    taps: int,
    ahead: int,
    each: bool,
    staged: bool,
    backwards: bool,
) -> None:
    assume(ahead < results)
    expression = stuffed(factor, results, ahead, staged=staged, backwards=backwards)
    program, (x, w), answer = made(expression, (rows, length), (rows, taps) if each else (taps,))
    wanted = filtered(x, w, factor, results, ahead, backwards=backwards)
    np.testing.assert_allclose(answer, wanted, rtol=1e-4, atol=1e-4)
    if results > 20 and length > 8:
        assert "filtered_phases" in names(program)


@pytest.mark.long
@pytest.mark.parametrize(
    ("last", "shapes", "most"),
    [
        (False, ((1, 16, 32, 32), (16, 8, 4, 4)), 1_900_000),
        (True, ((1, 32, 32, 64), (4, 4, 64, 3)), 4_200_000),
        (True, ((1, 16, 16, 128), (4, 4, 128, 64)), 29_000_000),
        (True, ((1, 2, 2, 128), (4, 4, 128, 64)), 792_000),  # few results share the taps, which are copied
    ],
)
def test_transposed_convolutions_are_dense_where_that_is_faster(
    last: bool, shapes: Sequence[tuple[int, ...]], most: int, tmp_path: Path
) -> None:
    """The first three took five to nine times as many instructions with the zeros."""
    program, _, _ = made(upscaled((2, 2), (1, 1), last=last), *shapes)
    assert executed(program, tmp_path) < most


@pytest.mark.long
def test_taps_of_weights_are_copied_when_the_package_is_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """So they cost no time, and few results are enough; the weights themselves are not in the package."""
    image, taps = (1, 2, 2, 128), (4, 4, 128, 64)
    generator = np.random.default_rng(0)
    x, w = (generator.standard_normal(shape).astype(np.float32) for shape in (image, taps))

    def compiled() -> Program:
        return program_from_te(upscaled((2, 2), (1, 1), last=True), {"x": (image, "float32")}, {"w": w}, "made")

    program = compiled()
    count = executed(program, tmp_path)
    assert count < 330_000  # 701,669 with the zeros
    assert [array.size for array in program.constants.values()] == [w.size]
    answer = evaluate_program(program, [{"x": x}])[0]["upscaled"].transpose(0, 3, 1, 2)
    wanted = scattered(x.transpose(0, 3, 1, 2), w.transpose(2, 3, 0, 1), (2, 2), (1, 1))
    np.testing.assert_allclose(answer, wanted, rtol=1e-4, atol=1e-4)
    monkeypatch.setattr("edgetune.rewrites.kernel_forms._GROWTH", 0.5)
    assert executed(compiled(), tmp_path) > count, "flash would grow too much"


@pytest.mark.long
@pytest.mark.usefixtures("always")
@costly(12)
@given(
    batch=st.integers(1, 2),
    channels=st.sampled_from([(1, 1), (2, 3), (5, 1), (9, 8)]),
    image=st.tuples(st.integers(2, 7), st.integers(2, 9)),
    taps=st.tuples(st.integers(2, 5), st.integers(2, 5)),
    strides=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    pads=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    last=st.booleans(),
)
def test_a_transposed_convolution_is_right(
    *,
    batch: int,
    channels: tuple[int, int],
    image: tuple[int, int],
    taps: tuple[int, int],
    strides: tuple[int, int],
    pads: tuple[int, int],
    last: bool,
) -> None:
    assume(all(pad < extent for pad, extent in zip(pads, taps, strict=True)))
    shapes = [(batch, channels[0], *image), (*channels, *taps)]
    orders = [(0, 2, 3, 1), (2, 3, 0, 1)] if last else [(0, 1, 2, 3)] * 2
    given_shapes = [tuple(shape[n] for n in order) for shape, order in zip(shapes, orders, strict=True)]
    _, (x, w), answer = made(upscaled(strides, pads, last=last), *given_shapes)
    if last:
        x, w, answer = x.transpose(0, 3, 1, 2), w.transpose(2, 3, 0, 1), answer.transpose(0, 3, 1, 2)
    np.testing.assert_allclose(answer, scattered(x, w, strides, pads), rtol=1e-4, atol=1e-4)


@pytest.mark.long
def test_what_follows_a_transposed_convolution_is_computed_with_its_results(tmp_path: Path) -> None:
    """The interleaved results pass through it: no tensor of them is written and read again."""

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        sums = upscaled((2, 2), (1, 1))(x, w)
        return te.compute(sums.shape, lambda *at: te.max(sums(*at), ZERO), "relu")

    program, (x, w), answer = made(compute, (1, 16, 32, 32), (16, 8, 4, 4))
    plain, _, _ = made(upscaled((2, 2), (1, 1)), (1, 16, 32, 32), (16, 8, 4, 4))
    assert executed(program, tmp_path) < 1.01 * executed(plain, tmp_path)
    np.testing.assert_allclose(answer, np.maximum(scattered(x, w, (2, 2), (1, 1)), 0), rtol=1e-4, atol=1e-4)


def test_a_condition_that_leaves_out_elements_of_x_stays() -> None:
    """Zeros in the middle of x are none between its elements."""

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, 31), "k")

        def element(c: te.Var, t: te.Var) -> te.Tensor:
            held = tirx.all(tirx.floormod(t, 3) == 0, tirx.any(t < 900, t > 1200))
            return tirx.if_then_else(held, x[c, tirx.floordiv(t, 3)], ZERO)

        wide = te.compute((16, 3000), element, "wide")
        return te.compute((16, 2970), lambda c, t: te.sum(wide[c, t + k] * w[k], axis=k), "filtered")

    _, (x, w), answer = made(compute, (16, 1000), (31,))
    x[:, 300:401] = 0
    np.testing.assert_allclose(answer, filtered(x, w, 3, 2970, 0, backwards=False), rtol=1e-4, atol=1e-4)


@pytest.mark.long
def test_a_window_that_never_leaves_the_operand_has_phases(tmp_path: Path) -> None:
    """Its condition becomes a selection, for each side reads elements inside of the tensor."""
    program, (x, w), answer = made(stuffed(3, 2970, 0, staged=False, backwards=False), (2, 1000), (31,))
    assert executed(program, tmp_path) < 190_000  # 1,462,368 with the zeros
    np.testing.assert_allclose(answer, filtered(x, w, 3, 2970, 0, backwards=False), rtol=1e-4, atol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
@pytest.mark.parametrize(
    ("expression", "shapes"),
    [
        (stuffed(3, 2971, 4, staged=True, backwards=False), ((2, 1000), (31,))),
        (upscaled((2, 2), (1, 1)), ((1, 16, 31, 33), (16, 8, 4, 4))),
        (upscaled((2, 2), (1, 1), last=True), ((1, 9, 11, 32), (3, 5, 32, 3))),
    ],
)
def test_the_kernels_compile_without_warnings_and_are_right(
    expression: Expression, shapes: tuple[tuple[int, ...], ...], cc: str, tmp_path: Path
) -> None:
    target = wide_target(512)
    program, _, _ = made(expression, *shapes)
    assert len(program.kernels) > 2
    for number, kernel in enumerate(program.kernels):
        folder = tmp_path / str(number)
        folder.mkdir()
        schedule = default_schedule(kernel.function, target, kernel.scratch, FORMS)[0]
        source = emit_kernel(apply_schedule(kernel.function, schedule).module, target, "k")
        arrays = random_arguments(kernel.function)
        compile_strictly(source, target, folder, cc)
        result = run_kernel(source, target, arrays, folder, cc=cc, extra=SANITIZERS)[-1]
        np.testing.assert_allclose(result, run_plain(kernel.function, arrays), rtol=1e-4, atol=1e-4)
