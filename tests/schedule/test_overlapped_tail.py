"""Whole vectors and whole tiles, the last of which overlaps: what has these forms, and that they compute the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx, topi

from edgetune.codegen import emit_kernel
from edgetune.codegen.lower import flat
from edgetune.codegen.parallel_regions import cut
from edgetune.errors import KernelFailed
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.catalogue import algorithm_named
from edgetune.schedule.algorithms.overlapped_tail.overlap import Overlap
from edgetune.schedule.algorithms.schedule_text import DIRECT, FORMS, VECTORS, algorithm_of, schedule_text, trace_text
from edgetune.schedule.default_algorithms import overlapped_tail_algorithm, times_faster
from edgetune.schedule.default_schedule import best_guess
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.schedule.sketches import design_spaces, postprocs
from edgetune.schedule.sketches.spaces import tile_of
from edgetune.schedule.sketches.variants import parts_for
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.schedule.test_sketches import check as check_samples
from tests.sketch_samples import conv2d, dense, prim_func, random_arguments, run_plain

ROOM = 1 << 20


def pooled(kind: str) -> Any:
    x = te.placeholder((1, 9, 8, 22), name="x")
    return prim_func([x], topi.nn.pool2d(x, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), kind, layout="NHWC"))


def product_of_two() -> Any:
    a, b = te.placeholder((3, 6, 10), name="a"), te.placeholder((3, 10, 22), name="b")
    return prim_func([a, b], topi.nn.batch_matmul(a, b, transpose_b=False))


def last_write() -> Any:
    """Where an element is read depends on what the reduction found, as in ONNX's ScatterElements."""
    data, updates = te.placeholder((21,), name="data"), te.placeholder((6,), name="updates")
    positions = te.placeholder((6,), "int32", name="positions")
    number = te.reduce_axis((0, 6), name="number")
    never = tirx.IntImm("int32", -1)
    last = te.compute(
        (21,), lambda i: te.max(tirx.Select(positions[number] == i, number, never), axis=number), name="last"
    )
    written = te.compute((21,), lambda i: tirx.if_then_else(last[i] >= 0, updates[last[i]], data[i]), name="written")
    return prim_func([data, updates, positions], written)


KERNELS: dict[str, Callable[[], Any]] = {
    "plain": lambda: conv2d((7, 6, 8), 21),
    "grouped": lambda: conv2d((6, 7, 20), 68, groups=2),
    "depthwise": lambda: conv2d((8, 7, 38), 38, groups=38),
    "residual": lambda: conv2d((5, 6, 8), 42, kernel=(1, 1), pad=(0, 0, 0, 0), tail="residual"),
    "sums alone": lambda: conv2d((5, 6, 8), 42, tail=""),
    "largest": lambda: pooled("max"),
    "mean": lambda: pooled("avg"),
    "row": lambda: dense(1, 24, 43),
    "rows": lambda: dense(5, 24, 43),
    "two inputs": product_of_two,
    "last write": last_write,
}


def apart(rows: int, columns: int, depth: int) -> Any:
    """Distances of all rows of two matrices: the second lies across the vectors of the result."""
    a, b = te.placeholder((rows, depth), name="a"), te.placeholder((columns, depth), name="b")
    k = te.reduce_axis((0, depth), "k")
    far = te.compute((rows, columns), lambda i, j: te.sum(te.abs(a[i, k] - b[j, k]), axis=k), "far")
    return prim_func([a, b], far)


def spread(rows: int, columns: int) -> Any:
    """Two sums over the rows of a matrix, the second of which reads the first."""
    x = te.placeholder((rows, columns), name="x")
    i, k = te.reduce_axis((0, rows), "i"), te.reduce_axis((0, rows), "k")
    total = te.compute((columns,), lambda c: te.sum(x[i, c], axis=i), "total")
    return prim_func([x], te.compute((columns,), lambda c: te.sum(te.abs(x[k, c] - total[c]), axis=k), "spread"))


WITHOUT_TILE: dict[str, Callable[[], Any]] = {
    "across": lambda: apart(9, 21, 7),
    "across and after": lambda: rooted(apart(9, 21, 7)),
    "two sums": lambda: spread(11, 37),
}


def rooted(function: Any) -> Any:
    """The square roots of what `function` computes."""
    a, b = (te.placeholder(tuple(p.shape), name=p.name) for p in function.params[:2])
    k = te.reduce_axis((0, int(a.shape[1])), "k")
    shape = (a.shape[0], b.shape[0])
    far = te.compute(shape, lambda i, j: te.sum(te.abs(a[i, k] - b[j, k]), axis=k), "far")
    return prim_func([a, b], te.compute(shape, lambda i, j: te.sqrt(far[i, j]), "near"))


NARROW: dict[str, Callable[[], Any]] = {
    "depthwise": lambda: conv2d((8, 7, 7), 7, groups=7),
    "plain": lambda: conv2d((7, 6, 3), 6),
    "row": lambda: dense(1, 5, 10),  # too few terms for lanes along them
}


@given(groups=st.integers(1, 4), lanes=st.sampled_from([2, 4, 8, 16]), width=st.integers(1, 90))
def test_each_channel_has_a_place_and_each_vector_neighbours(groups: int, lanes: int, width: int) -> None:
    width = max(width, lanes)
    overlap = Overlap(groups, width, lanes)
    channels = overlap.elements()
    assert set(channels.tolist()) == set(range(groups * width))
    vectors = channels.reshape(-1, lanes)
    assert (np.diff(vectors, axis=1) == 1).all()
    assert (vectors[:, 0] // width == vectors[:, -1] // width).all(), "no vector straddles two groups"
    assert len(vectors) == groups * -(-width // lanes), "as few vectors as there can be"
    place = tirx.Var("place", "int64")
    at = overlap.element_of(place)
    analyzer = tvm.sym.Analyzer()
    for number in {0, width - 1, len(channels) // 2, len(channels) - 1} & set(range(len(channels))):
        analyzer.bind(place, tirx.IntImm("int64", number), True)
        assert int(analyzer.simplify(at)) == channels[number]


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("name", KERNELS)
def test_the_same_is_computed_in_whole_vectors(name: str, bits: int, tmp_path: Path) -> None:
    function, target = KERNELS[name](), wide_target(bits)
    arrays = random_arguments(function)
    expected = run_plain(function, arrays)
    text, note = default_schedule(function, target, ROOM, FORMS)
    assert algorithm_of(text).partition("+")[0] in VECTORS
    assert f"vectors of {bits // 32}" in note
    check(function, text, target, arrays, expected, tmp_path)


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("name", WITHOUT_TILE)
def test_kernels_without_a_register_tile_are_computed_in_whole_vectors(name: str, bits: int, tmp_path: Path) -> None:
    function, target = WITHOUT_TILE[name](), wide_target(bits)
    arrays = random_arguments(function)
    expected = run_plain(function, arrays)
    text, note = default_schedule(function, target, ROOM, FORMS)
    assert algorithm_of(text) == f"vectors_{bits}", note
    assert "spatial tile" in note
    source = emit_kernel(apply_schedule(function, text).module, target, "k").definition
    assert f"f32x{bits // 32}" in source
    check(function, text, target, arrays, expected, tmp_path)
    if bits == 256:
        assert check_samples(algorithm_named(function, algorithm_of(text)).function, target, 3) > 0


def test_lanes_run_along_a_reduction_where_that_is_cheaper() -> None:
    """Nine columns would be vectors of two that overlap; a sum of 64 terms has wider ones."""
    function = apart(32, 9, 64)
    text, note = default_schedule(function, wide_target(512), ROOM, FORMS)
    assert algorithm_of(text) == DIRECT
    assert "factored" in note


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(("rows", "depth", "columns"), [(127, 40, 127), (29, 7, 33), (17, 16, 21)])
def test_rows_and_columns_that_nothing_divides_overlap_at_once(
    rows: int, depth: int, columns: int, constant: bool, tmp_path: Path
) -> None:
    function, target = dense(rows, depth, columns, constant=constant), wide_target(256)
    arrays = random_arguments(function)
    text, note = default_schedule(function, target, ROOM, FORMS)
    assert re.fullmatch(r"vectors_256\+tiles_\d+", algorithm_of(text)), note
    assert times_faster(function, algorithm_of(text), target) > 5
    check(function, text, target, arrays, run_plain(function, arrays), tmp_path)


@pytest.mark.parametrize("name", NARROW)
def test_fewer_channels_than_a_register_holds_are_narrower_vectors(name: str, tmp_path: Path) -> None:
    function, target = NARROW[name](), wide_target(512)
    arrays = random_arguments(function)
    expected = run_plain(function, arrays)
    text, _ = default_schedule(function, target, ROOM, FORMS)
    assert algorithm_of(text) in {"vectors_128", "vectors_256"}
    lanes = 4 if algorithm_of(text) == "vectors_128" else 8
    found = tile_of(algorithm_named(function, algorithm_of(text)).function, target)
    assert found is not None
    assert found[1].lanes == lanes, "in wider ones neighbours would not lie side by side"
    check(function, text, target, arrays, expected, tmp_path)


@pytest.mark.parametrize("columns", [83, 99, 43])
def test_products_of_long_rows_are_right(columns: int, tmp_path: Path) -> None:
    """Where the last vector is in another tile than the one that it overlaps, parts of sums would count twice."""
    function = dense(16, 3072, columns)
    target = wide_target(256).model_copy(update={"l2_bytes": 1 << 16})
    arrays = random_arguments(function)
    expected = run_plain(function, arrays)
    text, _ = default_schedule(function, target, ROOM, FORMS)
    assert algorithm_of(text) == "vectors_256"
    scheduled = apply_schedule(function, text)
    source = emit_kernel(scheduled.module, target, "whole")
    given = [scheduled.constants[n].apply(a) if n in scheduled.constants else a for n, a in enumerate(arrays)]
    results = run_kernel(source, target, given, tmp_path)
    np.testing.assert_allclose(results[-1].reshape(expected.shape), expected, rtol=1e-3, atol=1e-3)


def test_empty_tensors_keep_plain_loops() -> None:
    for function in (dense(4, 0, 21), dense(0, 8, 21)):
        assert algorithm_of(default_schedule(function, wide_target(256), ROOM, FORMS)[0]) == DIRECT


def test_weights_that_something_else_reads_too_are_not_laid_out_anew() -> None:
    x, w = te.placeholder((24, 24), name="x"), te.placeholder((24, 21), name="w")
    product = topi.nn.matmul(x, w)
    function = prim_func([x, w], te.compute((24, 21), lambda i, j: product[i, j] + w[j, i % 21], name="both"), [1])
    with pytest.raises(KernelFailed, match="which this kernel does not have"):
        algorithm_named(function, "vectors_256")


def strided() -> Any:
    return conv2d((13, 11, 8), 16, stride=2)


TILED: dict[str, tuple[Callable[[], Any], int]] = {
    "matrix": (lambda: dense(13, 24, 32), 6),
    "matrices": (lambda: batches(3, 11), 4),
    "fused rows": (lambda: conv2d((5, 7, 8), 32, kernel=(1, 1), pad=(0, 0, 0, 0), tail="residual"), 6),
    "fused rows, sums alone": (lambda: conv2d((5, 7, 8), 32, kernel=(1, 1), pad=(0, 0, 0, 0), tail=""), 9),
    "padded": (lambda: conv2d((6, 11, 8), 16, tail="residual"), 4),
    "strided": (strided, 4),
    "depthwise": (lambda: conv2d((6, 11, 16), 16, groups=16), 3),
    "grouped": (lambda: conv2d((6, 11, 16), 32, groups=2, tail=""), 8),
}


def batches(count: int, rows: int) -> Any:
    a, b = te.placeholder((count, rows, 10), name="a"), te.placeholder((count, 10, 16), name="b")
    return prim_func([a, b], topi.nn.batch_matmul(a, b, transpose_b=False))


@pytest.mark.parametrize("bits", [128, 512])
@pytest.mark.parametrize("name", TILED)
def test_the_same_is_computed_in_whole_tiles(name: str, bits: int, tmp_path: Path) -> None:
    make, pixels = TILED[name]
    function, target = make(), wide_target(bits)
    arrays = random_arguments(function)
    expected = run_plain(function, arrays)
    form = f"tiles_{pixels}"
    found = best_guess(algorithm_named(function, form).function, target, ROOM)
    assert found is not None
    check(function, schedule_text(form, found[0]), target, arrays, expected, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kernel", "name"), [("grouped", "vectors_256"), ("fused rows", "tiles_6"), ("padded", "tiles_4")]
)
def test_sampled_schedules_compute_the_same(kernel: str, name: str, tmp_path: Path) -> None:
    function = KERNELS[kernel]() if name.startswith("vectors") else TILED[kernel][0]()
    target = wide_target(256)
    arrays = random_arguments(function)
    expected = run_plain(function, arrays)
    texts = set()
    for seed in (1, 2):
        for design in design_spaces(algorithm_named(function, name).function, target, seed=seed):
            design.enter_postproc()
            if all(post.apply(design) for post in postprocs(target, ROOM)):
                texts.add(schedule_text(name, trace_text(design.trace)))
    assert len(texts) > 2
    for number, text in enumerate(sorted(texts)[:3]):
        (tmp_path / str(number)).mkdir()
        check(function, text, target, arrays, expected, tmp_path / str(number))


def check(function: Any, text: str, target: Any, arrays: list[Any], expected: Any, folder: Path) -> None:
    """Run the C of a schedule under the sanitizers, where vectors allow that, and compare."""
    scheduled = apply_schedule(function, text)
    source = emit_kernel(scheduled.module, target, "whole")
    given = [scheduled.constants[n].apply(a) if n in scheduled.constants else a for n, a in enumerate(arrays)]
    results = run_kernel(source, target, given, folder, extra=SANITIZERS if target.vector_bits == 128 else ())
    np.testing.assert_allclose(results[-1].reshape(expected.shape), expected, rtol=2e-5, atol=2e-5)


def test_long_reductions_are_not_summed_in_parts_where_tiles_overlap() -> None:
    """A part adds to what the one before it left in the output, which an overlapping tile would do twice."""
    function, target = dense(13, 4096, 256), wide_target(256)
    whole = tile_of(function, target)
    assert whole is not None
    assert parts_for(whole[1], 1 << 16) > 1
    for form in ("tiles_6", "tiles_4"):
        found = tile_of(algorithm_named(function, form).function, target)
        assert found is not None
        assert found[1].overlaps
        assert parts_for(found[1], 1 << 16) == 1


def test_the_formula_takes_tiles_where_rows_have_no_good_divisor() -> None:
    target = wide_target(512)
    assert overlapped_tail_algorithm(dense(197, 256, 256), FORMS, target) is not None  # a prime number of rows
    assert overlapped_tail_algorithm(dense(196, 256, 256), FORMS, target) is None
    assert overlapped_tail_algorithm(dense(1, 256, 256), FORMS, target) is None
    assert overlapped_tail_algorithm(dense(197, 256, 256), [DIRECT, *VECTORS], target) is None


def test_the_guess_has_the_pixels_of_the_form_or_a_divisor() -> None:
    """In any other tile some of its pixels would lie in the block before, each with an address of its own."""
    target = wide_target(256)
    for rows in (17, 23, 37, 39, 41):
        for name in ("tiles_6", "tiles_8"):
            found = best_guess(algorithm_named(dense(rows, 64, 32), name).function, target, ROOM)
            assert found is not None
            pixels = int(found[1].split("x")[1].split()[0])
            assert int(name.removeprefix("tiles_")) % pixels == 0, (rows, name, found[1])


def test_threads_weigh_how_much_faster_a_form_is() -> None:
    target = wide_target(256)
    assert times_faster(dense(197, 256, 256), "tiles_5", target) > 1.5
    assert times_faster(dense(1, 256, 1001), "vectors_256", target) == 1001 / 126
    assert times_faster(dense(1, 256, 12), "vectors_256", target) == 1.5


def test_a_stage_that_reads_its_neighbours_has_no_such_form() -> None:
    x, w = te.placeholder((12, 8), name="x"), te.placeholder((8, 21), name="w")
    product = topi.nn.matmul(x, w)
    other = te.compute((12, 21), lambda i, j: product[i, (j + 1) % 21] + product[i, j], name="other")
    function = prim_func([x, w], other, [1])
    with pytest.raises(KernelFailed, match="'vectors_256', which this kernel does not have"):
        algorithm_named(function, "vectors_256")
    assert algorithm_named(function, "tiles_5").name == "tiles_5"  # rows are read in step


@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
def test_compilers_have_nothing_to_say(cc: str, tmp_path: Path) -> None:
    function, target = KERNELS["grouped"](), wide_target(256)
    text, _ = default_schedule(function, target, ROOM, FORMS)
    source, again = (emit_kernel(apply_schedule(function, text).module, target, "whole") for _ in range(2))
    assert source == again
    assert "ymm" in compile_strictly(source, target, tmp_path, cc)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (conv2d((6, 6, 8), 32), DIRECT),  # whole vectors as they are
        (conv2d((6, 6, 8), 7), "vectors_128"),  # fewer than a vector of 256 bits
        (conv2d((6, 6, 8), 3), "vectors_64"),
        (conv2d((6, 6, 8), 1), DIRECT),
        (conv2d((6, 6, 12), 36, groups=6), "vectors_128"),  # six channels a group
        (dense(4, 8, 12, constant=False), "vectors_256"),
    ],
)
def test_the_widest_vectors_that_fit_are_taken(function: Any, name: str) -> None:
    form = overlapped_tail_algorithm(function, VECTORS, wide_target(256))
    assert (DIRECT if form is None else form.name) == name
    assert overlapped_tail_algorithm(function, [DIRECT], wide_target(256)) is None
    assert overlapped_tail_algorithm(function, VECTORS, wide_target(256).model_copy(update={"vector_bits": 0})) is None


def test_threads_share_pixels_where_the_channels_overlap() -> None:
    """Two places of a channel belong to one thread, or two threads would write one element."""
    target = wide_target(256)
    shared = []
    for name in ("grouped", "row"):
        scheduled = apply_schedule(KERNELS[name](), default_schedule(KERNELS[name](), target, ROOM, FORMS)[0])
        found = cut(flat(scheduled.module), 2, 1)
        shared.append([region.iterations for region in found.regions] if found else [])
    assert shared[0]
    assert shared[0][0] > 1
    assert not shared[1]
