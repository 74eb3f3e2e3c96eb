"""The fixed schedule's formula: what a register tile takes, counted by hand, and tiles that fit on every target."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tvm import te, tirx

from benchmarks.disassembly import loops_of
from benchmarks.oracle.facts import target_of
from edgetune.codegen import emit_kernel, kernel_unit, split_packing
from edgetune.schedule.algorithms.apply import replay
from edgetune.schedule.algorithms.catalogue import algorithms_among
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.default_schedule import default_guess, default_trace, ranked_variants
from edgetune.schedule.default_sizes import tile_sizes
from edgetune.schedule.guessed_schedule import estimated_instructions, formula_schedule, guessed_schedule
from edgetune.schedule.sketches.block_analysis import analyse_blocks
from edgetune.schedule.sketches.liveness import Body, Reads, epilogue_operands, reads_of
from edgetune.schedule.sketches.spaces import tile_of
from edgetune.target.target import load_target
from edgetune.tvm_types import PrimFunc
from tests.sketch_samples import board, conv2d, dense, prim_func


def reads(function: Any) -> Reads:
    """Of the tile that a function has on a board of 4 lanes."""
    found = tile_of(function, board(128, 32))
    assert found is not None
    tile = found[1]
    return reads_of(tile.anchor, tile.row, tile.pixel, tile.channel, tile.lanes)


def test_a_product_keeps_its_weights_and_one_broadcast() -> None:
    pointwise = reads(conv2d((8, 8, 16), 32, kernel=(1, 1), pad=(0, 0, 0, 0)))
    one_step = Body(1, 4, 3, (1, 1, 1))
    assert pointwise.registers(one_step) == 12 + 3 + 1
    assert pointwise.loads(one_step) == 3 + 4
    # Weights of the next step replace those of this one.
    assert pointwise.registers(Body(1, 4, 3, (1, 1, 4))) == 12 + 3 + 1
    assert pointwise.loads(Body(1, 4, 3, (1, 1, 4))) == 4 * (3 + 4)
    # A weight that one pixel uses is dropped at once.
    assert pointwise.registers(Body(1, 1, 3, (1, 1, 1))) == 3 + 1 + 1


def test_pixels_of_a_fused_row_are_told_apart() -> None:
    pointwise = reads(conv2d((8, 8, 16), 32, kernel=(1, 1), pad=(0, 0, 0, 0)))
    assert pointwise.loads(Body(1, 16, 1, (1, 1, 1), columns=8)) == 1 + 16


def test_neighbours_in_a_window_share_inputs() -> None:
    depthwise = reads(conv2d((12, 12, 16), 16, groups=16))
    row = Body(1, 6, 1, (1, 3, 1))
    assert depthwise.loads(row) == 3 + (6 + 2)
    # Before the second weight, five inputs of the first are needed again; the weight and the sixth input beside them.
    assert depthwise.registers(row) == 6 + 5 + 1
    strided = reads(conv2d((13, 13, 16), 16, groups=16, stride=2))
    assert strided.loads(row) == 3 + 13


def test_weights_of_a_whole_window_stay_over_a_loop_of_pixels() -> None:
    depthwise = reads(conv2d((12, 12, 16), 16, groups=16))
    window = Body(1, 2, 1, (3, 3, 1))
    assert depthwise.registers(window, over_pixels=True) - 2 >= 9
    assert depthwise.registers(window) - 2 < 9


def test_a_step_of_a_long_window_keeps_what_the_next_one_needs() -> None:
    x, w, k = te.placeholder((95, 16), name="x"), te.placeholder((63,), name="w"), te.reduce_axis((0, 63), "k")
    rows = te.compute((9, 16), lambda t, c: te.sum(x[4 * t + k, c] * w[k], axis=k), "rows")
    filtered = reads(prim_func([x, w], rows))
    # Rows 0 to 2, 4 to 6, 8 to 10 and 12 to 14; then 3 to 5, 7 to 9, 11 to 13 and 15 to 17.
    assert filtered.carried(Body(1, 4, 1, (3,)), (63,)) == 6
    assert filtered.carried(Body(1, 4, 1, (1,)), (63,)) == 0
    assert filtered.carried(Body(1, 4, 1, (63,)), (63,)) == 0  # no next step


def test_an_epilogue_keeps_what_only_channels_move() -> None:
    for tail, kept in (("", 0), ("bias_relu", 1), ("residual", 1)):
        function = conv2d((8, 8, 16), 32, tail=tail)
        analysis, found = analyse_blocks(function), tile_of(function, board())
        assert analysis is not None
        assert found is not None
        assert epilogue_operands(analysis, found[1].after, found[1].channel) == kept


KERNELS = {
    "pointwise": lambda: conv2d((14, 14, 48), 48, kernel=(1, 1), pad=(0, 0, 0, 0)),
    "pointwise with residual": lambda: conv2d((7, 7, 24), 96, kernel=(1, 1), pad=(0, 0, 0, 0), tail="residual"),
    "window": lambda: conv2d((12, 12, 16), 48),
    "window 13 wide": lambda: conv2d((28, 13, 64), 64),
    "strided window": lambda: conv2d((56, 56, 128), 128, stride=2),
    "depthwise": lambda: conv2d((12, 12, 48), 48, groups=48),
    "strided depthwise": lambda: conv2d((24, 24, 48), 48, groups=48, stride=2),
    "first layer": lambda: conv2d((24, 24, 3), 24, stride=2),
    "dense": lambda: dense(1, 64, 12),
}


@pytest.mark.parametrize("name", ["generic-aarch64", "generic-armv7", "generic-x86_64"])
@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_fixed_tiles_stay_in_registers(kernel: str, name: str, tmp_path: Path) -> None:
    target = load_target(name)
    function = KERNELS[kernel]()
    trace, note = default_trace(function, target)
    module, _ = split_packing(replay(function, trace))
    unit, compiler = tmp_path / "kernel.c", target.compiler
    unit.write_text(kernel_unit(emit_kernel(module, target, "kernel"), target, "sample"), encoding="utf-8")
    flags = (*compiler.cflags, *compiler.kernel_cflags)
    subprocess.run([compiler.cc, "-std=gnu11", *flags, "-c", str(unit), "-o", str(unit.with_suffix(".o"))], check=True)
    objdump = [f"{compiler.cross_prefix}objdump", "--disassemble", "--no-show-raw-insn", str(unit.with_suffix(".o"))]
    listing = subprocess.run(objdump, check=True, capture_output=True, text=True).stdout
    tiles = [loop for loop in loops_of(listing, target.isa)["kernel"] if loop.multiply_adds]
    assert tiles, note
    assert [loop.stack for loop in tiles] == [()] * len(tiles), note


@pytest.mark.parametrize(
    ("bits", "channels", "asks"), [(128, 64, False), (256, 64, True), (512, 64, True), (512, 8, False)]
)
def test_wide_vectors_ask_for_weights_that_the_first_cache_does_not_hold(
    bits: int, channels: int, *, asks: bool
) -> None:
    trace, _ = default_trace(conv2d((8, 8, 4 * channels), 4 * channels), board(bits, 32))
    assert ("edgetune_near_lines" in trace) == asks


def test_the_predicted_share_is_high_for_whole_tiles_and_low_for_lanes_of_few() -> None:
    target = board(512, 32)
    whole = default_guess(dense(64, 512, 512), target).share
    narrow = default_guess(dense(512, 16, 6, constant=False), target).share
    assert whole is not None
    assert whole > 0.8
    assert narrow is not None
    assert narrow < 0.3
    assert default_guess(dense(1, 64, 10), target).share is None  # too short to matter


def _rank_update(rank: int, rows: int, columns: int) -> Any:
    """A matrix minus a product with `rank` terms."""
    c = te.placeholder((rows, columns), name="c")
    a, b = te.placeholder((rank, rows), name="a"), te.placeholder((rank, columns), name="b")
    k = te.reduce_axis((0, rank), "k")
    update = te.compute((rows, columns), lambda i, j: te.sum(a[k, i] * b[k, j], axis=k), "update")
    return prim_func([c, a, b], te.compute((rows, columns), lambda i, j: c[i, j] - update[i, j], "updated"))


@pytest.mark.parametrize(
    ("rank", "rows", "columns", "whole_rows"),
    [(4, 500, 100, True), (4, 500, 112, False), (64, 500, 100, False), (4, 25, 100, False)],
    ids=["few terms", "rows of whole lines", "many terms", "results in L1"],
)
def test_few_terms_run_along_the_rows_of_results(rank: int, rows: int, columns: int, *, whole_rows: bool) -> None:
    """Two tiles share a line where rows begin inside one: with other rows between the two it moves again."""
    target = board(512, 32)
    function = _rank_update(rank, rows, columns)
    function = next((one.function for one in algorithms_among(function, ["vectors_512"])), function)
    found = tile_of(function, target)
    assert found is not None
    analysis, tile = found
    sizes = tile_sizes(analysis, tile, ranked_variants(tile, target, streamed=False)[0], target)
    assert (sizes["vectors"] == tile.vectors) == whole_rows


def test_a_large_window_is_unrolled_along_the_pixels_that_share_its_rows() -> None:
    """Along the other axis, GCC carried the shared loads around the loop through the stack."""
    x, w = te.placeholder((128, 31, 38), name="x"), te.placeholder((128, 7, 7), name="w")
    i, j = te.reduce_axis((0, 7), "i"), te.reduce_axis((0, 7), "j")
    y = te.compute((128, 25, 32), lambda c, h, v: te.sum(x[c, h + i, v + j] * w[c, i, j], axis=[i, j]), "y")
    target = board(256, 16)
    function = te.create_prim_func([x, w, y])
    found = tile_of(function, target)
    assert found is not None
    analysis, tile = found
    sizes = tile_sizes(analysis, tile, ranked_variants(tile, target, streamed=False)[0], target)
    assert sizes["pixel"] > 1
    assert (sizes["reduction0"], sizes["reduction1"]) == (7, 1)


@pytest.mark.parametrize(
    ("kernel", "again"),
    [
        (conv2d((16, 16, 32), 32), True),
        (conv2d((16, 16, 32), 32, pad=(0, 0, 0, 0)), False),
        (conv2d((16, 16, 32), 32, groups=32), False),  # depthwise: all terms of a window decide
    ],
    ids=["channels in a window", "no padding", "a channel each"],
)
def test_padding_is_tested_again_for_terms_of_which_it_does_not_depend(kernel: PrimFunc, again: bool) -> None:
    found = tile_of(kernel, board(256, 16))
    assert found is not None
    assert found[1].tests_again == again


@pytest.mark.long
def test_padding_is_copied_where_its_tests_take_longer() -> None:
    """A third of the instructions of a 3x3 convolution of 32 channels on NEON were tests, and loads of their own."""
    target, kernel = target_of(128), conv2d((16, 16, 32), 32, tail="residual")
    guess = guessed_schedule(kernel, target, 1 << 20, FORMS)
    tested = formula_schedule(kernel, target, 1 << 20, FORMS)
    counts = [estimated_instructions(kernel, one.trace, target) for one in (guess, tested)]
    assert counts[0] < 0.8 * counts[1]


def test_plain_loops_leave_weights_alone_that_cannot_be_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dilated window reads each weight at several places of its layout: no package could be built."""
    x, w = te.placeholder((4, 7, 11), name="x"), te.placeholder((4, 1, 2, 2), name="w")
    zero = tirx.const(0.0, "float32")

    def dilated(c: Any, o: Any, i: Any, j: Any) -> Any:
        return tirx.if_then_else((j % 5).equal(0), w[c, o, i, j // 5], zero)

    wide = te.compute((4, 1, 2, 6), dilated, "wide")
    turned = te.compute((1, 4, 2, 6), lambda o, c, i, j: wide[c, o, 1 - i, 5 - j], "turned")
    c, i, j = (te.reduce_axis((0, extent), name) for extent, name in ((4, "c"), (2, "i"), (6, "j")))
    total = te.compute((1, 6, 6), lambda o, r, s: te.sum(x[c, r + i, s + j] * turned[o, c, i, j], [c, i, j]), "total")
    function = prim_func([x, w], total, [1])
    monkeypatch.setattr("edgetune.schedule.default_schedule.guess", lambda *_, **__: None)
    monkeypatch.setattr("edgetune.schedule.default_schedule._least_scratch", lambda *_: None)
    guess = default_guess(function, board(256, 16), 0)
    split_packing(replay(function, guess.trace))
