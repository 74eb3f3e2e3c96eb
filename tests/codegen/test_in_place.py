"""Outputs that take the memory of an operand: which may, and that the results are as they were."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te, topi

from edgetune.codegen import emit_kernel
from edgetune.codegen.in_place import replaceable
from edgetune.codegen.kernel_source import KernelSource
from edgetune.codegen.lower import flat, sole_function
from edgetune.codegen.parallel_kernel import Sharing, emit_shared_kernel
from edgetune.schedule.algorithms.apply import Scheduled, apply_schedule
from edgetune.schedule.algorithms.catalogue import algorithm_named
from edgetune.schedule.algorithms.schedule_text import schedule_text, trace_text
from edgetune.schedule.default_schedule import best_guess, default_trace
from edgetune.schedule.sketches import design_spaces, postprocs
from edgetune.schedule.sketches.decisions import Chosen
from edgetune.schedule.sketches.spaces import tile_of, tiled
from edgetune.schedule.sketches.variants import Variant
from tests.codegen_run import compile_strictly, run_kernel, wide_target
from tests.sketch_samples import conv2d, prim_func, random_arguments, run_plain
from tests.threads_sample import backwards

TARGET = wide_target(256)
ROOM = 1 << 20


def residual() -> Any:
    return conv2d((6, 8, 16), 32, tail="residual")


def pointwise() -> Any:
    return conv2d((6, 8, 16), 32, kernel=(1, 1), pad=(0, 0, 0, 0), tail="residual")


def sum_of_two() -> Any:
    a, b = te.placeholder((6, 50), name="a"), te.placeholder((6, 50), name="b")
    return prim_func([a, b], topi.nn.relu(topi.add(a, b)))


def turned() -> Any:
    a, b = te.placeholder((6, 50), name="a"), te.placeholder((6, 50), name="b")
    return prim_func([a, b], te.compute((6, 50), lambda i, j: a[i, j] + b[5 - i, j], name="sum"))


def centred() -> Any:
    a = te.placeholder((6, 50), name="a")
    return prim_func([a], topi.subtract(a, topi.sum(a, axis=1, keepdims=True)))


def softmax(shape: Sequence[int] = (6, 50)) -> Any:
    return prim_func([a := te.placeholder(shape, name="a")], topi.nn.softmax(a))


def of_columns() -> Any:
    a = te.placeholder((6, 50), name="a")
    return prim_func([a], topi.subtract(a, topi.sum(a, axis=0, keepdims=True)))


def of_the_next_row() -> Any:
    a = te.placeholder((7, 8, 50), name="a")
    k = te.reduce_axis((0, 50), "k")
    total = te.compute((7, 8), lambda i, j: te.sum(a[te.min(i + 1, 6), j, k], axis=k), "total")
    return prim_func([a], te.compute(a.shape, lambda i, j, c: a[i, j, c] - total[i, j], "less"))


def as_floats() -> Any:
    a = te.placeholder((6, 50), name="a", dtype="int32")
    return prim_func([a], topi.cast(a, "float32"))


def fixed(function: Any, form: str = "direct") -> Scheduled:
    if form == "direct":
        return apply_schedule(function, default_trace(function, TARGET, ROOM)[0])
    found = best_guess(algorithm_named(function, form).function, TARGET, ROOM)
    assert found is not None
    return apply_schedule(function, schedule_text(form, found[0]))


def in_parts(function: Any) -> Scheduled:
    found = tile_of(function, TARGET)
    assert found is not None
    sizes = {"row": 1, "pixel": 4, "vectors": 2, "reduction0": 1, "reduction1": 1, "reduction2": 1}
    sch = tiled(function, found[1], Variant(("channel", "row", "pixel"), parts=4), Chosen(sizes), TARGET)
    return apply_schedule(function, trace_text(sch.trace))


ABLE: dict[str, tuple[Callable[[], Any], str, tuple[int, ...]]] = {
    "residual sum": (residual, "direct", (3,)),
    "pointwise": (pointwise, "direct", (3,)),
    "winograd": (residual, "winograd_f2", (3,)),
    "either operand": (sum_of_two, "direct", (0, 1)),
    "the operand at its own place": (turned, "direct", (0,)),
    "a row that is read before": (centred, "direct", (0,)),
    "columns that are read before": (of_columns, "direct", (0,)),
    "softmax of rows": (softmax, "direct", (0,)),
    "softmax of rows in parts": (softmax, "peeled_256", (0,)),
    "softmax of a few rows": (lambda: softmax((1, 1, 3, 64)), "direct", (0,)),
    "softmax of heads": (lambda: softmax((2, 3, 5, 64)), "direct", (0,)),
}
UNABLE: dict[str, Callable[[], Scheduled]] = {
    "an operand is read behind its place": lambda: fixed(of_the_next_row()),
    "another type": lambda: fixed(as_floats()),
    "unfinished sums stand in the output": lambda: in_parts(pointwise()),
    "pixels that are computed twice": lambda: fixed(
        conv2d((5, 7, 16), 32, kernel=(1, 1), pad=(0, 0, 0, 0), tail="residual"), "tiles_6"
    ),
    "channels that are computed twice": lambda: fixed(conv2d((5, 6, 8), 42, tail="residual"), "vectors_256"),
    "no operand": lambda: fixed(conv2d((6, 8, 16), 16)),
}


@pytest.mark.parametrize("name", ABLE)
def test_an_operand_that_is_read_where_it_is_written_can_be_written_over(name: str, tmp_path: Path) -> None:
    make, form, numbers = ABLE[name]
    function = make()
    scheduled = fixed(function, form)
    assert replaceable(flat(scheduled.module)) == numbers
    source = written_over(scheduled, numbers)
    for param in source.params:
        assert (f"*restrict {param.name}" in source.prototype) != param.shared
    for number in numbers:
        check(function, scheduled, source, number, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("make", [residual, pointwise])
def test_sampled_schedules_compute_the_same_in_place(make: Callable[[], Any], tmp_path: Path) -> None:
    function = make()
    able = 0
    for number, design in enumerate(design_spaces(function, TARGET, seed=3)):
        design.enter_postproc()
        if all(post.apply(design) for post in postprocs(TARGET, ROOM)):
            scheduled = apply_schedule(function, trace_text(design.trace))
            numbers = replaceable(flat(scheduled.module))
            able += bool(numbers)
            if numbers:
                (tmp_path / str(number)).mkdir()
                check(function, scheduled, written_over(scheduled, numbers), numbers[-1], tmp_path / str(number))
    assert able >= 2


def test_threads_write_over_an_operand_too(tmp_path: Path) -> None:
    function = residual()
    scheduled = fixed(function)
    board = TARGET.model_copy(update={"handover_cycles": 0})
    shared = emit_shared_kernel(scheduled.module, board, "over", Sharing("test", 3, 1), {3, 4})
    assert shared.workers == 3
    text = re.sub(r"\s+", " ", shared.definition)
    for name in ("input_2", "output", "other", "T_relu"):
        assert f"*restrict {name}" not in text
    assert "*restrict weights" in text or "*restrict w" in text
    check(function, scheduled, backwards(shared), 3, tmp_path)


def test_threads_write_over_rows_that_they_have_read(tmp_path: Path) -> None:
    function = softmax((4, 6, 50))
    scheduled = fixed(function)
    board = TARGET.model_copy(update={"handover_cycles": 0})
    shared = emit_shared_kernel(scheduled.module, board, "over", Sharing("test", 3, 1), {0, 1})
    assert shared.workers == 3
    check(function, scheduled, backwards(shared), 0, tmp_path)


@pytest.mark.parametrize("name", UNABLE)
def test_what_may_be_read_after_it_was_written_is_left_alone(name: str) -> None:
    assert replaceable(flat(UNABLE[name]().module)) == ()


def test_rows_are_named_where_they_are_asked_for() -> None:
    """A product of a whole row with weights may be written over the row, and loses `restrict` by that."""
    function = conv2d((6, 8, 32), 32, kernel=(1, 1), pad=(0, 0, 0, 0))
    module = flat(fixed(function).module)
    assert replaceable(module) == (0,)
    assert replaceable(module, by_rows=False) == ()
    assert replaceable(flat(fixed(pointwise()).module), by_rows=False) == (
        3,
    )  # the residual is read where it is written


def test_compilers_have_nothing_to_say(tmp_path: Path) -> None:
    for cc in ("gcc", "clang-19"):
        compile_strictly(written_over(fixed(residual()), (3,)), TARGET, tmp_path, cc)


def written_over(scheduled: Scheduled, numbers: Sequence[int]) -> KernelSource:
    function = sole_function(scheduled.module)
    return emit_kernel(scheduled.module, TARGET, "over", {*numbers, len(function.params) - 1})


def check(function: Any, scheduled: Scheduled, source: KernelSource, number: int, folder: Path) -> None:
    """Run the C with its output in the memory of parameter `number`, and compare."""
    arrays = random_arguments(function)
    expected = run_plain(function, arrays)
    given = [scheduled.constants[n].apply(a) if n in scheduled.constants else a for n, a in enumerate(arrays)]
    results = run_kernel(source, TARGET, given, folder, over=(len(given) - 1, number))
    np.testing.assert_allclose(results[-1].reshape(expected.shape), expected, rtol=1e-4, atol=1e-4)
