"""Costs without graph passes: the multiply-adds of the program, and memory that its plan hardly undercuts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import model_from_proto, read_onnx
from edgetune.graph.memory.plan import plan
from edgetune.graph.module_costs import ModuleCosts, costs_of
from edgetune.graph.partition import to_program

MODELS = Path(__file__).parents[2] / "examples" / "models"


@pytest.mark.long
@pytest.mark.parametrize("name", ["ds_cnn", "resnet8", "ad_ae", "vww"])
def test_real_models_cost_what_their_programs_do(name: str) -> None:
    imported = import_onnx(read_onnx(MODELS / f"{name}.onnx"))
    costs, program = costs_of(imported), to_program(imported)
    assert costs.macs == sum(program.kernels[call.kernel].macs for call in program.calls)
    assert costs.live_bytes <= plan(program, {}).arena_bytes <= 1.25 * costs.live_bytes
    assert costs.shared_bytes <= plan(program.with_io("arena"), {}).arena_bytes <= 1.25 * costs.shared_bytes


def costs(text: str, **weights: np.ndarray) -> ModuleCosts:
    proto = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> {text}')
    proto.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())
    return costs_of(import_onnx(model_from_proto(proto, "0" * 64, "m", None, "m.onnx")))


def test_a_chain_of_elementwise_operators_is_one_tensor() -> None:
    found = costs(
        "g (float[1, 4] x) => (float[1, 2] y) { a = MatMul (x, w) b = Relu (a) c = Tanh (b) d = Sigmoid (c)"
        " y = MatMul (d, v) }",
        w=np.ones((4, 100), np.float32),
        v=np.ones((100, 2), np.float32),
    )
    assert (found.macs, found.live_bytes) == (600, 400)


def test_what_is_read_twice_stays() -> None:
    found = costs(
        "g (float[1, 4] x) => (float[1, 2] y) { a = MatMul (x, w) b = Relu (a) c = MatMul (b, u) d = Add (c, a)"
        " y = MatMul (d, v) }",
        w=np.ones((4, 100), np.float32),
        u=np.ones((100, 100), np.float32),
        v=np.ones((100, 2), np.float32),
    )
    assert found.live_bytes == 1200  # a, its Relu, and the product that d takes the place of


def test_inputs_and_outputs_among_the_others_are_there_from_the_start_and_to_the_end() -> None:
    found = costs(
        "g (float[1, 100] x, float[1, 50] b) => (float[1, 100] y, float[1, 50] z) {"
        " a = MatMul (x, w) y = Relu (a) c = MatMul (y, v) z = Add (c, b) }",
        w=np.ones((100, 100), np.float32),
        v=np.ones((100, 50), np.float32),
    )
    assert (found.live_bytes, found.shared_bytes) == (0, 400 + 200 + 400)  # x, b and y; then y, b and z


def test_an_input_is_not_smaller_than_it_is() -> None:
    found = costs(
        "g (float[1, 100] x) => (int8[1, 100] y) <float s = {0.1}, int8 z = {0}> {"
        " a = Relu (x) y = QuantizeLinear (a, s, z) }"
    )
    assert (found.live_bytes, found.shared_bytes) == (0, 400 + 100)


def test_floats_between_quantised_layers_are_computed_and_not_kept() -> None:
    found = costs(
        "g (float[1, 4] x) => (float[1, 2] y) <float s = {0.1}, int8 z = {0}> {"
        " a = MatMul (x, w) q = QuantizeLinear (a, s, z) d = DequantizeLinear (q, s, z) y = MatMul (d, v) }",
        w=np.ones((4, 100), np.float32),
        v=np.ones((100, 2), np.float32),
    )
    assert found.live_bytes == 100


def test_what_depends_on_no_input_costs_nothing() -> None:
    weights = np.ones((4, 100), np.int8)
    found = costs(
        "g (float[1, 4] x) => (float[1, 100] y) <float s = {0.1}, int8 z = {0}> {"
        " d = DequantizeLinear (w, s, z) y = MatMul (x, d) }",
        w=weights,
    )
    assert (found.macs, found.live_bytes, found.calls) == (400, 0, 1)


def test_a_row_that_is_picked_has_a_kernel() -> None:
    found = costs("g (float[2, 3, 4] x) => (float[2, 4] y) <int64 one = {1}> { y = Gather <axis = 1> (x, one) }")
    assert (found.macs, found.live_bytes, found.calls) == (0, 0, 1)
