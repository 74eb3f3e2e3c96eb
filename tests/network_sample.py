"""Small networks made node by node, and what must be the same of them with tensors in parts and without."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune.backends.c_kernels import written_over_at_best
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import OnnxModel, model_from_proto
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.frontend.onnx.sample_inputs import sample_inputs
from edgetune.graph import partition
from edgetune.graph.memory.live_ranges import live_bytes
from edgetune.graph.memory.plan import plan
from edgetune.graph.partition import to_program
from edgetune.graph.program import Program
from edgetune.target.target import load_target
from tests.conformance.native import compile_unit, emit_unit, execute
from tests.interpreter import run_program

HEIGHT, WIDTH = 5, 6


class Network:
    """Nodes, one after the other; tensors are called t0, t1 and so on, t0 is the input."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = list(shape)
        self.channels = [shape[1]]
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.generator = np.random.default_rng(3)

    def add(self, operator: str, inputs: Sequence[str], channels: int, **attributes: object) -> int:
        """A node, and the number of its result."""
        number = len(self.channels)
        self.nodes.append(helper.make_node(operator, list(inputs), [f"t{number}"], **attributes))
        self.channels.append(channels)
        return number

    def constant(self, *shape: int) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = (self.generator.standard_normal(shape) * 0.4).astype("f4")
        return name

    def integers(self, *values: int) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.array(values, "i8")
        return name

    def conv(self, source: int, channels: int, window: int = 1) -> int:
        weights = self.constant(channels, self.channels[source], window, window)
        return self.add("Conv", [f"t{source}", weights], channels, pads=[window // 2] * 4)

    def relu(self, source: int) -> int:
        return self.add("Relu", [f"t{source}"], self.channels[source])

    def concat(self, *sources: int) -> int:
        return self.add("Concat", [f"t{s}" for s in sources], sum(self.channels[s] for s in sources), axis=1)

    def model(self, *outputs: int) -> OnnxModel:
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info("t0", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(f"t{n}", TensorProto.FLOAT, None) for n in outputs],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return model_from_proto(proto, "0" * 64, "model", None, "model.onnx")


def network(channels: int = 8) -> Network:
    return Network((1, channels, HEIGHT, WIDTH))


def peak_first(net: Network) -> int:
    """A tensor behind layers that need more memory than anything later."""
    return net.relu(net.conv(net.relu(net.conv(net.relu(net.conv(0, 90)), 90)), 8))


def copies(program: Program) -> int:
    """Calls that do nothing but copy."""
    return sum(program.kernels[call.kernel].sources in {("concatenate",), ("copy",)} for call in program.calls)


def unchanged(model: OnnxModel) -> Program:
    """The program with all its concatenations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition, "without_copies", lambda program: program)
        return to_program(import_onnx(model))


def assert_same(model: OnnxModel) -> Program:
    program, plain = to_program(import_onnx(model)), unchanged(model)
    feed = sample_inputs(model, program.inputs, 1, seed=5)[0]
    expected = evaluate_model(model, [feed])[0]
    for name, value in run_program(program, feed).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-4, err_msg=name)
    assert max(live_bytes(program), default=0) <= max(live_bytes(plain), default=0)
    assert plan(program, {}).arena_bytes <= plan(plain, {}).arena_bytes
    host = load_target("host")
    packaged, before = (plan(each, {}, written_over_at_best(each, host)).arena_bytes for each in (program, plain))
    assert packaged <= before
    return program


def assert_same_in_c(model: OnnxModel, folder: Path, target_name: str = "host") -> Program:
    program, target = to_program(import_onnx(model)), load_target(target_name)
    feed = sample_inputs(model, program.inputs, 1, seed=5)[0]
    unit = emit_unit(program, target)
    outputs = execute(compile_unit(unit, target, folder), program, unit, feed)
    expected = evaluate_model(model, [feed])[0]
    for spec, output in zip(program.outputs, outputs, strict=True):
        wanted = expected[spec.name]
        np.testing.assert_allclose(output.view("f4").reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-4)
    return program
