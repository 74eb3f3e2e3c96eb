"""Integer convolutions are tiled in registers like float ones, their weights packed and left int8."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx, topi

from edgetune.codegen import emit_kernel, split_packing
from edgetune.schedule.algorithms.apply import replay
from edgetune.schedule.default_schedule import default_trace
from edgetune.schedule.sketches.block_analysis import analyse_blocks
from edgetune.schedule.sketches.spaces import native_lanes
from edgetune.schedule.sketches.tile import find_tile
from tests.examples import costly
from tests.integer_samples import Quantised, close
from tests.schedule.test_sketches import sampled
from tests.sketch_samples import board, prim_func, run

CASES = [
    Quantised(),
    Quantised(shape=(5, 5, 16), out=16, groups=16, residual=True),
    Quantised(shape=(4, 6, 24), out=48, kernel=(1, 1), pad=(0, 0, 0, 0), zeros=(5, 0)),
    Quantised(shape=(9, 9, 3), out=8, stride=2, zeros=(-7, 3)),
]


@pytest.mark.parametrize("case", CASES)
def test_the_fixed_schedule_is_a_register_tile_on_bytes(case: Quantised) -> None:
    function, target = case.function(), board()
    trace, note = default_trace(function, target)
    assert note.startswith("register tile"), note
    module, packing = split_packing(replay(function, trace))
    assert set(packing) == {1}
    assert str(module["main"].params[1].dtype) == "int8"
    arrays = case.arrays()
    close(run(replay(function, trace), arrays), case.expected(*arrays[:-1]))


@pytest.mark.long
@costly(5)
@given(
    st.integers(1, 7), st.integers(1, 7), st.sampled_from([1, 3, 8]), st.sampled_from([5, 8, 24]),
    st.sampled_from([(0, 0, 0, 0), (1, 1, 1, 1), (0, 2, 1, 0)]), st.integers(-128, 127), st.booleans(),
    st.integers(1, 10_000),
)  # fmt: skip
def test_sampled_schedules_compute_the_convolution(
    height: int, width: int, depth: int, out: int, pad: tuple[int, int, int, int], zero: int, residual: bool, seed: int
) -> None:
    case = Quantised((height + 2, width + 2, depth), out, pad=pad, zeros=(zero, 0), residual=residual)
    function, arrays = case.function(), case.arrays(seed)
    expected = case.expected(*arrays[:-1])
    for trace in sampled(function, board(), seed):
        result = run(replay(function, trace), arrays)
        assert np.abs(result.astype(int) - expected.astype(int)).max() <= 1


def test_lanes_are_those_of_the_sums_when_every_tensor_holds_bytes() -> None:
    x, w = te.placeholder((4, 8), "int8", name="x"), te.placeholder((8, 64), "int8", name="w")
    depth = te.reduce_axis((0, 8), "k")
    y = te.compute(
        (4, 64), lambda i, j: te.sum(x[i, depth].astype("int32") * w[depth, j].astype("int32"), axis=depth), name="y"
    )
    function = prim_func([x, w], topi.cast(y, "int8"), [1])
    assert native_lanes(function, board(512, 32)) == 16
    analysis = analyse_blocks(function)
    assert analysis is not None
    tile = find_tile(analysis, native_lanes(function, board(512, 32)))
    assert tile is not None
    assert tile.lanes == 16


def test_weights_are_found_behind_what_is_computed_of_them_alone() -> None:
    analysis = analyse_blocks(Quantised(zeros=(-128, 9)).function())
    assert analysis is not None
    names = [str(buffer.name) for buffer in analysis.weights()]
    assert names[0] == "w"
    assert len(names) == 2


def test_a_transposition_that_computes_puts_its_lanes_along_what_it_reads() -> None:
    x = te.placeholder((1, 3, 4, 16), name="x")
    y = te.compute((1, 4, 16, 3), lambda n, h, w, c: tirx.nearbyint(x[n, c, h, w]), name="y")
    function, target = prim_func([x], y), board(256, 16)
    module = replay(function, default_trace(function, target)[0])
    source = emit_kernel(module, target, "kernel")
    assert "@nearbyint_f32x8" in source.definition
    array = np.linspace(-9, 9, 192, dtype=np.float32).reshape(1, 3, 4, 16)
    result = run(module, [array, np.zeros((1, 4, 16, 3), np.float32)])
    np.testing.assert_array_equal(result, np.rint(array.transpose(0, 2, 3, 1)))
