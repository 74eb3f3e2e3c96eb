"""Indices of joined axes: linear where that holds at all iterations, unchanged where it does not or is not known."""

from __future__ import annotations

import pytest
from tvm import te, tirx

from edgetune.codegen.linear_indices import MOST_ITERATIONS, with_linear_indices
from edgetune.frontend.tensor_expression.kernel import kernel_from_te
from edgetune.pipeline.boards import load_board
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.schedule.kernel_spec import kernel_spec
from edgetune.schedule.source import make_source
from edgetune.target.target import with_cpu
from edgetune.tvm_types import Expr


@pytest.mark.parametrize("shape", [(96, 28, 28), (2, 3, 20, 4), (8, 7, 7)])
def test_vectors_that_divide_no_axis_but_all_axes_together_are_loads_and_stores(shape: tuple[int, ...]) -> None:
    x, z = (te.placeholder(shape, name=name) for name in "xz")
    kernel = kernel_from_te([x, z, te.compute(shape, lambda *i: x(*i) * z(*i), name="y")], "product")
    target = with_cpu(load_board("generic-x86_64").target)
    trace, _ = default_schedule(kernel.function, target, 0, ())
    text = make_source(kernel_spec(kernel, 0), trace, target).unit
    assert "*(f32x8u *)&y[offset] = *(const f32x8u *)&x[offset] * *(const f32x8u *)&z[offset];" in text
    assert "floordiv" not in text


def written(index: Expr, loops: list[tuple[tirx.Var, int]]) -> tirx.PrimFunc:
    """A function that writes element `index` of a flat buffer in all iterations of `loops`."""
    buffer = tirx.decl_buffer((1 << 26,), "float32", name="y")
    body: tirx.Stmt = tirx.BufferStore(buffer, tirx.const(0.0, "float32"), [index])
    for variable, extent in reversed(loops):
        body = tirx.For(variable, tirx.const(0, "int32"), tirx.const(extent, "int32"), tirx.ForKind.SERIAL, body)
    return tirx.PrimFunc([buffer], body)


def index_of(function: tirx.PrimFunc) -> str:
    body = function.body
    while isinstance(body, tirx.For):
        body = body.body
    return str(body.indices[0])


def test_an_index_that_is_linear_but_in_one_iteration_stays() -> None:
    i = tirx.Var("i", "int32")
    function = written(i + tirx.floordiv(i, 40_959), [(i, 40_960)])
    assert with_linear_indices(function).same_as(function)
    assert index_of(with_linear_indices(written(i + tirx.floordiv(i, 40_959), [(i, 40_959)]))) == "i"


def test_an_index_of_too_many_iterations_or_of_an_unknown_value_stays() -> None:
    i, j, other = (tirx.Var(name, "int32") for name in ("i", "j", "other"))
    joined = tirx.floordiv(i * 8 + j, 28) * 28 + tirx.floormod(i * 8 + j, 28)
    few, many = (written(joined, [(i, extent), (j, 8)]) for extent in (7, MOST_ITERATIONS))
    assert index_of(with_linear_indices(few)) == "i * 8 + j"
    assert with_linear_indices(many).same_as(many)
    unknown = written(tirx.floordiv(other, 4) * 4 + i, [(i, 4)])
    assert with_linear_indices(unknown).same_as(unknown)
