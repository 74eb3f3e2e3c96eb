"""Loops are repeated while they are imported, and branches are chosen, where their shapes allow it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from edgetune.errors import ModelError
from edgetune.events import Event
from edgetune.frontend.onnx.format import LoadedOnnx
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.nested_graphs import unused_prefix
from edgetune.frontend.onnx.reader import OnnxModel, model_from_proto
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.graph.partition import to_program
from tests.interpreter import run_program

LOOP = """
<ir_version: 8, opset_import: ["": 17]>
main (float[2] x) => (float[2] y) <int64 n = {{3}}, bool holds = {{1}}> {{
  y = Loop (n, {condition}, x) <body = doubled (int64 i, bool going, float[2] v) => (bool on, float[2] w) {{
    on = Identity (going)
    w = Add (v, v)
  }}>
}}
"""


@pytest.mark.parametrize("condition", ["", "holds"])
def test_a_condition_that_is_left_out_is_true_in_the_body_too(condition: str) -> None:
    proto = onnx.parser.parse_model(LOOP.format(condition=condition))
    model = model_from_proto(proto, "0" * 64, "m", None, "m.onnx")
    result = run_program(to_program(import_onnx(model)), {"x": np.array([1, -2.5], "f4")})["y"]
    np.testing.assert_array_equal(result, np.array([8, -20], "f4"))


# A branch for each of two rates, as models of speech have them. With `place` 2 there are four frames, which stay an
# axis of their own: the operator does not fit them.
TWO_RATES = """
<ir_version: 8, opset_import: ["": 17]>
main (float[1, 4] x, int64 rate) => (float[1, 1, 3] y) <int64 fast = {{16}}> {{
  is_fast = Equal (rate, fast)
  y = If (is_fast) <
    then_branch = fast_branch () => (float[1, 1, 3] fast_y) {{
      fast_axis = Constant <value = int64[1] {{0}}> ()
      fast_x = Unsqueeze (x, fast_axis)
      fast_all, fast_y = {operator} <hidden_size = 3> (fast_x, w, r)
    }},
    else_branch = slow_branch () => (float[1, 1, 3] slow_y) {{
      slow_axis = Constant <value = int64[1] {{{place}}}> ()
      last = Constant <value = int64[1] {{2}}> ()
      one = Constant <value = int64 {{1}}> ()
      row = Unsqueeze (x, slow_axis)
      rows = Unsqueeze (row, last)
      extents = Shape (rows)
      frames = Gather (extents, one)
      single = Equal (frames, one)
      slow_x = If (single) <
        then_branch = squeezed () => (float[] narrow) {{ narrow = Squeeze (rows, last) }},
        else_branch = whole () => (float[] wide) {{ wide = Identity (rows) }}
      >
      slow_all, hidden = {operator} <hidden_size = 3> (slow_x, w, r)
      slow_y = Neg (hidden)
    }}
  >
}}
"""


SCAN = """
<ir_version: 8, opset_import: ["": 17]>
main (float[2,3] x) => (float[2] last, float[3,2] sums) <float[2] start = {{1, 2}}> {{
  last, sums = Scan <num_scan_inputs = 1, scan_input_axes = [{axis}], body = added
    (float[2] s, float[2] v) => (float[2] t, float[2] u) {{ t = Add (s, v) u = Identity (t) }}> (start, x)
}}
"""


def _of_two_rates(operator: str, gates: int, place: int) -> OnnxModel:
    proto = onnx.parser.parse_model(TWO_RATES.format(operator=operator, place=place))
    draw = np.random.default_rng(gates)
    for name, columns in (("w", 4), ("r", 3)):
        weights = draw.standard_normal((1, gates * 3, columns)).astype("f4")
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
    return model_from_proto(proto, "0" * 64, "m", None, "m.onnx")


@pytest.mark.parametrize(("operator", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("rate", [16, 8])
@pytest.mark.parametrize("place", [0, 2])
def test_a_branch_that_the_shapes_rule_out_is_never_taken(operator: str, gates: int, rate: int, place: int) -> None:
    model = _of_two_rates(operator, gates, place)
    feed = {"x": np.linspace(-1, 1, 4, dtype="f4").reshape(1, 4), "rate": np.array(rate)}
    result = run_program(to_program(import_onnx(model)), feed)["y"]
    np.testing.assert_allclose(result, evaluate_model(model, [feed])[0]["y"], rtol=1e-5, atol=1e-6)
    assert [sentence.partition(":")[0] for sentence in model.settled] == (
        ["the If that makes 'y' always takes its then branch"] if place else []
    )


def test_a_branch_that_is_never_taken_is_reported_with_its_reason() -> None:
    model, seen = _of_two_rates("LSTM", 4, 2), list[Event]()
    loaded = LoadedOnnx(model)
    loaded.reference_outputs(loaded.sample_inputs(loaded.inputs, 1, 0), loaded.program, seen.append)
    (message,) = [str(event.data["message"]) for event in seen if event.kind == "warning"]
    assert "operator LSTM (node 'slow_all') does not fit its inputs (First input tensor must have rank 3)" in message


def test_a_node_that_does_not_fit_its_inputs_is_refused_by_name() -> None:
    proto = onnx.parser.parse_model(
        """
        <ir_version: 8, opset_import: ["": 17]>
        main (float[2, 4] x, float[1, 12, 4] w, float[1, 12, 3] r) => (float[1, 1, 2, 3] y) <int64[2] axes = {0, 1}> {
          deep = Unsqueeze (x, axes)
          y, last = LSTM <hidden_size = 3> (deep, w, r)
        }
        """
    )
    with pytest.raises(ModelError, match="First input tensor must have rank 3"):
        import_onnx(model_from_proto(proto, "0" * 64, "m", None, "m.onnx"))


@pytest.mark.parametrize("axis", [1, -1])
def test_a_scanned_axis_may_count_from_the_end(axis: int) -> None:
    model = model_from_proto(onnx.parser.parse_model(SCAN.format(axis=axis)), "0" * 64, "m", None, "m.onnx")
    x = np.array([[1, 2, 3], [10, 20, 30]], "f4")
    results = run_program(to_program(import_onnx(model)), {"x": x})
    np.testing.assert_array_equal(results["last"], np.array([7, 62], "f4"))
    np.testing.assert_array_equal(results["sums"], np.array([[2, 12], [4, 32], [7, 62]], "f4"))


# Each Sigmoid is below -18, where ONNX Runtime gives 0.
NESTED_SIGMOIDS = """
<ir_version: 8, opset_import: ["": 17]>
main (float[2] x, bool c) => (float[2] y, float[2] z, float[2] w) <int64 n = {1}, bool on = {1}> {
  far = Neg (x)
  y = If (c) <
    then_branch = first () => (float[2] f) { s = Sigmoid (far)  f = Identity (s) },
    else_branch = second () => (float[2] g) { g = Sigmoid (x) }
  >
  z = Loop (n, on, far) <body = once (int64 i, bool going, float[2] v) => (bool still, float[2] r) {
    still = Identity (going)
    r = Sigmoid (v)
  }>
  rest, w = Scan (on, far) <num_scan_inputs = 1, body = each (bool b, float e) => (bool b2, float q) {
    b2 = Identity (b)
    q = Sigmoid (e)
  }>
}
"""


def test_the_reference_has_an_exact_sigmoid_in_nested_graphs() -> None:
    model = model_from_proto(onnx.parser.parse_model(NESTED_SIGMOIDS), "0" * 64, "m", None, "m.onnx")
    x = np.array([30, 40], "f4")
    (found,) = evaluate_model(model, [{"x": x, "c": np.array(True)}], "onnxruntime")
    for name in ("y", "z", "w"):
        np.testing.assert_allclose(found[name], np.exp(-x.astype("f8")), rtol=1e-6)


def test_names_of_a_model_are_not_those_of_its_exact_sigmoid() -> None:
    x = np.array([-1, 2], "f4")
    for taken in ("y/one", "y/wide", "sigmoid_0_0_one"):
        nodes = [
            onnx.helper.make_node("Sigmoid", ["x"], ["y"]),
            onnx.helper.make_node("Relu", ["x"], [taken]),
            onnx.helper.make_node("Add", ["y", taken], ["z"]),
        ]
        ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xz"]
        proto = onnx.helper.make_model(
            onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:]),
            opset_imports=[onnx.helper.make_opsetid("", 17)],
            ir_version=8,
        )
        model = model_from_proto(proto, "0" * 64, "m", None, "m.onnx")
        (found,) = evaluate_model(model, [{"x": x}], "onnxruntime")
        np.testing.assert_allclose(found["z"], 1 / (1 + np.exp(-x)) + np.maximum(x, 0), rtol=1e-6)


def test_the_names_of_a_model_are_collected_once_for_all_its_sigmoids(monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[str] = []

    def counted(proto: onnx.ModelProto, start: str) -> str:
        starts.append(start)
        return unused_prefix(proto, start)

    monkeypatch.setattr("edgetune.frontend.onnx.reference.unused_prefix", counted)
    model = model_from_proto(onnx.parser.parse_model(NESTED_SIGMOIDS), "0" * 64, "m", None, "m.onnx")
    evaluate_model(model, [], "onnxruntime")
    assert starts == ["sigmoid_"]
