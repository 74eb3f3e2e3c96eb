"""Rows are divided where a condition on their places changes: the parts have none, and read nothing beyond a tensor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx

from edgetune.codegen import emit_kernel
from edgetune.codegen.in_place import replaceable
from edgetune.codegen.kernel_source import KernelSource
from edgetune.codegen.lower import flat
from edgetune.codegen.parallel_kernel import Sharing, emit_shared_kernel
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.examples import costly
from tests.sketch_samples import board, prim_func, random_arguments, run, run_plain
from tests.threads_sample import backwards

Value = Callable[[Any, Any, Any], Any]
ROWS = 5
CHOICES = (" ? ", " / ", " % ")


def stage(columns: int, value: Value, more: int = 0) -> Any:
    """A matrix computed element by element from one with `more` rows and columns."""
    x = te.placeholder((ROWS + more, columns + more), name="x")
    return prim_func([x], te.compute((ROWS, columns), lambda r, c: value(x, r, c), "made"))


def with_ends(x: Any, columns: int, r: Any, c: Any) -> Any:
    """Differences that are one-sided at both ends."""
    last = tirx.if_then_else(c == columns - 1, x[r, c] - x[r, c - 1], x[r, c + 1] - x[r, c - 1])
    return tirx.if_then_else(c == 0, x[r, c + 1] - x[r, c], last)


def periodic(x: Any, columns: int, r: Any, c: Any) -> Any:
    """A row that goes on at its start."""
    return x[r, (c + columns - 2) % columns] * 2.0 - x[r, (c + 1) % columns]


def halves(x: Any, columns: int, r: Any, c: Any) -> Any:
    """The second half of a row before the first."""
    half = columns // 2
    return tirx.if_then_else(c < columns - half, x[r, c + half] * -1.0, x[r, c - (columns - half)])


def bordered(x: Any, columns: int, r: Any, c: Any) -> Any:
    """Means of neighbours in the middle, and the border as it was."""
    inside = tirx.all(r > 0, r < ROWS - 1, c > 0, c < columns - 1)
    return tirx.if_then_else(inside, x[r - 1, c] + x[r + 1, c] + x[r, c - 1] + x[r, c + 1], x[r, c])


def kept_within(x: Any, columns: int, r: Any, c: Any) -> Any:
    """Places beyond the ends are those of the ends."""
    zero, last = tirx.const(0, "int32"), tirx.const(columns - 1, "int32")
    return x[r, te.max(c - 2, zero)] + x[r, te.min(c + 1, last)]


def functions(x: Any, columns: int, r: Any, c: Any) -> Any:
    """Functions of neighbours, and of single elements."""
    return tirx.if_then_else(c < columns - 3, tirx.sqrt(tirx.exp(x[r, c + 3])), tirx.exp(x[r, c - 1]))


def rows_apart(x: Any, columns: int, r: Any, c: Any) -> Any:
    """Each row has its own formula; columns wrap."""
    other = tirx.Select(r == 1, x[r, (c + 1) % columns] * 2.0, x[r, c] - 1.0)
    return tirx.Select(r == 0, x[r, c] * 3.0, other)


CASES = [with_ends, periodic, halves, bordered, kept_within, functions, rows_apart]


def kernel(function: Any, bits: int) -> KernelSource:
    target = wide_target(bits)
    made = apply_schedule(function, default_schedule(function, target, 0, FORMS)[0]).module
    return emit_kernel(made, target, "k")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize(("columns", "bits"), [(39, 512), (48, 256)])
def test_parts_have_no_condition(case: Any, columns: int, bits: int, tmp_path: Path) -> None:
    """Differences along rows of 1001 took 86 us with a condition in each element, and 18 us without."""
    function = stage(columns, lambda x, r, c: case(x, columns, r, c))
    source, target = kernel(function, bits), wide_target(bits)
    assert not any(choice in source.definition.partition("{")[2] for choice in CHOICES)
    assert f"f32x{bits // 32}u *)&made[" in source.definition
    arrays = random_arguments(function)
    for cc in ("gcc", "clang-19"):
        compile_strictly(source, target, tmp_path, cc)
        result = run_kernel(source, target, arrays, tmp_path, cc=cc, extra=SANITIZERS)[-1]
        np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-5)


@pytest.mark.long
@costly(15)
@given(st.data())
def test_any_places_give_the_same_elements(data: st.DataObject) -> None:
    columns = data.draw(st.integers(1, 70), "columns")
    ends = data.draw(st.lists(st.integers(-1, columns + 1), min_size=1, max_size=4), "ends")
    shift, wrap = data.draw(st.integers(0, 9), "shift"), data.draw(st.integers(1, 90), "wrap")
    joined, flipped = data.draw(st.booleans(), "joined"), data.draw(st.booleans(), "flipped")

    def value(x: Any, r: Any, c: Any) -> Any:
        result = x[r, tirx.indexmod(c + shift, tirx.const(min(wrap, columns), "int32"))]
        for number, end in enumerate(ends):
            there = tirx.all(c < end, r >= number) if joined else c < end
            there = tirx.Not(there) if flipped else there
            result = tirx.if_then_else(there, x[r, c + 1] + float(number), result)
        return result

    function = stage(columns, value, more=2)
    arrays = random_arguments(function)
    for bits in (128, 512):
        text = default_schedule(function, board(bits, 16), 0, FORMS)[0]
        np.testing.assert_array_equal(run(apply_schedule(function, text).module, arrays), run_plain(function, arrays))


def red(x: Any, columns: int, r: Any, c: Any) -> Any:
    """Every second place, as on a board of squares, and the border as it was."""
    inside = tirx.all(r > 0, r < ROWS - 1, c > 0, c < columns - 1, (r + c) % 2 == 0)
    return tirx.if_then_else(inside, x[r - 1, c] + x[r + 1, c] + x[r, c - 1] + x[r, c + 1], x[r, c])


def triangle(x: Any, columns: int, r: Any, c: Any) -> Any:
    """Another end in each row."""
    return tirx.if_then_else(c * 3 < r * columns, x[r, c], x[r, columns - 1 - c])


@pytest.mark.parametrize(("case", "columns"), [(red, 42), (triangle, 48)])
def test_conditions_on_several_axes_select_by_lane(case: Any, columns: int, tmp_path: Path) -> None:
    """Relaxing every second point of 255 by 257 selects by lane; it had a branch in each."""
    function = stage(columns, lambda x, r, c: case(x, columns, r, c))
    source, target = kernel(function, 512), wide_target(512)
    assert "f32x16u *)&made[" in source.definition
    assert not any(choice in source.definition.partition("{")[2] for choice in CHOICES)
    arrays = random_arguments(function)
    result = run_kernel(source, target, arrays, tmp_path, extra=SANITIZERS)[-1]
    np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-5)


def test_a_condition_that_guards_what_is_read_stays(tmp_path: Path) -> None:
    """Both sides of a selection are read."""
    zero = tirx.const(0.0, "float32")
    function = stage(40, lambda x, r, c: tirx.if_then_else(c + r * 2 < 38, x[r, c + r * 2], zero))
    source = kernel(function, 256)
    arrays = random_arguments(function)
    result = run_kernel(source, wide_target(256), arrays, tmp_path, extra=SANITIZERS)[-1]
    np.testing.assert_array_equal(result, run_plain(function, arrays))


def test_a_row_of_many_parts_stays_a_loop() -> None:
    """Sixteen parts of four elements would be sixteen statements."""
    function = stage(64, lambda x, r, c: x[r, c % 4])
    assert kernel(function, 512).definition.count("made[") < 16


def test_zeros_between_samples_are_stored_without_a_condition(tmp_path: Path) -> None:
    """24,000 remainders of a division took 80 us."""
    x = te.placeholder((ROWS, 20), name="x")
    zero = tirx.const(0.0, "float32")
    wide = te.compute((ROWS, 60), lambda r, t: tirx.if_then_else(t % 3 == 0, x[r, t // 3], zero), "wide")
    function = prim_func([x], wide)
    source = kernel(function, 512)
    assert not any(choice in source.definition.partition("{")[2] for choice in CHOICES)
    arrays = random_arguments(function)
    result = run_kernel(source, wide_target(512), arrays, tmp_path, extra=SANITIZERS)[-1]
    np.testing.assert_array_equal(result, run_plain(function, arrays))


def test_no_part_takes_the_memory_of_what_another_reads() -> None:
    function = stage(48, lambda x, r, c: halves(x, 48, r, c))
    made = apply_schedule(function, default_schedule(function, wide_target(256), 0, FORMS)[0]).module
    assert replaceable(flat(made)) == ()


def test_threads_share_divided_rows(tmp_path: Path) -> None:
    x = te.placeholder((40, 999), name="x")
    function = prim_func([x], te.compute((40, 999), lambda r, c: with_ends(x, 999, r, c), "made"))
    target = wide_target(512)
    made = apply_schedule(function, default_schedule(function, target, 0, FORMS)[0]).module
    source = emit_shared_kernel(made, target, "sample", Sharing("test", 3, 1))
    assert source.workers > 1
    arrays = random_arguments(function)
    result = run_kernel(backwards(source), target, arrays, tmp_path)[-1]
    np.testing.assert_array_equal(result, run_plain(function, arrays))


def test_a_row_into_which_stages_are_inlined_is_divided(tmp_path: Path) -> None:
    """Differences of fluxes, whose places are kept within a row, are computed in vectors."""
    x, speed = te.placeholder((ROWS, 39), name="x"), te.placeholder((ROWS, 40), name="speed")
    zero, last = tirx.const(0, "int32"), tirx.const(38, "int32")

    def flux(r: Any, c: Any) -> Any:
        return speed[r, c] * tirx.Select(speed[r, c] > 0.0, x[r, te.max(c - 1, zero)], x[r, te.min(c, last)])

    fluxes = te.compute((ROWS, 40), flux, "fluxes")
    function = prim_func([x, speed], te.compute((ROWS, 39), lambda r, c: fluxes[r, c + 1] - fluxes[r, c], "made"))
    source, target = kernel(function, 512), wide_target(512)
    assert "f32x16u *)&made[" in source.definition
    arrays = random_arguments(function)
    result = run_kernel(source, target, arrays, tmp_path, extra=SANITIZERS)[-1]
    np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-5)


def shifted(x: Any, columns: int, r: Any, c: Any) -> Any:
    """A row that wraps by a distance of its own."""
    return x[(r + 1) % ROWS, (c + r % 3 + columns - 1) % columns] * 0.5


def test_a_row_is_divided_for_each_distance_by_which_it_wraps(tmp_path: Path) -> None:
    """A fluid on a periodic lattice has rows for each of three distances."""
    function = stage(39, lambda x, r, c: shifted(x, 39, r, c))
    source, target = kernel(function, 512), wide_target(512)
    assert "== 2)" in source.definition
    assert source.definition.count("f32x16u *)&made[") == 3
    arrays = random_arguments(function)
    result = run_kernel(source, target, arrays, tmp_path, extra=SANITIZERS)[-1]
    np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-5)


def test_many_distances_stay() -> None:
    """Each of five would have parts of its own."""
    function = stage(39, lambda x, r, c: x[r, (c + r) % 39])
    assert " == 4" not in kernel(function, 512).definition


def test_a_sum_reads_wrapped_rows_that_are_stored() -> None:
    """Inlined, the place of each term would be a remainder, and no lane would read neighbours."""
    x = te.placeholder((3, 40), name="x")
    wrapped = te.compute(x.shape, lambda q, c: x[q, (c + q + 39) % 40] * 2.0, "wrapped")
    q = te.reduce_axis((0, 3), "q")
    function = prim_func([x], te.compute((40,), lambda c: te.sum(wrapped[q, c], axis=q), "total"))
    definition = kernel(function, 256).definition
    assert "f32x8u *)&wrapped[" in definition
    assert definition.count(" * 2.0f") > 3
    arrays = random_arguments(function)
    text = default_schedule(function, board(256, 16), 1 << 16, FORMS)[0]
    np.testing.assert_allclose(
        run(apply_schedule(function, text).module, arrays), run_plain(function, arrays), rtol=1e-5
    )
