"""ArgMax and ArgMin along an axis that others follow: places of extremes, the first of equal ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from edgetune.codegen import emit_kernel
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import model_from_proto
from edgetune.graph.partition import to_program
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from tests.codegen_run import compile_strictly, wide_target
from tests.interpreter import run_program


@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize(("shape", "axis", "keep"), [((1, 5, 4, 3), 1, 1), ((3, 20), 0, 0), ((2, 9), -1, 1)])
def test_the_first_of_equal_extremes_counts(operator: str, shape: tuple[int, ...], axis: int, keep: int) -> None:
    node = helper.make_node(operator, ["x"], ["y"], axis=axis, keepdims=keep)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.INT64, None)
    proto = helper.make_model(
        helper.make_graph([node], "g", [x], [y]), opset_imports=[helper.make_opsetid("", 13)], ir_version=8
    )
    feed = np.random.default_rng(0).integers(-2, 3, shape).astype(np.float32)
    feed[..., 0] = -np.inf if operator == "ArgMax" else np.inf  # all of one result where the axis is not the last
    program = to_program(import_onnx(model_from_proto(proto, "0" * 64, "model", None, "model.onnx")))
    found = run_program(program, {"x": feed})["y"]
    expected = (np.argmax if operator == "ArgMax" else np.argmin)(feed, axis=axis, keepdims=bool(keep))
    np.testing.assert_array_equal(found, expected)


def test_a_choice_between_lanes_takes_the_comparison_as_it_is(tmp_path: Path) -> None:
    """The truth of each lane became an integer of 64 bits that was compared with zero: three times as long."""
    nodes = [helper.make_node("Greater", ["x", "z"], ["c"]), helper.make_node("Where", ["c", "x", "z"], ["y"])]
    x, y, z = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [40, 77]) for name in "xyz")
    proto = helper.make_model(
        helper.make_graph(nodes, "g", [x, z], [y]), opset_imports=[helper.make_opsetid("", 13)], ir_version=8
    )
    program = to_program(import_onnx(model_from_proto(proto, "0" * 64, "model", None, "model.onnx")))
    target = wide_target(256)
    function = program.kernels[0].function
    text, _ = default_schedule(function, target, 1 << 20, FORMS)
    source = emit_kernel(apply_schedule(function, text).module, target, "k")
    assert "mask" in source.definition
    assert "64" not in source.definition
    compile_strictly(source, target, tmp_path, "gcc")
