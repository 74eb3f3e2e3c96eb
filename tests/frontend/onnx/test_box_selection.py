"""NonMaxSuppression: the rows of ONNX Runtime, -1 behind them up to a bound, and n log n + n k comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log2

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.converters.box_selection import non_max_suppression
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import OnnxModel, model_from_proto
from edgetune.frontend.onnx.reference import Evaluator, evaluate_model
from edgetune.graph.partition import to_program
from tests.examples import costly
from tests.interpreter import run_program
from tests.loop_steps import comparisons, counted, stores_to

INPUTS = ("boxes", "scores", "most", "iou_threshold", "score_threshold")
Arrays = Mapping[str, np.ndarray]


def model_of(
    shape: tuple[int, int, int],
    constants: Arrays,
    at_run_time: Arrays | None = None,
    readers: tuple[onnx.NodeProto, ...] = (),
    *,
    opset: int = 13,
    by_center: int = 0,
) -> OnnxModel:
    """A model that ends with a selection, or with `readers` of it, the last of which makes `y`."""
    batches, classes, count = shape
    shapes = {"boxes": (batches, count, 4), "scores": (batches, classes, count)}
    shapes |= {name: array.shape for name, array in (at_run_time or {}).items()}
    known = [*shapes, *constants]
    names = [name if name in known else "" for name in INPUTS]
    while not names[-1]:
        names.pop()
    made = "selected" if readers else "y"
    selects = helper.make_node("NonMaxSuppression", names, [made], "selection", center_point_box=by_center)
    graph = helper.make_graph(
        [selects, *readers],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, extents) for name, extents in shapes.items()],
        [
            helper.make_tensor_value_info("y", TensorProto.INT64, ["n", 3])
            if not readers
            else onnx.ValueInfoProto(name="y")
        ],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    inferred = onnx.shape_inference.infer_shapes(proto)
    return model_from_proto(inferred, "0" * 64, "model", None, "model.onnx")


def limits(most: int, overlap: float | None = None, score: float | None = None) -> dict[str, np.ndarray]:
    numbers = {"iou_threshold": overlap, "score_threshold": score}
    arrays = {name: np.array([number], np.float32) for name, number in numbers.items() if number is not None}
    return {"most": np.array([most], np.int64), **arrays}


def drawn(shape: tuple[int, int, int], seed: int, steps: int, *, by_center: bool = False) -> dict[str, np.ndarray]:
    """Boxes with corners in any order, and scores; both on a grid of so many steps, so that many are equal."""
    batches, _, count = shape
    numbers = np.random.default_rng(seed)
    boxes = numbers.integers(0, steps, (batches, count, 4)).astype(np.float32)
    boxes[..., 2:] -= by_center  # extents of 0 and below
    scores = numbers.integers(-1, steps, shape).astype(np.float32) / np.float32(steps)
    return {"boxes": boxes, "scores": scores}


def check(model: OnnxModel, feed: Arrays, evaluator: Evaluator = "onnxruntime") -> np.ndarray:
    found = run_program(to_program(import_onnx(model)), feed)["y"]
    wanted = evaluate_model(model, [feed], evaluator)[0]["y"]
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)
    return found


def without_rows_behind(model: OnnxModel, feed: Arrays) -> np.ndarray:
    """What ONNX Runtime itself returns."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model.proto.SerializeToString(), providers=["CPUExecutionProvider"])
    result: np.ndarray = session.run(None, dict(feed))[0]
    return result


@pytest.mark.long
@pytest.mark.parametrize("by_center", [0, 1])
@pytest.mark.parametrize("evaluator", ["onnxruntime", "onnx.reference"])
def test_selected_rows_come_first_and_minus_one_behind_them(evaluator: Evaluator, by_center: int) -> None:
    shape = (2, 3, 12)
    feed = drawn(shape, 0, 6, by_center=bool(by_center))
    model = model_of(shape, limits(5, 0.3, 0.2), by_center=by_center)
    found, selected = check(model, feed, evaluator), without_rows_behind(model, feed)
    assert found.shape == (2 * 3 * 5, 3)
    assert 0 < len(selected) < len(found)
    np.testing.assert_array_equal(found[: len(selected)], selected)
    assert (found[len(selected) :] == -1).all()


@pytest.mark.parametrize("most", [9, 2**40])
def test_there_are_no_more_rows_than_boxes(most: int) -> None:
    assert check(model_of((1, 2, 9), limits(most, 1.0)), drawn((1, 2, 9), 0, 8)).shape == (18, 3)


@pytest.mark.parametrize("constants", [{}, limits(0), limits(-3)])
def test_none_of_a_class_are_none(constants: Arrays) -> None:
    model = model_of((1, 1, 4), constants)
    assert to_program(import_onnx(model)).outputs[0].shape == (0, 3)
    assert evaluate_model(model, [drawn((1, 1, 4), 0, 9)])[0]["y"].shape == (0, 3)


def test_a_limit_at_run_time_is_refused() -> None:
    model = model_of((1, 1, 4), limits(2))
    del model.proto.graph.initializer[:]
    model.proto.graph.input.append(helper.make_tensor_value_info("most", TensorProto.INT64, [1]))
    with pytest.raises(UnsupportedOperator, match=r"node 'selection' of model\).*max_output_boxes_per_class.*constant"):
        import_onnx(model)


@pytest.mark.long
@pytest.mark.parametrize("scalar", [False, True])
@pytest.mark.parametrize("overlap", [0.0, 0.4])
def test_thresholds_at_run_time(overlap: float, scalar: bool) -> None:
    shape = (1, 2, 10)
    given = {"iou_threshold": overlap, "score_threshold": 0.5}
    thresholds = {name: np.full(() if scalar else (1,), value, np.float32) for name, value in given.items()}
    model = model_of(shape, limits(4), thresholds)
    check(model, {**drawn(shape, 1, 5), **thresholds})


def test_equal_scores_keep_the_order_of_the_boxes_and_zeros_of_both_signs_are_equal() -> None:
    boxes = np.zeros((1, 8, 4), np.float32) + np.arange(8, dtype=np.float32)[:, None] * 2
    boxes[..., 2:] += 1
    scores = np.array([[[0.0, -0.0, 1, -0.0, 1, 0.0, 1, -1]]], np.float32)
    found = check(model_of((1, 1, 8), limits(8)), {"boxes": boxes, "scores": scores})
    assert found[:, 2].tolist() == [2, 4, 6, 0, 1, 3, 5, 7]


@pytest.mark.long
@costly(15)
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 14)),
    st.integers(1, 16),
    st.sampled_from([None, 0.0, 0.25, 1 / 3, 0.5, 1.0]),
    st.sampled_from([None, -1.0, 0.0, 0.5, 2.0]),
    st.integers(2, 60),
    st.booleans(),
    st.sampled_from([10, 11, 18]),
    st.integers(0, 2**32 - 1),
)
def test_every_form_selects_what_onnx_runtime_does(
    shape: tuple[int, int, int],
    most: int,
    overlap: float | None,
    score: float | None,
    steps: int,
    by_center: bool,
    opset: int,
    seed: int,
) -> None:
    model = model_of(shape, limits(most, overlap, score), opset=opset, by_center=int(by_center))
    check(model, drawn(shape, seed, steps, by_center=by_center))


@pytest.mark.long
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_box_that_is_not_finite_is_selected_as_by_onnx_runtime(value: float) -> None:
    shape = (1, 2, 16)
    feed = drawn(shape, 3, 9)
    feed["boxes"].reshape(-1)[::5] = value
    check(model_of(shape, limits(16, 0.1, 0.0)), feed)
    feed["scores"].reshape(-1)[::3] = value  # a score that is NaN is above no threshold
    check(model_of(shape, limits(16, 0.1, 0.0)), feed)


def test_a_score_that_is_nan_comes_first_where_there_is_no_threshold() -> None:
    """ONNX Runtime's own order is undefined then."""
    boxes = np.arange(6, dtype=np.float32).reshape(1, 6, 1) * 2 + np.array([0, 0, 1, 1], np.float32)
    scores = np.array([[[0, np.nan, 2, np.inf, np.nan, -1]]], np.float32)
    found = run_program(to_program(import_onnx(model_of((1, 1, 6), limits(6)))), {"boxes": boxes, "scores": scores})
    assert found["y"][:, 2].tolist() == [1, 4, 3, 2, 0, 5]


@pytest.mark.long
@pytest.mark.parametrize("order", ["random", "ascending", "descending", "equal"])
def test_n_boxes_of_which_k_are_kept_take_n_log_n_and_n_k_comparisons(order: str) -> None:
    count, most = 1000, 20
    numbers, places = np.random.default_rng(0), np.arange(count)
    orders = {"random": numbers.permutation(count), "descending": -places, "equal": places * 0}
    scores = orders.get(order, places).astype(np.float32).reshape(1, 1, count)
    corners = numbers.random((1, count, 2), np.float32)
    boxes = np.concatenate([corners, corners + np.float32(0.5)], axis=-1)
    function = non_max_suppression((1, 1, count), most)
    arguments = [boxes, scores, np.array([0.1], np.float32), np.full(1, -1e9, np.float32)]
    pairs = counted(function, stores_to("overlaps"), arguments)  # once more for each candidate
    assert count < pairs <= count * (most + 1)
    of_boxes = 7 * pairs
    assert counted(function, comparisons, arguments) - of_boxes <= 4 * count * log2(count)


def test_boxes_behind_the_last_that_is_kept_are_not_looked_at() -> None:
    count, most = 1000, 20
    boxes = np.arange(count, dtype=np.float32).reshape(1, count, 1) * 2 + np.array([0, 0, 1, 1], np.float32)
    scores = np.random.default_rng(0).random((1, 1, count), np.float32)
    arguments = [boxes, scores, np.zeros(1, np.float32), np.zeros(1, np.float32)]
    function = non_max_suppression((1, 1, count), most)
    assert counted(function, stores_to("overlaps"), arguments) == most + most * (most - 1) // 2


def numbers_of(name: str, *values: int) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(values, np.int64)))


READERS: dict[str, Callable[[], tuple[onnx.NodeProto, ...]]] = {
    "identity": lambda: (helper.make_node("Identity", ["selected"], ["y"]),),
    "float": lambda: (helper.make_node("Cast", ["selected"], ["y"], to=TensorProto.FLOAT),),
    "int32 column": lambda: (
        helper.make_node("Constant", [], ["two"], value=numpy_helper.from_array(np.array(2))),
        helper.make_node("Gather", ["selected", "two"], ["column"], axis=1),
        helper.make_node("Cast", ["column"], ["y"], to=TensorProto.INT32),
    ),
    "columns in another order": lambda: (
        numbers_of("order", 2, 0),
        helper.make_node("Gather", ["selected", "order"], ["y"], axis=-1),
    ),
    "slice": lambda: (
        *(numbers_of("starts", 0, 1), numbers_of("ends", 2**63 - 1, 3), numbers_of("axes", 0, 1)),
        helper.make_node("Slice", ["selected", "starts", "ends", "axes"], ["y"]),
    ),
    "split and squeeze": lambda: (
        numbers_of("axis", 1),
        helper.make_node("Split", ["selected"], ["a", "b", "c"], axis=1),
        helper.make_node("Squeeze", ["c", "axis"], ["y"]),
    ),
    "unsqueeze": lambda: (
        numbers_of("axis", 1),
        helper.make_node("Unsqueeze", ["selected", "axis"], ["y"]),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("reader", READERS)
def test_nodes_whose_rows_come_from_one_row_may_read_a_selection(reader: str) -> None:
    shape = (1, 2, 9)
    found = check(model_of(shape, limits(9, 0.0, 0.1), readers=READERS[reader]()), drawn(shape, 2, 6))
    assert len(found) == 18
    assert (found[-1] == -1).all()


REFUSED: dict[str, Callable[[], tuple[onnx.NodeProto, ...]]] = {
    "Shape": lambda: (helper.make_node("Shape", ["selected"], ["y"]),),
    "ReduceSum": lambda: (helper.make_node("ReduceSum", ["selected"], ["y"], keepdims=0),),
    "Cast": lambda: (helper.make_node("Cast", ["selected"], ["y"], to=TensorProto.UINT8),),
    "GatherND": lambda: (helper.make_node("GatherND", ["scores", "selected"], ["y"]),),
    "Slice": lambda: (
        *(numbers_of("starts", 1), numbers_of("ends", 2**63 - 1), numbers_of("axes", 0)),
        helper.make_node("Slice", ["selected", "starts", "ends", "axes"], ["y"]),
    ),
    "Gather": lambda: (
        *(numbers_of("row", 0), numbers_of("column", 2)),
        helper.make_node("Gather", ["selected", "column"], ["boxes_of"], axis=1),
        helper.make_node("Gather", ["boxes_of", "row"], ["y"], axis=0),
    ),
    "Add": lambda: (helper.make_node("Add", ["selected", "selected"], ["y"]),),
}


@pytest.mark.parametrize("reader", REFUSED)
def test_a_node_that_would_take_rows_behind_for_boxes_is_refused(reader: str) -> None:
    model = model_of((1, 2, 9), limits(4), readers=REFUSED[reader]())
    with pytest.raises(UnsupportedOperator, match=rf"operator {reader} .*reads what operator NonMaxSuppression \(node"):
        import_onnx(model)


def test_a_selection_in_a_function_of_the_model_is_one() -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "own": 1]>
        main (float[1, 9, 4] boxes, float[1, 2, 9] scores) => (int64[n] y) <int64 column = {2}> {
          selected = own.select (boxes, scores)
          y = Gather <axis = 1> (selected, column)
        }
        <domain: "own", opset_import: ["": 17]> select (b, s) => (selected) {
          most = Constant <value_ints = [4]> ()
          threshold = Constant <value_floats = [0.7]> ()
          selected = NonMaxSuppression (b, s, most, threshold, threshold)
        }"""
    )
    model = model_from_proto(proto, "0" * 64, "model", None, "model.onnx")
    program = to_program(import_onnx(model))
    assert program.outputs[0].selection
    assert -1 in check(model, drawn((1, 2, 9), 4, 5))


@pytest.mark.parametrize("taken", ["edgetune.selection.y", "selection_0_0_result", "selection_0_0_shape"])
@pytest.mark.parametrize("in_function", [False, True])
def test_the_rows_behind_have_names_that_no_tensor_of_the_model_has(taken: str, *, in_function: bool) -> None:
    nodes = [
        helper.make_node("Identity", ["boxes"], [taken]),
        helper.make_node("NonMaxSuppression", [taken, "scores", "most"], ["y"]),
    ]
    opsets, inputs = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)], ["boxes", "scores", "most"]
    functions = [helper.make_function("local", "Select", inputs, ["y"], nodes, opsets[:1])] if in_function else []
    shapes = {"boxes": [1, 4, 4], "scores": [1, 1, 4]}
    graph = helper.make_graph(
        [helper.make_node("Select", inputs, ["y"], domain="local")] if in_function else nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info("y", TensorProto.INT64, None)],
        [numpy_helper.from_array(np.array([2]), "most")],
    )
    proto = helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=8)
    feed = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    (found,) = evaluate_model(OnnxModel(proto, 17, "0" * 64, "m"), [feed], "onnxruntime")
    assert found["y"].shape == (2, 3)
