"""Sampled schedules compute what the kernel says, whatever its shape and whatever was sampled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, topi
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import Trace

from edgetune.codegen import emit_kernel
from edgetune.schedule.algorithms.apply import replay
from edgetune.schedule.algorithms.schedule_text import trace_text
from edgetune.schedule.default_sizes import tile_sizes
from edgetune.schedule.sketches import design_spaces, module_of, postprocs
from edgetune.schedule.sketches.block_analysis import analyse_blocks
from edgetune.schedule.sketches.decisions import Chosen
from edgetune.schedule.sketches.limits import footprint
from edgetune.schedule.sketches.spaces import limits, tile_of, tiled
from edgetune.schedule.sketches.tile import find_tile
from edgetune.schedule.sketches.variants import Outer, Variant
from edgetune.target.target import Target
from tests.examples import costly
from tests.sketch_samples import board, conv2d, conv2d_reference, dense, prim_func, random_arguments, run, run_plain


def sampled(function: Any, target: Target, seed: int) -> list[str]:
    """Traces of one valid schedule per design, freshly sampled; some samples exceed the registers."""
    traces = []
    for design in design_spaces(function, target, seed=seed):
        for attempt in range(8):
            sch = Schedule(module_of(function), seed=7919 * seed + 104729 * attempt)
            Trace(design.trace.insts, {}).apply_to_schedule(sch, remove_postproc=True)
            sch.enter_postproc()
            if all(post.apply(sch) for post in postprocs(target)):
                traces.append(trace_text(sch.trace))
                break
    return traces


def check(function: Any, target: Target, seed: int, expected: Any = None) -> int:
    """Every sampled schedule gives the plain loops' result; returns how many there were."""
    arrays = random_arguments(function, seed)
    expected = run_plain(function, arrays) if expected is None else expected(*arrays[:-1])
    traces = sampled(function, target, seed)
    for trace in traces:
        result = run(replay(function, trace), arrays)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    return len(traces)


sides = st.integers(1, 9)
seeds = st.integers(1, 10_000)
boards = st.sampled_from([board(512, 32), board(256, 16), board(128, 32), board(0, 0)])


@pytest.mark.long
@costly(8)
@given(
    st.tuples(sides, sides),
    st.tuples(st.sampled_from([1, 3, 4, 16]), st.sampled_from([1, 5, 8, 12, 16, 24, 64])),
    st.sampled_from([(1, 1), (3, 3), (5, 1), (2, 3)]), st.integers(1, 3),
    st.sampled_from([(0, 0, 0, 0), (1, 1, 1, 1), (0, 0, 1, 1), (2, 1, 0, 3)]),
    st.sampled_from(["", "bias_relu", "residual"]), boards, seeds,
)  # fmt: skip
def test_convolutions(
    size: tuple[int, int], channels: tuple[int, int], kernel: tuple[int, int], stride: int,
    pad: tuple[int, int, int, int], tail: str, target: Target, seed: int,
) -> None:  # fmt: skip
    height, width = size[0] + kernel[0], size[1] + kernel[1]
    depth, out = channels
    function = conv2d((height, width, depth), out, kernel=kernel, stride=stride, pad=pad, tail=tail)

    def expected(x: Any, w: Any, *others: Any) -> Any:
        y = conv2d_reference(x, w, stride, pad, 1)
        for other in others:
            y = y + other
        return np.maximum(y, 0) if tail else y

    check(function, target, seed, expected)


@pytest.mark.long
@costly(6)
@given(
    sides, sides, st.sampled_from([1, 2, 8, 16, 32]), st.sampled_from([(1, 1), (2, 1), (1, 2), (4, 4)]),
    st.integers(1, 2), boards, seeds,
)  # fmt: skip
def test_grouped_convolutions(
    height: int, width: int, groups: int, per_group: tuple[int, int], stride: int, target: Target, seed: int
) -> None:
    depth, out = per_group
    function = conv2d(
        (height + 3, width + 3, depth * groups), out * groups, stride=stride, pad=(1, 1, 1, 1), groups=groups
    )

    def expected(x: Any, w: Any, bias: Any) -> Any:
        return np.maximum(conv2d_reference(x, w, stride, (1, 1, 1, 1), groups) + bias, 0)

    check(function, target, seed, expected)


@costly(8)
@given(st.sampled_from([1, 2, 5, 12]), st.integers(1, 40), st.integers(1, 40), st.booleans(), boards, seeds)
def test_matrix_products(rows: int, depth: int, columns: int, constant: bool, target: Target, seed: int) -> None:
    function = dense(rows, depth, columns, constant=constant)
    check(function, target, seed, lambda x, w, bias: x.astype("float64") @ w + bias)


@pytest.mark.long
@costly(6)
@given(sides, sides, st.sampled_from([1, 6, 16]), st.sampled_from(["max", "avg"]), boards, seeds)
def test_pooling(height: int, width: int, channels: int, kind: str, target: Target, seed: int) -> None:
    x = te.placeholder((1, height + 2, width + 2, channels), name="x")
    y = topi.nn.pool2d(x, (3, 2), (2, 1), (1, 1), (1, 0, 1, 1), kind, layout="NHWC", count_include_pad=False)
    check(prim_func([x], y), target, seed)


def _kernels() -> dict[str, Any]:
    x = te.placeholder((2, 3, 4, 40), name="x")
    row = te.placeholder((1, 1, 1, 40), name="row")
    rows = te.placeholder((6, 33), name="rows")
    left, right = te.placeholder((2, 5, 7), name="left"), te.placeholder((2, 9, 7), name="right")
    sound = te.placeholder((1, 4, 20), name="sound")
    filters = te.placeholder((8, 4, 3), name="filters")
    volume, cube = te.placeholder((1, 3, 4, 5, 8), name="volume"), te.placeholder((8, 3, 2, 3, 2), name="cube")
    image, up = te.placeholder((1, 4, 5, 5), name="image"), te.placeholder((4, 6, 3, 3), name="up")
    return {
        "add": prim_func([x, row], topi.nn.relu(topi.add(x, row))),
        "odd elementwise": prim_func([rows], topi.tanh(topi.multiply(rows, rows))),
        "transpose": prim_func([x], topi.transpose(x, (0, 3, 1, 2))),
        "reshape": prim_func([x], topi.reshape(topi.nn.relu(x), (8, 120))),
        "concatenate": prim_func([x, row], topi.concatenate([x, topi.broadcast_to(row, (2, 3, 4, 40))], 3)),
        "softmax": prim_func([rows], topi.nn.softmax(rows, 1)),
        "softmax of first axis": prim_func([rows], topi.nn.softmax(rows, 0)),
        "sum of last axis": prim_func([rows], topi.sum(rows, 1)),
        "mean of middle axes": prim_func([x], topi.divide(topi.sum(x, (1, 2)), 12.0)),
        "sum of everything": prim_func([rows], topi.sum(rows)),
        "argmax": prim_func([rows], topi.argmax(rows, 1)),
        "batch matmul": prim_func([left, right], topi.nn.batch_matmul(left, right)),
        "conv1d": prim_func([sound, filters], topi.nn.conv1d(sound, filters, 1, 1, 1, 1, "NCW", "OIW"), [1]),
        "conv3d": prim_func([volume, cube], topi.nn.conv3d_ncdhw(volume, cube, 1, 1, 1, 1), [1]),
        "transposed": prim_func(
            [image, up], topi.nn.conv2d_transpose_nchw(image, up, (2, 2), (1, 1), "float32", (0, 0)), [1]
        ),
        "int8 dot": prim_func(
            [a := te.placeholder((4, 32), "int8", "a"), b := te.placeholder((32, 16), "int8", "b")],
            topi.nn.matmul(a, b, out_dtype="int32"),
            [1],
        ),
    }


@pytest.mark.parametrize("name", sorted(_kernels()))
def test_other_kernels(name: str) -> None:
    assert check(_kernels()[name], board(256, 16), seed=3) > 0


def test_a_convolution_becomes_a_register_tile_without_whole_intermediates() -> None:
    function, target = conv2d((28, 28, 16), 32), board(256, 16)
    traces = sampled(function, target, 5)
    assert traces
    for design in design_spaces(function, target):
        taken = footprint(design.mod)
        assert taken.scratch_bytes < 4 * 30 * 30 * 16, "padding may be copied by rows, never whole"


def test_schedules_beyond_the_limits_are_refused() -> None:
    function, target = conv2d((28, 28, 16), 32), board(256, 16)
    copying = [d for d in design_spaces(function, target) if footprint(d.mod).scratch_bytes > 1024]
    assert copying
    assert not postprocs(target, scratch_limit=0)[0].apply(copying[0])


def test_pointwise_convolutions_fuse_their_pixels() -> None:
    analysis = analyse_blocks(conv2d((5, 7, 16), 16, kernel=(1, 1), pad=(0, 0, 0, 0)))
    assert analysis is not None
    tile = find_tile(analysis, 8)
    assert tile is not None
    assert tile.fusible
    strided = analyse_blocks(conv2d((6, 8, 16), 16, kernel=(1, 1), pad=(0, 0, 0, 0), stride=2))
    assert strided is not None
    tile = find_tile(strided, 8)
    assert tile is not None
    assert not tile.fusible


def test_rows_that_share_nothing_are_summed_side_by_side() -> None:
    """As in a vector times a matrix for each of a batch: one sum at a time would wait for its last addition."""
    a, b = te.placeholder((10, 96), name="a"), te.placeholder((10, 96, 16), name="b")
    k = te.reduce_axis((0, 96), "k")
    product = te.compute((10, 16), lambda i, j: te.sum(a[i, k] * b[i, k, j], axis=k), "product")
    target = board(512, 32)
    found = tile_of(prim_func([a, b], product), target)
    assert found is not None
    analysis, tile = found
    assert tile.pixel == 0
    assert tile_sizes(analysis, tile, Variant(("pixel", "channel")), target)["pixel"] > 1


@pytest.mark.parametrize(
    ("groups", "share", "group", "lanes"), [(4, 28, 28, 4), (4, 34, 34, 2), (1, 24, 24, 8), (6, 1, 1, 2)]
)
def test_no_vector_straddles_two_groups(groups: int, share: int, group: int, lanes: int) -> None:
    found = tile_of(conv2d((8, 8, 3 * groups), share * groups, groups=groups), board(512, 32))
    assert found is not None
    assert (found[1].group, found[1].lanes) == (group, lanes)


def test_a_scalar_among_the_inputs_is_no_obstacle() -> None:
    x, scale = te.placeholder((4, 32), name="x"), te.placeholder((), name="scale")
    y = te.compute((4, 32), lambda i, j: x[i, j] * scale[()], name="y")
    check(prim_func([x, scale], y), board(), 1, lambda x, scale: x * scale)


@pytest.mark.parametrize(("pixels", "vectors", "fits"), [(14, 2, True), (7, 4, False), (7, 3, True), (1, 9, True)])
def test_a_tile_leaves_registers_for_what_its_pixels_share(pixels: int, vectors: int, *, fits: bool) -> None:
    # Of 31 registers, 28 sums and 2 vectors of weights leave one; 28 sums and 4 vectors find too few.
    target, function = board(512, 32), dense(pixels, 64, 16 * vectors)
    found = tile_of(function, target)
    assert found is not None
    order: tuple[Outer, ...] = ("channel",) if pixels == 1 else ("channel", "pixel")
    sch = tiled(function, found[1], Variant(order), Chosen({"pixel": pixels, "vectors": vectors}), target)
    assert footprint(sch.mod).within(limits(target)) == fits


@pytest.mark.parametrize("shape", [(1, 64, 32), (1, 24, 36)])
def test_a_transposition_stores_whole_vectors(shape: tuple[int, ...]) -> None:
    x = te.placeholder(shape, name="x")
    function, target = prim_func([x], topi.transpose(x, (0, 2, 1))), board(512, 32)
    scheduled = replay(function, trace_text(design_spaces(function, target)[0].trace))
    text = emit_kernel(scheduled, target, "moved").definition
    assert "lane" not in text
    assert "transpose_f32x16(&t_transpose[0]" in text, "in squares of vectors"
