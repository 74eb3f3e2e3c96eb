"""Constant channels: they are left out only where no input changes them, and results are the same without them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import model_from_proto
from edgetune.graph import channel_ranges
from edgetune.graph.channel_ranges import Ranges
from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.partition import to_program
from edgetune.graph.program import Program
from edgetune.graph.ways import Ways
from edgetune.pipeline.model_formats import read_model
from tests.examples import costly

_TINY = Path(__file__).resolve().parents[3] / "shared" / "models" / "mlperf_tiny"
_EXTENT = 5


class _Network:
    """A chain of quantised convolutions in ONNX's operators: biases are so large that many channels are constant."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def constant(self, value: object) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def op(self, operator: str, *inputs: str, **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=f"n{name}", **attributes))
        return name

    def quantised(self, x: str, zero: int) -> str:
        numbers = self.constant(np.float32(0.05)), self.constant(np.int8(zero))
        return self.op("DequantizeLinear", self.op("QuantizeLinear", x, *numbers), *numbers)

    def layer(self, x: str, given: int, made: int, window: int, *, own: bool, padded: bool, zero: int) -> str:
        """A convolution of its own channels or of all, whose results are one number for many channels."""
        shape = (made, 1 if own else given, window, window)
        weights = self.random.integers(-90, 90, shape).astype("int8")
        scale = np.float32(0.01)
        taps = self.op("DequantizeLinear", self.constant(weights), self.constant(scale), self.constant(np.int8(0)))
        bias = self.random.choice([0.0, -400.0, 400.0, -8.0, 8.0], made, p=[0.3, 0.3, 0.2, 0.1, 0.1])
        pads = {"pads": [window // 2] * 4} if padded else {}
        y = self.op("Conv", x, taps, self.constant(bias.astype("float32")), group=given if own else 1, **pads)
        return self.quantised(self.op("Relu", y), zero)

    def program(self, *results: str, keeps: bool) -> Program:
        ends = [
            helper.make_tensor_value_info("x", TensorProto.INT8, [1, 3, _EXTENT, _EXTENT]),
            *(helper.make_tensor_value_info(result, TensorProto.FLOAT, None) for result in results),
        ]
        stored = [numpy_helper.from_array(value, name) for name, value in self.constants.items()]
        graph = helper.make_graph(self.nodes, "constant", ends[:1], ends[1:], stored)
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        model = model_from_proto(proto, "0" * 64, "model", None, "model.onnx")
        return to_program(import_onnx(model), ways=Ways(keeps_channels=keeps))


def _network(seed: int, channels: int, *, padded: bool, zero: int) -> tuple[_Network, str]:
    g = _Network(seed)
    x = g.op("DequantizeLinear", "x", g.constant(np.float32(0.1)), g.constant(np.int8(3)))
    x = g.layer(x, 3, channels, 3, own=False, padded=padded, zero=zero)
    x = g.layer(x, channels, channels, 3, own=True, padded=True, zero=zero)
    x = g.layer(x, channels, 2 * channels, 1, own=False, padded=False, zero=zero)
    return g, g.layer(x, 2 * channels, 4, 3, own=False, padded=padded, zero=-128)


def _feeds(seed: int, shape: tuple[int, ...], count: int) -> list[np.ndarray]:
    """Random inputs, and inputs of the ends of the range alone: all of one end, and each element at one."""
    random = np.random.default_rng(seed)
    corners = [np.full(shape, end, "int8") for end in (-128, 127)]
    ends = [random.choice([-128, 127], shape).astype("int8") for _ in range(count // 2)]
    return [*corners, *ends, *(random.integers(-128, 128, shape).astype("int8") for _ in range(count - len(ends)))]


def _macs(program: Program) -> int:
    return sum(program.kernels[call.kernel].macs for call in program.calls)


@costly(6)
@given(st.integers(0, 10_000), st.sampled_from([16, 24, 37]), st.booleans(), st.sampled_from([-128, 0, 60]))
def test_results_without_constant_channels_are_the_same(seed: int, channels: int, padded: bool, zero: int) -> None:
    g, y = _network(seed, channels, padded=padded, zero=zero)
    without, whole = g.program(y, keeps=False), g.program(y, keeps=True)
    assert not whole.constant_channels
    feeds = [{"x": one} for one in _feeds(seed, (1, 3, _EXTENT, _EXTENT), 12)]
    for found, wanted in zip(evaluate_program(without, feeds), evaluate_program(whole, feeds), strict=True):
        np.testing.assert_array_equal(found[y], wanted[y])


def test_channels_that_no_input_changes_are_not_computed() -> None:
    g, y = _network(4, 64, padded=False, zero=-128)
    without, whole = g.program(y, keeps=False), g.program(y, keeps=True)
    assert without.constant_channels
    assert all(0 < one.channels_left_out < one.channels for one in without.constant_channels)
    assert _macs(without) < 0.9 * _macs(whole)


def test_numbers_of_a_layer_stay_in_its_code() -> None:
    """A zero point, or a limit, that is a tensor of one element takes a load for each result."""
    g, y = _network(4, 64, padded=False, zero=-128)
    without, whole = g.program(y, keeps=False), g.program(y, keeps=True)
    assert without.constant_channels
    most = max(len(kernel.function.params) for kernel in whole.kernels)
    assert all(len(kernel.function.params) <= most for kernel in without.kernels)
    assert not any(list(one.shape) == [1] for kernel in without.kernels for one in kernel.function.params)


def test_channels_that_the_model_returns_are_computed() -> None:
    g = _Network(4)
    x = g.op("DequantizeLinear", "x", g.constant(np.float32(0.1)), g.constant(np.int8(3)))
    middle = g.layer(x, 3, 32, 1, own=False, padded=False, zero=-128)
    last = g.layer(middle, 32, 32, 1, own=False, padded=False, zero=-128)
    end = g.layer(last, 32, 4, 1, own=False, padded=False, zero=-128)
    results = (middle, end)
    without, whole = g.program(*results, keeps=False), g.program(*results, keeps=True)
    assert [one.channels for one in without.constant_channels] == [32]
    feeds = [{"x": one} for one in _feeds(3, (1, 3, _EXTENT, _EXTENT), 6)]
    for found, wanted in zip(evaluate_program(without, feeds), evaluate_program(whole, feeds), strict=True):
        assert found[middle].shape == (1, 32, _EXTENT, _EXTENT)
        for name in results:
            np.testing.assert_array_equal(found[name], wanted[name])


@pytest.mark.parametrize("zero", [-128, 0])
def test_a_channel_that_a_relu_makes_zero_is_constant(zero: int) -> None:
    g = _Network(2)
    x = g.op("DequantizeLinear", "x", g.constant(np.float32(0.1)), g.constant(np.int8(3)))
    scale = g.constant(np.float32(0.01)), g.constant(np.int8(0))
    for made in (32, 4):
        weights = g.constant(g.random.integers(-90, 90, (made, 3 if made > 4 else 32, 1, 1)).astype("int8"))
        bias = g.constant(np.where(np.arange(made) < made - 8, -500.0, 1.0).astype("float32"))
        x = g.quantised(g.op("Relu", g.op("Conv", x, g.op("DequantizeLinear", weights, *scale), bias)), zero)
    assert [one.channels_left_out for one in g.program(x, keeps=False).constant_channels] == [24]


@pytest.mark.parametrize("side", ["low", "high"])
def test_a_range_that_is_one_too_narrow_is_caught(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seeded fault calls channels constant that differ by a step, and the comparison of this file sees it."""
    ranges_of = channel_ranges._of_products

    def narrower(*operands: object) -> Ranges | None:
        found = ranges_of(*operands)  # type: ignore[arg-type]
        if found is None:
            return None
        middle = np.floor((found.low + found.high) / 2)
        ends = {"low": np.minimum(found.low + 1, middle), "high": np.maximum(found.high - 1, middle)}
        return replace(found, **{side: ends[side]})

    g = _Network(1)
    x = g.op("DequantizeLinear", "x", g.constant(np.float32(1)), g.constant(np.int8(0)))
    taps = np.zeros((16, 3, 1, 1), "int8")
    taps[:, 0] = 1 if side == "high" else -1
    bias = np.where(np.arange(16) < 8, -126.0 if side == "high" else 253.0, 0).astype("float32")
    scale = g.constant(np.float32(1)), g.constant(np.int8(0))
    y = g.op("Conv", x, g.op("DequantizeLinear", g.constant(taps), *scale), g.constant(bias))
    y = g.op("DequantizeLinear", g.op("QuantizeLinear", g.op("Relu", y), *scale), *scale)
    last = np.ones((4, 16, 1, 1), "int8")
    y = g.op("Conv", y, g.op("DequantizeLinear", g.constant(last), *scale))
    feeds = [{"x": one} for one in _feeds(0, (1, 3, _EXTENT, _EXTENT), 4)]
    wanted = evaluate_program(g.program(y, keeps=True), feeds)
    right = evaluate_program(g.program(y, keeps=False), feeds)
    assert all(np.array_equal(one[y], other[y]) for one, other in zip(right, wanted, strict=True))
    monkeypatch.setattr(channel_ranges, "_of_products", narrower)
    wrong = evaluate_program(g.program(y, keeps=False), feeds)
    assert not all(np.array_equal(one[y], other[y]) for one, other in zip(wrong, wanted, strict=True))


@pytest.mark.long
def test_a_trained_model_needs_half_of_its_products() -> None:
    model = read_model(_TINY / "vww_int8.tflite")
    without, whole = model.program(), model.program(ways=Ways(keeps_channels=True))
    assert _macs(without) <= 0.55 * _macs(whole)
    assert without.constant_bytes <= 0.25 * whole.constant_bytes
    (spec,) = without.inputs
    feeds = [{spec.name: one} for one in _feeds(0, spec.shape, 198)]
    for found, wanted in zip(evaluate_program(without, feeds), evaluate_program(whole, feeds), strict=True):
        for name, right in wanted.items():
            np.testing.assert_array_equal(found[name], right)
