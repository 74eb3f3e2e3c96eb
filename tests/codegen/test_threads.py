"""Kernels that threads share: which loops are shared, and that sharing changes no bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from edgetune.codegen import emit_kernel, split_packing
from edgetune.codegen.collapse_loops import Across, shared_loops
from edgetune.codegen.emit import print_function
from edgetune.codegen.lower import flat, lower_flat
from edgetune.codegen.package_names import with_prefix
from edgetune.codegen.parallel_kernel import Sharing, emit_shared_kernel
from edgetune.codegen.parallel_regions import cut, idle
from edgetune.codegen.parallel_time import expected_share, least_steps
from edgetune.errors import KernelFailed
from edgetune.events import Event
from edgetune.graph.program import Buffer, Call, Kernel, Param, Program
from edgetune.package.provenance import KernelProvenance
from edgetune.pipeline.link import Choice, print_kernels
from edgetune.schedule.algorithms.apply import apply_schedule, replay
from edgetune.schedule.algorithms.catalogue import algorithm_named
from edgetune.schedule.algorithms.schedule_text import schedule_text
from edgetune.schedule.default_schedule import best_guess, default_trace
from tests import codegen_samples as samples
from tests.attention_sample import Attention
from tests.codegen.test_prefetch_weights_l2 import CASES, asked_for, by_tiles
from tests.codegen.test_transposition import transposed as of_order
from tests.codegen_run import compile_strictly, run_kernel, wide_target
from tests.schedule.test_remainders import rows
from tests.sketch_samples import conv2d
from tests.threads_sample import WORKERS, backwards, one_range

ALL = Sharing("test", WORKERS, 1)


def tile() -> Any:
    return split_packing(samples.register_tile(samples.convolution(rows=5, columns=8, filters=64)))[0]


def softmax() -> Any:
    return samples.module(samples.softmax(40, 24))


def tiles_that_end_outside() -> Any:
    """A convolution by blocks of tiles, of which the last row and column are cut off where the output ends."""
    function = conv2d((10, 10, 16), 32)
    found = best_guess(algorithm_named(function, "winograd_f4").function, wide_target(256), 1 << 20)
    assert found is not None
    return apply_schedule(function, schedule_text("winograd_f4", found[0])).module


def overlapping() -> Any:
    """A grouped convolution in whole vectors: channels overlap, so that threads share the pixels."""
    function = conv2d((6, 7, 20), 68, groups=2)
    found = best_guess(algorithm_named(function, "vectors_256").function, wide_target(256))
    assert found is not None
    return apply_schedule(function, schedule_text("vectors_256", found[0])).module


def attention() -> Any:
    """Heads and blocks of queries are shared; each thread has the scores of its own block."""
    function = Attention(heads=3, queries=32, mask="scores").function()
    found = best_guess(function, wide_target(256), 1 << 20)
    assert found is not None
    return apply_schedule(function, found[0]).module


def with_remainder(*, own: bool) -> Any:
    """Rows of 100 elements, each with vectors and a rest, or all elements of 5 rows as one such row."""
    function = rows(5 if own else 40, 101 if own else 100, own=own)
    found = best_guess(function, wide_target(512))
    assert found is not None
    return apply_schedule(function, found[0]).module


def transposed(rows: int, columns: int, bits: int = 256) -> Any:
    """A copy in another order, of which a thread may get less than a square of vectors."""
    function, board = of_order((rows, columns), (1, 0)), wide_target(bits)
    return replay(function, default_trace(function, board)[0])


def with_an_unread_input() -> Any:
    """A sum of two of three inputs."""
    a, b, c = (te.placeholder((40, 96), "float32", name=name) for name in "abc")
    total = te.compute((40, 96), lambda i, j: a[i, j] + c[i, j], name="total")
    return tvm.IRModule({"main": te.create_prim_func([a, b, c, total])})


KERNELS: dict[str, Callable[[], Any]] = {
    "attention": attention,
    "overlapping": overlapping,
    "register_tile": tile,
    "softmax": softmax,
    "padded_copy": samples.padded_copy,
    "requantised": samples.requantised,
    "gather": samples.gather,
    "tiles": tiles_that_end_outside,
    "prefetched": lambda: by_tiles(*CASES["windows"][1]).module,
    "odd_rows": lambda: by_tiles(*CASES["odd_rows"][1]).module,
    "remainder_of_each_row": lambda: with_remainder(own=False),
    "remainder_of_all": lambda: with_remainder(own=True),
    "transposed": lambda: transposed(90, 70),
    "unread": with_an_unread_input,
    "short_rows": lambda: transposed(900, 3),
    "long_rows": lambda: transposed(5, 900),
    "squares_of_16": lambda: transposed(400, 21, 512),
}
BITS = {"squares_of_16": 512}
"""Widest vectors of kernels that need others than 256 bits."""


@pytest.mark.parametrize("workers", [2, 4, 5, 16])
def test_any_number_of_threads_shares_a_transposition(workers: int, tmp_path: Path) -> None:
    """Where a thread gets a part of each of some blocks, the loop over blocks stays around the others."""
    for number, (high, wide, bits) in enumerate(((400, 21, 256), (400, 21, 512), (20, 400, 256))):
        board = wide_target(bits)
        source = emit_shared_kernel(transposed(high, wide, bits), board, "s", replace(ALL, workers=workers))
        (tmp_path / str(number)).mkdir()
        compile_strictly(backwards(source), board, tmp_path / str(number), "gcc")


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_iterations_in_another_order_and_with_other_scratch_give_the_same_bits(kernel: str, tmp_path: Path) -> None:
    board = wide_target(BITS.get(kernel, 256))
    one = emit_kernel(KERNELS[kernel](), board, "sample")
    several = emit_shared_kernel(KERNELS[kernel](), board, "sample", ALL)
    assert several.workers == WORKERS
    random = np.random.default_rng(3)
    arrays = []
    for param in one.params:
        whole = param.dtype.startswith("int")
        values = random.integers(0, 5, param.shape) if whole else random.standard_normal(param.shape)
        arrays.append(np.asarray(values).astype(param.dtype))
    (tmp_path / "one").mkdir()
    (tmp_path / "several").mkdir()
    # Of two products in a sum, a compiler contracts the one or the other, as it likes, in either text.
    exact = ["-ffp-contract=off"]
    wanted = run_kernel(one, board, arrays, tmp_path / "one", extra=exact)
    got = run_kernel(backwards(several), board, arrays, tmp_path / "several", extra=exact)
    for a, b in zip(wanted, got, strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", ["pointwise", "parts", "odd_rows"])
def test_each_thread_asks_for_all_of_the_next_block(name: str, tmp_path: Path) -> None:
    """Another core's cache is of no use to it."""
    function, how, block = CASES[name]
    made = by_tiles(*how)
    (region,) = cut(flat(made.module), 2, 1).regions  # type: ignore[union-attr]
    assert region.inner
    source = emit_shared_kernel(made.module, wide_target(256), "sample", Sharing("test", 2, 1))
    for which, workers in (("first", 2), ("last", 2), ("first", 1)):  # where none is started, one does it all
        asked, wanted = asked_for(one_range(source, which, workers), function, made, block, tmp_path)
        assert asked <= wanted
        assert len(asked) >= 0.8 * len(wanted)


@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
@pytest.mark.parametrize("kernel", ["attention", "odd_rows", "register_tile", "softmax", "unread"])
def test_compilers_have_nothing_to_say(kernel: str, compiler: str, tmp_path: Path) -> None:
    source = backwards(emit_shared_kernel(KERNELS[kernel](), wide_target(), "sample", ALL))
    compile_strictly(source, wide_target(), tmp_path, compiler)


def test_the_text_is_as_the_golden_file_says(golden: Callable[[str, str], None]) -> None:
    source = emit_shared_kernel(tile(), wide_target(), "sample_register_tile", Sharing("sample", 2, 1))
    golden("codegen/register_tile_threads.c", with_prefix(source.definition, "sample"))


@pytest.mark.parametrize("sharing", [Sharing("test", 1, 1), Sharing("test", 2, 1 << 40)])
def test_one_thread_or_too_little_work_is_the_text_of_one_thread(sharing: Sharing) -> None:
    for kernel in ("register_tile", "softmax"):
        shared = emit_shared_kernel(KERNELS[kernel](), wide_target(), "sample", sharing)
        assert shared == emit_kernel(KERNELS[kernel](), wide_target(), "sample")


def total() -> Any:
    x = te.placeholder((64, 32), name="x")
    i, j = te.reduce_axis((0, 64), "i"), te.reduce_axis((0, 32), "j")
    return te.create_prim_func([x, te.compute((1,), lambda _: te.sum(x[i, j], axis=[i, j]), name="total")])


def column_sums() -> Any:
    x = te.placeholder((64, 32), name="x")
    i = te.reduce_axis((0, 64), "i")
    return te.create_prim_func([x, te.compute((32,), lambda j: te.sum(x[i, j], axis=i), name="sums")])


_SCRIPT = """# from tvm.script import tirx as T
@T.prim_func(private=True, s_tir=True)
def main(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
    for {loops}:
        {store}
"""


def written(loops: str, store: str) -> Any:
    """A function of one nest of loops that writes `y`, 64 elements."""
    return tvm.script.from_source(_SCRIPT.format(loops=loops, store=store))


def guarded(loops: str, condition: str) -> Any:
    """A function of one nest of loops that writes rows of ten elements where `condition` holds."""
    return written(loops, f"if {condition}:\n            y[i * 10 + j * 4 + b] = x[i]")


@pytest.mark.parametrize(
    ("function", "loops"),
    [
        (total, []),
        (column_sums, [32]),
        (lambda: written("i in range(63)", "y[i + 1] = y[i] + x[i]"), []),
        (lambda: written("i, j in T.grid(31, 4)", "y[i * 2 + j] = x[i * 2 + j]"), []),
        (lambda: written("i in range(64)", "y[i % 8] = x[i]"), []),
        (lambda: written("i, j in T.grid(32, 2)", "y[i * 2 + j] = x[i * 2 + j]"), [32]),
        (lambda: written("i, j in T.grid(8, 4)", "y[i + j * 16] = x[i]"), [4]),
        (lambda: written("i, j, b in T.grid(4, 4, 4)", "y[i * 16 + T.min(j * 4, 9) + b] = x[i]"), [4]),
        (lambda: written("j, i, b in T.grid(4, 4, 4)", "y[i * 16 + T.min(j * 4, 9) + b] = x[i]"), [4]),
        (lambda: written("i, j, b in T.grid(4, 4, 4)", "y[i * 12 + T.min(j * 4, 9) + b] = x[i]"), []),
        (lambda: written("j, i, b in T.grid(4, 4, 4)", "y[i * 16 + T.min(i * 4, 9) + b] = x[j]"), []),
        (lambda: guarded("i, a, j, b in T.grid(6, 1, 3, 4)", "j * 4 + b < 10"), [6]),
        (lambda: guarded("j, i, b in T.grid(3, 3, 4)", "10 > j * 4 + b"), [9]),
        (lambda: guarded("i, j, b in T.grid(6, 3, 4)", "j * 4 + b <= 10"), []),
        (lambda: guarded("i, j, b in T.grid(6, 3, 4)", "j * 8 + b < 10"), []),
    ],
)
def test_only_loops_that_write_apart_are_shared(function: Callable[[], Any], loops: list[int]) -> None:
    found = cut(flat(samples.module(function())), 2, 1)
    assert [region.iterations for region in found.regions] == loops if found else not loops


def test_loops_are_fused_until_the_threads_are_busy() -> None:
    x = te.placeholder((3, 5, 7, 16), name="x")
    function = te.create_prim_func([x, te.compute(x.shape, lambda *i: x[i] + tirx.const(1, "float32"), name="y")])
    for workers, iterations in ((2, 15), (3, 3), (6, 105)):
        found = cut(flat(tvm.IRModule({"main": function})), workers, 1)
        assert found is not None
        assert [region.iterations for region in found.regions] == [iterations]
    assert idle(7, 2) == pytest.approx(1 / 8)


@pytest.mark.parametrize(
    ("rows", "workers", "across", "iterations"),
    [(7, 2, 10, 70), (8, 2, None, 8), (7, 7, None, 7), (7, 5, 10, 70), (2, 3, None, 20)],
)
def test_blocks_are_counted_with_rows_that_do_not_keep_the_threads_busy(
    rows: int, workers: int, across: int | None, iterations: int
) -> None:
    """Rows lie together in memory, so they are what threads share, and blocks are the loop around them."""
    found = cut(flat(samples.module(products(rows, 10))), workers, 1)
    assert found is not None
    (region,) = found.regions
    assert region.inner == (rows >= workers)  # fewer rows than threads: both loops are shared as one
    assert (region.across.blocks if region.across else None) == across
    assert region.iterations == iterations


def products(rows: int, blocks: int) -> Any:
    """Every row of what is written is another one of what is read; blocks of it read all rows."""
    script = f"""# from tvm.script import tirx as T
@T.prim_func(private=True, s_tir=True)
def main(x: T.Buffer(({rows},), "float32"), w: T.Buffer(({blocks},), "float32"),
         y: T.Buffer(({rows * blocks},), "float32")):
    for b, r in T.grid({blocks}, {rows}):
        y[r * {blocks} + b] = x[r] * w[b]
"""
    return tvm.script.from_source(script)


def test_a_block_that_lowering_lost_is_no_loop_to_count_with() -> None:
    (region,) = cut(flat(KERNELS["odd_rows"]()), 2, 1).regions  # type: ignore[union-attr]
    elsewhere = Across(tirx.Var("elsewhere", "int32"), 4)
    shared = shared_loops(region.loops, region.iterations, 2, elsewhere)
    board = wide_target(256)
    lowered = lower_flat(region.function, board.register_bytes, shared)
    with pytest.raises(KernelFailed, match="elsewhere is used, but no loop or let defines it"):
        print_function(lowered, board, (), shared)


def test_the_least_work_worth_sharing_grows_with_the_hand_over() -> None:
    board = wide_target().model_copy(update={"handover_cycles": 1000})
    slow = board.model_copy(update={"handover_cycles": 4000})
    assert least_steps(board, 2) == 2 * 1000 * 16 * 2
    assert least_steps(slow, 2) == 4 * least_steps(board, 2)
    assert least_steps(board, 4) < least_steps(board, 2)


def test_what_is_left_of_the_time_counts_idle_threads_and_what_stays_on_one() -> None:
    board = wide_target().model_copy(update={"handover_cycles": 0})
    x = te.placeholder((3, 5), name="x")
    squares = te.create_prim_func([x, te.compute(x.shape, lambda *i: x[i] * x[i], name="y")])
    assert expected_share(samples.module(squares), board, 2) == pytest.approx(8 / 15)
    assert expected_share(samples.module(total()), board, 2) == 1.0
    assert expected_share(tile(), board, 1) == 1.0
    slow = board.model_copy(update={"handover_cycles": 10})
    assert expected_share(tile(), slow, 2) > expected_share(tile(), board, 2)


@pytest.mark.long
def test_a_kernel_whose_threads_need_more_scratch_than_there_is_stays_on_one() -> None:
    function, board = conv2d((10, 10, 16), 32), wide_target(256).model_copy(update={"handover_cycles": 0})
    found = best_guess(algorithm_named(function, "winograd_f4").function, board, 1 << 20)
    assert found is not None
    choice = Choice(schedule_text("winograd_f4", found[0]), KernelProvenance("0" * 64, "fixed"))
    params = tuple(Param("p", tuple(int(n) for n in p.shape), "float32", "input") for p in function.params)
    kernel = Kernel("conv", "0" * 64, function, params, (), 1, 1)
    shape = params[-1].shape
    room = (Buffer(0, "y", shape, "float32", "output"), Buffer(1, "big", (1 << 20,), "float32", "intermediate"))
    events: list[Event] = []
    for buffers, workers in ((room[:1], 1), (room, 2)):
        call = (Call(0, (0,), "conv"), *(Call(0, (b.id,), "big") for b in buffers[1:] for _ in range(2)))
        program = Program("p", (), (), buffers, (kernel,), call, {}, "")
        (printed,) = print_kernels(program, [choice], board, "p", events.append, 2).kernels
        assert printed.source.workers == workers
    assert [str(event.data["message"]).partition(":")[0] for event in events] == ["conv stays on one thread"]
