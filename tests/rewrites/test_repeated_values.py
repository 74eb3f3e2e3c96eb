"""Repeated values get a stage of their own, and mean the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

from edgetune.codegen.operations import operations
from edgetune.graph.evaluate import evaluate_program
from edgetune.rewrites.repeated_values import with_repeated_values
from edgetune.schedule.sketches.block_analysis import block_of
from tests.executed_instructions import executed
from tests.schedule.test_sketches import check
from tests.sketch_samples import board, prim_func, random_arguments, run_plain
from tests.te_programs import program_from_te


def groups(pixels: int = 40, count: int = 8, channels: int = 12) -> Any:
    """Elements less the mean of their group."""
    x = te.placeholder((pixels, count, channels), name="x")
    p, c = te.reduce_axis((0, pixels), "p"), te.reduce_axis((0, channels), "c")
    total = te.compute((count,), lambda g: te.sum(x[p, g, c], axis=[p, c]), "total")
    return prim_func([x], te.compute(x.shape, lambda a, g, b: x[a, g, b] - total[g] / float(pixels * channels), "gap"))


def magnitudes(*, twice: bool = False) -> Any:
    """A product of absolute values; `twice`: and one of the same values with another operand."""
    a, b, c = (te.placeholder((40, 40), name=name) for name in "abc")

    def product(right: te.Tensor, name: str) -> te.Tensor:
        k = te.reduce_axis((0, 40), "k")
        return te.compute((40, 40), lambda i, j: te.sum(te.abs(a[i, k]) * right[k, j], axis=k), name)

    first = product(b, "first")
    if not twice:
        return prim_func([a, b], first)
    second = product(c, "second")
    return prim_func([a, b, c], te.compute((40, 40), lambda i, j: first[i, j] - second[i, j], "gap"))


def columns(*, guarded: bool = False) -> Any:
    """Columns over roots; `guarded`: of elements that are read under a condition."""
    x, d = te.placeholder((40, 30), name="x"), te.placeholder((20 if guarded else 30,), name="d")

    def value(i: Any, j: Any) -> Any:
        if not guarded:
            return x[i, j] * te.sqrt(d[j])
        return tirx.if_then_else(j < 20, x[i, j] * te.sqrt(d[j]), x[i, j])

    return prim_func([x, d], te.compute((40, 30), value, "scaled"))


def rows() -> Any:
    x, d = te.placeholder((40, 30), name="x"), te.placeholder((40,), name="d")
    return prim_func([x, d], te.compute((40, 30), lambda i, j: x[i, j] * te.sqrt(d[i]), "scaled"))


def names(function: Any) -> list[str]:
    body = with_repeated_values(function).body.block.body
    return [str(block_of(one).name_hint) for one in (body.seq if isinstance(body, tirx.SeqStmt) else [body])]


@pytest.mark.parametrize(
    ("function", "most"),
    [
        (groups(), 7_800),
        (magnitudes(), 130_000),
        (magnitudes(twice=True), 260_000),
        (columns(), 1_250),
        (columns(guarded=True), 2_400),
        (rows(), 2_400),
    ],
    ids=["groups", "operand", "shared", "columns", "read under a condition", "rows"],
)
def test_values_are_not_computed_again_along_an_axis(function: Any, most: int) -> None:
    """The first four had 11,520, 192,000, 385,600 and 2,400 operations."""
    assert operations(with_repeated_values(function)) <= most
    arrays = [np.abs(array) for array in random_arguments(function)]
    found, wanted = run_plain(with_repeated_values(function), arrays), run_plain(function, arrays)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_a_name_that_is_taken() -> None:
    x, d = te.placeholder((40, 30), name="x"), te.placeholder((30,), name="d")
    taken = te.compute((40, 30), lambda i, j: x[i, j] * te.sqrt(d[j]), "d_value")
    assert len(names(prim_func([x, d], taken))) == len({*names(prim_func([x, d], taken)), "d_value"}) == 2


@pytest.mark.long
@pytest.mark.parametrize("target", [board(256, 16), board(512, 32), board(128, 32)])
def test_all_schedules_mean_the_same(target: Any) -> None:
    for function in (groups(), groups(20, 3, 5), magnitudes(), columns()):
        assert check(with_repeated_values(function), target, 1) > 0


@pytest.mark.long
def test_a_group_norm_has_vectors_across_groups(tmp_path: Path) -> None:
    """The mean of a group is stored for each of its channels, so that rows of all groups are subtracted from."""

    def compute(x: te.Tensor) -> te.Tensor:
        p, c, q, d = (te.reduce_axis((0, extent), name) for name, extent in zip("pcqd", (784, 12) * 2, strict=True))
        total = te.compute((8,), lambda g: te.sum(x[p, g, c], axis=[p, c]), "total")
        gap = te.compute(x.shape, lambda a, g, b: x[a, g, b] - total[g] / 9408.0, "gap")
        squares = te.compute((8,), lambda g: te.sum(gap[q, g, d] * gap[q, g, d], axis=[q, d]), "squares")
        return te.compute(x.shape, lambda a, g, b: gap[a, g, b] / te.sqrt(squares[g] / 9408.0 + 1e-5), "normed")

    array = np.random.default_rng(0).standard_normal((784, 8, 12)).astype(np.float32)
    program = program_from_te(compute, {"x": (array.shape, "float32")}, {}, "made")
    (output,) = evaluate_program(program, [{"x": array}])[0].values()
    wide = array.astype(np.float64)
    expected = (wide - wide.mean((0, 2), keepdims=True)) / np.sqrt(wide.var((0, 2), keepdims=True) + 1e-5)
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-5)
    assert executed(program, tmp_path) < 130_000  # 200,541 without stored means


def shifted(*, selected: bool) -> Any:
    """A product whose terms begin at 1; `selected`: or those of a triangle, of exponentials."""
    a, b = te.placeholder((40, 41), name="a"), te.placeholder((41, 40), name="b")
    k = te.reduce_axis((0 if selected else 1, 41), "k")

    def term(i: Any, j: Any) -> Any:
        if not selected:
            return te.abs(a[i, k]) * b[k, j]
        return tirx.Select(k <= i, te.exp(a[i, k]), tirx.const(0.0, "float32")) * b[k, j]

    return prim_func([a, b], te.compute((40, 40), lambda i, j: te.sum(term(i, j), axis=k), "product"))


def test_axes_that_begin_elsewhere_have_no_stored_values() -> None:
    """A stored value counts from 0, so the place of its axis would be another one."""
    function = shifted(selected=False)
    assert with_repeated_values(function).same_as(function)


def test_what_a_condition_selects_is_stored_and_read() -> None:
    function = shifted(selected=True)
    changed = with_repeated_values(function)
    assert [str(block_of(one).name_hint) for one in changed.body.block.body.seq] == ["a_value", "product"]
    product = str(changed.body.block.body.seq[1])
    assert "exp" not in product
    assert "Select" in product
    arrays = random_arguments(function)
    np.testing.assert_allclose(run_plain(changed, arrays), run_plain(function, arrays), rtol=1e-5)


@pytest.mark.parametrize(("turned", "shape"), [(False, (40, 48)), (True, (48, 40))], ids=["k, j", "j, k"])
def test_rows_of_stored_values_are_those_of_what_they_read(turned: bool, shape: tuple[int, int]) -> None:
    """Stored by columns, each value would be written by itself, and lanes would run along the terms."""
    a, b = te.placeholder((40, 40), name="a"), te.placeholder(shape, name="b")
    k = te.reduce_axis((0, 40), "k")

    def term(i: Any, j: Any) -> Any:
        return a[i, k] * te.abs(b[j, k] if turned else b[k, j])

    function = prim_func([a, b], te.compute((40, 48), lambda i, j: te.sum(term(i, j), axis=k), "product"))
    changed = with_repeated_values(function)
    (made,) = changed.body.block.alloc_buffers
    assert tuple(map(int, made.ty.shape)) == shape
    arrays = random_arguments(function)
    np.testing.assert_allclose(run_plain(changed, arrays), run_plain(function, arrays), rtol=1e-4, atol=1e-4)
