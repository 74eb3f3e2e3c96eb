"""Tensor expressions become kernels, or a sentence that says why not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import te, tirx, topi

from edgetune.errors import UnsupportedOperator, UsageError
from edgetune.frontend.tensor_expression.kernel import kernel_from_te
from edgetune.graph.evaluate import evaluate_program
from tests.te_programs import program_from_te


def dense(rows: int, width: int) -> tuple[Any, Any, Any]:
    x = te.placeholder((rows, width), name="x")
    w = te.placeholder((4, width), name="w")
    k = te.reduce_axis((0, width), name="k")
    return x, w, te.compute((rows, 4), lambda i, j: te.sum(x[i, k] * w[j, k], k), name="y")


def test_roles_shapes_and_work() -> None:
    x, w, y = dense(8, 16)
    kernel = kernel_from_te([x, w, y], "dense", constants=[w], weight=3)
    assert [(param.name, param.shape, param.role) for param in kernel.params] == [
        ("x", (8, 16), "input"),
        ("w", (4, 16), "constant"),
        ("y", (8, 4), "output"),
    ]
    assert kernel.macs == 8 * 16 * 4
    assert kernel.weight == 3
    assert [int(index) for index in kernel.function.attrs["layout_free_buffers"]] == [1]


def test_equal_expressions_are_one_workload() -> None:
    assert kernel_from_te(dense(8, 16)).workload == kernel_from_te(dense(8, 16), "other").workload
    assert kernel_from_te(dense(8, 16)).workload != kernel_from_te(dense(8, 32)).workload


def test_wrong_use_is_explained() -> None:
    x, w, y = dense(2, 2)
    with pytest.raises(UsageError, match="placeholders first"):
        kernel_from_te([y, x, w])
    with pytest.raises(UsageError, match="cannot name a kernel"):
        kernel_from_te([x, w, y], "not a name")
    with pytest.raises(UsageError, match="two tensors of k are called 'y': name one of them otherwise"):
        kernel_from_te([x, w, y, te.compute((2, 4), lambda i, j: y[i, j] + 1.0, name="y")], "k")
    n = te.var("n")
    a = te.placeholder((n,), name="a")
    with pytest.raises(UsageError, match="not a number"):
        kernel_from_te([a, te.compute((n,), lambda i: a[i] + 1.0)])


def doubled(x: te.Tensor) -> te.Tensor:
    return te.compute(x.shape, lambda *i: x(*i) * 2.0, name="y")


@pytest.mark.parametrize(
    ("expression", "given", "sentence"),
    [
        (doubled, (4,), "input 'x' of k must be a shape and a numpy dtype name"),
        (doubled, ((4.5,), "float32"), "input 'x' of k must be a shape and a numpy dtype name"),
        (doubled, ((4,), np.float32), "input 'x' of k must be a shape and a numpy dtype name"),
        (doubled, ((4,), "float31"), "'x' of k has the dtype 'float31'"),
        (doubled, ((4,), "complex64"), "'x' of k has the dtype 'complex64'"),
        (doubled, ((4, 0), "float32"), r"x of k has the shape \(4, 0\): every extent must be at least 1"),
        (lambda _: None, ((4,), "float32"), "the expression of k returns an object of type NoneType: return a tensor"),
        (lambda x: [doubled(x), 3], ((4,), "float32"), "the expression of k returns an object of type int"),
        (lambda _: [], ((4,), "float32"), "the expression of k returns an empty list"),
    ],
)
def test_another_input_or_result_is_explained(expression: Any, given: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        program_from_te(expression, {"x": given}, {}, "k")


def test_extents_that_differ_from_place_to_place_are_explained() -> None:
    with pytest.raises(
        UnsupportedOperator, match="an extent that depends on the element, as in an adaptive pooling: use the largest"
    ):
        program_from_te(lambda x: topi.nn.adaptive_pool(x, (3, 3), "avg"), {"x": ((1, 4, 10, 11), "float32")}, {}, "a")


def test_stages_that_are_no_loop_nest_are_explained() -> None:
    with pytest.raises(UnsupportedOperator, match="a stage of a is no loop nest that computes one value"):
        program_from_te(lambda x: topi.cumsum(x, axis=1), {"x": ((4, 10), "float32")}, {}, "a")


def test_what_tvm_refuses_in_a_stage_is_explained() -> None:
    def compute(x: te.Tensor) -> te.Tensor:
        return te.compute(x.shape, lambda i: x[i] % 1.0, "y")

    with pytest.raises(UsageError, match=r"TVM refuses a stage of phase .*%, << and >> are for integers"):
        program_from_te(compute, {"x": ((8,), "float32")}, {}, "phase")


def test_constants_are_arrays() -> None:
    given: Any = {"w": [1.0, 2.0]}
    with pytest.raises(UsageError, match="constant 'w' of k is a list: give an array of numpy"):
        program_from_te(lambda x, w: te.compute((2,), lambda i: x[i] * w[i]), {"x": ((2,), "float32")}, given, "k")


def test_tensors_without_axes_are_inputs_and_constants() -> None:
    def scaled(x: te.Tensor, low: te.Tensor, w: te.Tensor) -> te.Tensor:
        return te.compute(x.shape, lambda i: x[i] * w() + low(), name="y")

    weights = {"w": np.array(2, np.float32)}
    program = program_from_te(scaled, {"x": ((3,), "float32"), "low": ((), "float32")}, weights, "k")
    feed = {"x": np.arange(3, dtype=np.float32), "low": np.array(1, np.float32)}
    assert evaluate_program(program, [feed])[0]["y"].tolist() == [1, 3, 5]


def test_results_of_one_reduction_have_numbers() -> None:
    """The largest element of each row, and its place."""
    larger = te.comm_reducer(
        lambda a, b: tuple(tirx.if_then_else(a[1] >= b[1], one, other) for one, other in zip(a, b, strict=True)),
        lambda place, value: (tirx.const(-1, place), te.min_value(value)),
    )

    def largest(x: te.Tensor) -> list[te.Tensor]:
        k = te.reduce_axis((0, 8), "k")
        places = te.compute(x.shape, lambda _, j: j + 0, name="places")
        return list(te.compute((4,), lambda i: larger((places[i, k], x[i, k]), axis=k), name="largest"))

    program = program_from_te(largest, {"x": ((4, 8), "float32")}, {}, "k")
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    found = evaluate_program(program, [{"x": x}])[0]
    assert found["largest_0"].tolist() == x.argmax(axis=1).tolist()
    assert found["largest_1"].tolist() == x.max(axis=1).tolist()


def test_weights_that_are_inputs_are_not_packed() -> None:
    """TVM's own convolutions say that the layout of their weights is free."""

    def convolution(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        return topi.nn.conv2d_nhwc(x, w, 1, 0, 1)

    given = {"x": ((1, 8, 8, 4), "float32"), "w": ((3, 3, 4, 16), "float32")}
    weights = np.zeros(given["w"][0], np.float32)
    for program in (
        program_from_te(convolution, given, {}, "made"),
        program_from_te(convolution, {"x": given["x"]}, {"w": weights}, "made"),
    ):
        free = (program.kernels[0].function.attrs or {}).get("layout_free_buffers", [])
        assert [int(number) for number in free] == [
            1 for param in program.kernels[0].params if param.role == "constant"
        ]


def test_a_constant_of_which_a_column_is_read_is_not_packed() -> None:
    """TVM would pack as many elements as there are results."""

    def scaled(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        return te.compute(x.shape, lambda i: x[i] * w[i, 3], "scaled")

    program = program_from_te(scaled, {"x": ((31,), "float32")}, {"w": np.zeros((31, 4), np.float32)}, "made")
    assert "layout_free_buffers" not in (program.kernels[0].function.attrs or {})


def grouped_pixels(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, 6), "k")
    return te.compute((3, 4, 5, 7), lambda g, o, i, j: te.sum(x[g, k, i, j] * w[g, o, k], axis=k), "mixed")


def mean_of_images(x: te.Tensor) -> te.Tensor:
    i, j = te.reduce_axis((0, 5), "i"), te.reduce_axis((0, 7), "j")
    return te.compute((18,), lambda c: te.sum(x[c // 6, c % 6, i, j], axis=[i, j]), "mean")


def test_axes_that_a_kernel_walks_as_one_are_one() -> None:
    """Rows of five times seven pixels are rows of 35; the arrays that a caller gives keep their shapes."""
    generator = np.random.default_rng(0)
    x, w = (generator.standard_normal(shape).astype(np.float32) for shape in ((3, 6, 5, 7), (3, 4, 6)))
    for expression, arrays, expected in (
        (grouped_pixels, {"x": x, "w": w}, np.einsum("gkij,gok->goij", x, w)),
        (mean_of_images, {"x": x}, x.sum((2, 3)).reshape(-1)),
    ):
        program = program_from_te(expression, {k: (v.shape, "float32") for k, v in arrays.items()}, {}, "made")
        (kernel,) = program.kernels
        assert [int(extent) for extent in kernel.function.params[0].ty.shape][-1] == 35
        assert kernel.params[0].shape == (3, 6, 5, 7)
        (answer,) = evaluate_program(program, [arrays])
        np.testing.assert_allclose(next(iter(answer.values())), expected, rtol=1e-4, atol=1e-5)
