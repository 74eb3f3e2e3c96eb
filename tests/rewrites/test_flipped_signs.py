"""Flipped signs: the same sums by products of bytes with the signs that the instructions of a core want."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import model_from_proto
from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.partition import to_program
from edgetune.graph.program import Program
from edgetune.pipeline.select import choose
from edgetune.rewrites.flipped_signs import with_flipped_signs
from edgetune.rewrites.program import for_target
from edgetune.schedule.algorithms.schedule_text import algorithm_of
from edgetune.schedule.sketches.block_analysis import analyse_blocks
from edgetune.schedule.sketches.spaces import core_of
from edgetune.target.dot_product import DotProduct
from edgetune.target.target import Target, load_target
from tests.codegen_run import wide_target

UNSIGNED_BY_SIGNED = DotProduct(elements=4, signs="us")


def quantised(operator: str, data: str, channels: int, *, biased: bool = False) -> Program:
    """A product of 8-bit integers, whose sums, maybe with a bias, are the results; that of images has a border."""
    shapes = (
        ((1, channels, 6, 8), (96, channels, 3, 3)) if operator == "ConvInteger" else ((48, channels), (channels, 96))
    )
    generator = np.random.default_rng(channels)
    stored = {
        "w": generator.integers(-128, 128, shapes[1]).astype("int8"),
        "xz": np.array(7, data),
        "wz": np.array(0, "int8"),
    }
    stored |= {"b": generator.integers(-9999, 9999, (96, 1, 1) if operator == "ConvInteger" else 96, "int32")}
    attributes = {"pads": [1, 1, 1, 1]} if operator == "ConvInteger" else {}
    nodes = [helper.make_node(operator, ["x", "w", "xz", "wz"], ["sums" if biased else "y"], **attributes)]
    nodes += [helper.make_node("Add", ["sums", "b"], ["y"])] if biased else []
    kind = TensorProto.INT8 if data == "int8" else TensorProto.UINT8
    ends = [
        helper.make_tensor_value_info("x", kind, shapes[0]),
        helper.make_tensor_value_info("y", TensorProto.INT32, None),
    ]
    initializers = [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()]
    graph = helper.make_graph(nodes, "sums", ends[:1], ends[1:], initializers)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return to_program(import_onnx(model_from_proto(proto, "0" * 64, "model", None, "model.onnx")))


def core(dot: DotProduct | None) -> Target:
    """A core with vectors of 512 bits."""
    return wide_target(512).model_copy(update={"dot": dot})


@pytest.mark.parametrize("operator", ["ConvInteger", "MatMulInteger"])
@pytest.mark.parametrize("channels", [64, 67])
@pytest.mark.parametrize("data", ["int8", "uint8"])
@pytest.mark.parametrize("biased", [False, True])
def test_data_gets_the_sign_that_an_instruction_wants(biased: bool, data: str, operator: str, channels: int) -> None:
    program = quantised(operator, data, channels, biased=biased)
    target = core(UNSIGNED_BY_SIGNED) if data == "int8" else load_target("rpi5")
    made = for_target(program, target)
    algorithms = [algorithm_of(one.trace) for one in choose(made, target, None, lambda _: None)]
    assert ("dot_uint8_4" if data == "int8" else "dot_int8_4") in algorithms
    limits = np.iinfo(data)
    values = [limits.min, limits.min + 127, limits.min + 128, limits.max]
    x = np.random.default_rng(1).choice(values, program.inputs[0].shape).astype(data)
    (found,), (wanted,) = evaluate_program(made, [{"x": x}]), evaluate_program(program, [{"x": x}])
    np.testing.assert_array_equal(found["y"], wanted["y"])
    assert made.constant_bytes == program.constant_bytes  # in place of the share of the data's zero point


@pytest.mark.parametrize(
    ("data", "dot"), [("uint8", UNSIGNED_BY_SIGNED), ("int8", DotProduct(elements=4)), ("int8", None)]
)
def test_other_products_stay(data: str, dot: DotProduct | None) -> None:
    program = quantised("MatMulInteger", data, 64)
    made = for_target(program, core(dot))
    assert [kernel.workload for kernel in made.kernels] == [kernel.workload for kernel in program.kernels]


def test_a_sum_that_is_needed_elsewhere_stays() -> None:
    kernel = next(one for one in quantised("MatMulInteger", "int8", 64).kernels if one.macs)
    analysis = analyse_blocks(kernel.function)
    assert analysis is not None
    sums = analysis.reductions[0].block.writes[0].source
    stages, constants = list(analysis.stages), [*analysis.packed(), kernel.function.params[2]]
    dot = core_of(kernel.function, core(UNSIGNED_BY_SIGNED))
    for needed, kept in (([], False), ([sums], True)):
        _, made = with_flipped_signs(stages, constants, needed, dot)
        assert (stages[-1] in made) == kept
