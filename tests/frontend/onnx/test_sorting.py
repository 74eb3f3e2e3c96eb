"""TopK: n log k comparisons, and the order of ONNX for ties, NaN, every type and every axis."""

from __future__ import annotations

from math import log2, prod

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from edgetune.frontend.onnx.converters.sorting import top_k
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import OnnxModel, model_from_proto
from edgetune.graph.memory.plan import plan
from edgetune.graph.partition import to_program
from edgetune.graph.program import byte_size
from edgetune.graph.written_loops import own_memory
from tests.examples import costly
from tests.interpreter import run_program
from tests.loop_steps import comparisons, counted, stores_to

TYPES = ("float32", "float16", "float64", "int8", "uint8", "int32", "uint32", "int64")


def model_of(x: np.ndarray, count: int, **attributes: int) -> OnnxModel:
    node = helper.make_node("TopK", ["x", "k"], ["values", "indices"], **attributes)
    shape = list(x.shape)
    shape[attributes.get("axis", -1)] = count
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    outputs = [("values", kind), ("indices", TensorProto.INT64)]
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info(name, of, shape) for name, of in outputs],
        [numpy_helper.from_array(np.array([count]), "k")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    return model_from_proto(proto, "0" * 64, "model", None, "model.onnx")


def first(x: np.ndarray, count: int, axis: int, *, largest: bool) -> dict[str, np.ndarray]:
    """By a stable sort: equal elements keep their order, and numpy has NaN behind infinity."""
    rank = np.unique(x, return_inverse=True)[1].reshape(x.shape)
    order = np.argsort(-rank if largest else rank, axis=axis, kind="stable").take(range(count), axis)
    return {"values": np.take_along_axis(x, order, axis), "indices": order}


def check(x: np.ndarray, count: int, axis: int, *, largest: bool) -> None:
    program = to_program(import_onnx(model_of(x, count, axis=axis, largest=int(largest))))
    found, wanted = run_program(program, {"x": x}), first(x, count, axis, largest=largest)
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize("order", ["random", "ascending", "descending", "equal"])
def test_of_8400_by_80_scores_300_take_at_most_3_n_log_n_comparisons(order: str) -> None:
    """Each element was compared with each: n squared."""
    extent = 8400 * 80
    places = np.arange(extent)
    orders = {"random": np.random.default_rng(0).permutation(extent), "descending": -places, "equal": places * 0}
    x = orders.get(order, places).astype(np.float32).reshape(1, extent, 1)
    found = counted(top_k((1, extent, 1), "float32", 300, largest=True), comparisons, [x])
    assert extent - 300 <= found <= 3 * extent * log2(extent)


@pytest.mark.parametrize(("count", "rows", "largest"), [(1, 1, True), (300, 3, False), (8400, 1, True)])
def test_rows_take_at_most_3_n_log_n_comparisons_each(count: int, rows: int, largest: bool) -> None:
    x = np.random.default_rng(1).normal(size=(1, 8400, rows)).astype(np.float32)
    found = counted(top_k((1, 8400, rows), "float32", count, largest=largest), comparisons, [x])
    assert found <= rows * 3 * 8400 * log2(8400)


def test_ties_keep_their_order_and_zeros_of_both_signs_are_ties() -> None:
    check(np.array([[0.0, -0.0, 1, -0.0, 1, 0.0, -1]], np.float32), 6, 1, largest=True)
    check(np.array([[0.0, -0.0, 1, -0.0, 1, 0.0, -1]], np.float32), 6, 1, largest=False)


@pytest.mark.parametrize(
    ("dtype", "largest", "count"),
    [("float32", True, 1), ("float32", False, 9), ("float16", True, 3), ("float64", False, 3), ("float64", True, 9)],
)
def test_nan_is_larger_than_infinity(dtype: str, largest: bool, count: int) -> None:
    """As in the sort of numpy, which the evaluator of ONNX uses."""
    x = np.array([[1, np.nan, np.inf, -np.inf, -np.nan, 2, np.inf, np.nan, -1]], dtype)
    check(x, count, 1, largest=largest)


def test_none_of_a_row_are_none() -> None:
    x = np.zeros((2, 3), np.float32)
    found = run_program(to_program(import_onnx(model_of(x, 0))), {"x": x})
    assert [found[name].shape for name in ("values", "indices")] == [(2, 0), (2, 0)]


@pytest.mark.parametrize("dtype", [*TYPES[:2], *TYPES[3:7]])
@pytest.mark.parametrize("largest", [True, False])
def test_a_whole_row_is_distributed_by_its_digits(dtype: str, largest: bool) -> None:
    numbers = np.random.default_rng(0)
    x = numbers.integers(0, 120, (2, 1100)).astype(dtype)
    if x.dtype.kind == "f":
        x[0, ::7], x[1, ::11], x[0, 1::9] = np.nan, -0.0, -np.inf
    else:
        x[0, ::7], x[1, ::11] = np.iinfo(dtype).min, np.iinfo(dtype).max
    assert own_memory(top_k((2, 1100, 1), dtype, 1100, largest=largest))
    check(x, 1100, 1, largest=largest)


@pytest.mark.parametrize(
    ("shape", "axis", "count", "takes"),
    [
        ((1, 4000), 1, 4000, 8 * 4000 + 4 * 1024),  # one more index for each element, and how many have each digit
        ((1, 4000), 1, 2000, 0),
        ((1, 4000), 1, 3999, 0),
        ((1, 512), 1, 512, 8 * 512 + 4 * 1024),  # as many bytes as x, values and indices have
        ((1, 511), 1, 511, 0),
        ((1, 1000, 7, 7), 1, 500, 0),
    ],
)
def test_sorting_takes_no_more_memory_than_its_tensors(
    shape: tuple[int, ...], axis: int, count: int, takes: int
) -> None:
    """A row of 4000 of which half was wanted took four times the bytes of the row."""
    program = to_program(import_onnx(model_of(np.zeros(shape, np.float32), count, axis=axis)))
    limits = {number: kernel.scratch for number, kernel in enumerate(program.kernels) if kernel.scratch}
    assert plan(program, limits).arena_bytes == takes
    (kernel,) = program.kernels
    rows = prod(shape) // shape[axis]
    assert rows * own_memory(kernel.function) <= sum(byte_size(param.shape, param.dtype) for param in kernel.params)


@given(st.integers(500, 1100), st.sampled_from([*TYPES[:2], *TYPES[3:7], "int16"]))
def test_memory_of_a_row_of_any_length_and_type_is_no_more_than_its_tensors(extent: int, dtype: str) -> None:
    function = top_k((1, extent, 1), dtype, extent, largest=True)
    tensors = extent * (2 * np.dtype(dtype).itemsize + 8)
    assert own_memory(function) <= tensors
    assert own_memory(function) or extent < 1040


def test_a_row_that_is_distributed_takes_n_steps_and_compares_none() -> None:
    """Each of four digits moves each entry once; NaN and zeros are looked for once."""
    extent = 20_000
    x = np.random.default_rng(0).normal(size=(1, extent, 1)).astype(np.float32)
    function = top_k((1, extent, 1), "float32", extent, largest=True)
    assert counted(function, stores_to("indices"), [x]) + counted(function, stores_to("spare"), [x]) == 6 * extent
    assert counted(function, comparisons, [x]) <= 3 * extent


@pytest.mark.long
@costly(40)
@given(
    st.sampled_from(TYPES),
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.integers(-3, 2),
    st.floats(0, 1),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_each_type_along_each_axis(
    dtype: str,
    shape: list[int],
    axis: int,
    share: float,
    largest: bool,
    seed: int,
) -> None:
    axis %= len(shape)
    count = max(1, round(share * shape[axis]))
    numbers = np.random.default_rng(seed)
    extremes = [np.iinfo(dtype).min, np.iinfo(dtype).max] if np.dtype(dtype).kind in "iu" else [-np.inf, np.inf]
    x = numbers.choice(np.array([0, 1, 2, 3, 100, *extremes], dtype), shape)
    check(x, count, axis, largest=largest)


def test_k_as_an_attribute_of_old_opsets() -> None:
    x = np.random.default_rng(0).normal(size=(3, 7)).astype(np.float32)
    node = helper.make_node("TopK", ["x"], ["values", "indices"], k=4)
    infos = [
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in (
            ("x", TensorProto.FLOAT, [3, 7]),
            ("values", TensorProto.FLOAT, [3, 4]),
            ("indices", TensorProto.INT64, [3, 4]),
        )
    ]
    graph = helper.make_graph([node], "g", infos[:1], infos[1:])
    proto = helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 9)], ir_version=7)
    program = to_program(import_onnx(model_from_proto(proto, "0" * 64, "model", None, "model.onnx")))
    for name, value in first(x, 4, 1, largest=True).items():
        np.testing.assert_array_equal(run_program(program, {"x": x})[name], value)
