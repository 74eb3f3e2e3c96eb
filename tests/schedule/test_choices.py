"""Axes of choice: a short axis that decides between alternatives leaves no test in C, and the right elements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

from edgetune.codegen import emit_kernel
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.target.target import load_target
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.sketch_samples import prim_func, random_arguments, run_plain


def chosen(band: te.Var, alternatives: list[Any], choose: Any = tirx.Select) -> Any:
    """The alternative of a band; the last one also for all later bands."""
    result = alternatives[-1]
    for number in reversed(range(len(alternatives) - 1)):
        result = choose(band == number, alternatives[number], result)
    return result


def bands(rows: int, columns: int, step: int) -> Any:
    """A mean and differences of neighbours, one after another: step 2 reads every second element."""
    x = te.placeholder((rows, step * columns + 2), name="x")

    def value(r: te.Var, band: te.Var, c: te.Var) -> Any:
        a, b = x[r, step * c], x[r, step * c + 1]
        return chosen(band, [a + b, a - b, a * b])

    return prim_func([x], te.compute((rows, 3, columns), value, "bands"))


def parts(rows: int) -> Any:
    """Products of complex numbers, whose parts are neighbours, and their norms."""
    a, b = (te.placeholder((rows, 2), name=name) for name in "ab")

    def value(r: te.Var, part: te.Var) -> Any:
        products = [a[r, m] * b[r, n] for m in range(2) for n in range(2)]
        return chosen(part, [products[0] - products[3], products[1] + products[2], products[0] + products[3]])

    return prim_func([a, b], te.compute((rows, 3), value, "parts"))


def halves(rows: int) -> Any:
    """A branch that keeps elements apart which the other side may not read."""
    a, b = te.placeholder((rows, 3), name="a"), te.placeholder((rows, 2), name="b")

    def value(r: te.Var, part: te.Var) -> Any:
        return tirx.if_then_else(part < 3, a[r, part], b[r, part - 3])

    return prim_func([a, b], te.compute((rows, 5), value, "halves"))


def sums(maps: int, size: int) -> Any:
    """Sums weighted by the row or by the column: the place is chosen in a reduction."""
    x = te.placeholder((maps, size, size), name="x")
    r, c = te.reduce_axis((0, size), "r"), te.reduce_axis((0, size), "c")

    def value(m: te.Var, way: te.Var) -> Any:
        return te.sum(x[m, r, c] * tirx.Select(way == 0, r, c).astype("float32"), axis=[r, c])

    return prim_func([x], te.compute((maps, 2), value, "sums"))


def many() -> Any:
    """Too many alternatives to write out."""
    x = te.placeholder((4, 40), name="x")
    return prim_func([x], te.compute((9, 4, 40), lambda n, r, c: chosen(n, [x[r, c], x[r, c] * 2.0]), "many"))


def diagonal() -> Any:
    """The place along one axis is compared with that along another."""
    x = te.placeholder((4, 4), name="x")

    def value(n: te.Var, r: te.Var, c: te.Var) -> Any:
        return tirx.Select(n == r, x[r, c], x[r, c] * 2.0)

    return prim_func([x], te.compute((4, 4, 4), value, "diagonal"))


def blended(rows: int, columns: int, wide: int) -> Any:
    """Rows of three, with one factor each: `alpha` is wider than what is read of it where `wide` is not 0."""
    x, alpha = te.placeholder((rows, columns, 3), name="x"), te.placeholder((rows, columns + wide), name="alpha")
    return prim_func(
        [x, alpha], te.compute((rows, columns, 3), lambda r, s, c: x[r, s, c] * alpha[r, s] + x[r, s, 0], "blended")
    )


@pytest.mark.parametrize(
    ("function", "tested"),
    [
        (bands(3, 40, 1), False),
        (bands(3, 128, 1), False),
        (bands(3, 37, 1), False),
        (bands(3, 37, 2), False),
        (parts(29), False),
        (halves(29), False),
        (sums(3, 32), False),
        (blended(5, 7, 0), False),
        (blended(5, 7, 2), False),
        (many(), True),
        (diagonal(), True),
    ],
)
@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
def test_choices(function: Any, tested: bool, cc: str, tmp_path: Path) -> None:
    target = wide_target(512)
    source = emit_kernel(apply_schedule(function, default_schedule(function, target, 0, FORMS)[0]).module, target, "k")
    body = source.definition.partition("{")[2]
    assert any(word in body for word in (" == ", " ? ", "mask")) == tested
    arrays = random_arguments(function)
    compile_strictly(source, target, tmp_path, cc)
    result = run_kernel(source, target, arrays, tmp_path, cc=cc, extra=SANITIZERS)[-1]
    np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-5, atol=1e-5)


def test_alternatives_share_the_vectors_of_a_row() -> None:
    function = bands(3, 128, 1)
    source = emit_kernel(
        apply_schedule(function, default_schedule(function, wide_target(512), 0, FORMS)[0]).module,
        wide_target(512),
        "k",
    )
    lines = source.definition.splitlines()
    stores = [number for number, line in enumerate(lines) if "f32x16u *)&bands[" in line]
    assert len(stores) >= 3
    assert not any("for (" in line for line in lines[stores[0] : stores[-1]])


@pytest.mark.parametrize(("wide", "loops"), [(0, 1), (2, 2)])
def test_loops_around_short_rows_become_one(wide: int, loops: int) -> None:
    function = blended(5, 7, wide)
    source = emit_kernel(
        apply_schedule(function, default_schedule(function, wide_target(512), 0, FORMS)[0]).module,
        wide_target(512),
        "k",
    )
    assert source.definition.count("for (") == loops
    assert source.definition.count("blended[") == 3


def test_rows_that_a_branch_tells_apart_stay_rows() -> None:
    """Rows of two tensors, one below the other: as one row, each element was tested."""
    x, y = (te.placeholder((rows, 25), name=name) for name, rows in (("x", 5), ("y", 20)))
    whole = te.compute((25, 25), lambda i, j: tirx.if_then_else(i >= 5, y[i - 5, j], x[i, j]), "whole")
    function, target = prim_func([x, y], whole), wide_target(256)
    text = default_schedule(function, target, 0, FORMS)[0]
    assert "f32x8" in emit_kernel(apply_schedule(function, text).module, target, "kernel").definition


def test_a_row_of_three_is_written_out_where_its_reads_cross_it() -> None:
    """Normals of a surface: with the loops turned around, each element of the row was chosen again."""
    z = te.placeholder((42, 43), name="z")

    def value(i: te.Var, j: te.Var, part: te.Var) -> Any:
        down, right = z[i, j + 1] - z[i + 2, j + 1], z[i + 1, j] - z[i + 1, j + 2]
        return chosen(part, [right, down, tirx.const(1.0, "float32")]) * tirx.rsqrt(down * down + right * right + 1.0)

    function, target = prim_func([z], te.compute((40, 41, 3), value, "normals")), load_target("generic-aarch64")
    text = default_schedule(function, target, 0, FORMS)[0]
    definition = emit_kernel(apply_schedule(function, text).module, target, "kernel").definition
    assert definition.count("for (") == 2
    assert " == " not in definition
