"""The kinds of quantised models in users' reports: networks of random weights, and what ONNX Runtime's quantiser makes.

The inputs of all are called "x", the outputs "y".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static


class FloatGraph:
    """A graph of float32 from `x` to `y`, made node by node; each method returns the name of what it makes."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(0)

    def constant(self, value: Any) -> str:
        name = f"k{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weights(self, *shape: int) -> str:
        return self.constant((self.random.standard_normal(shape) * 0.3).astype("float32"))

    def op(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        return self.ops(operator, *inputs, outputs=outputs, **attributes)[0]

    def ops(self, operator: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        number = len(self.nodes)
        made = [f"v{number}_{index}" for index in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), made, name=f"n{number}", **attributes))
        return made

    def linear(self, x: str, width: int, made: int) -> str:
        return self.op("Add", self.op("MatMul", x, self.weights(width, made)), self.weights(made))

    def conv(
        self, x: str, given: int, made: int, window: int = 3, stride: int = 1, group: int = 1, far: int = 1
    ) -> str:
        taps = self.random.standard_normal((made, given // group, window, window)) / (window * (given // group) ** 0.5)
        operands = [x, self.constant(taps.astype("float32")), self.weights(made)]
        sides: dict[str, Any] = {"pads": [far * (window - 1) // 2] * 4, "strides": [stride] * 2, "dilations": [far] * 2}
        return self.op("Conv", *operands, group=group, **sides)

    def model(self, result: str, given: list[int], made: list[int]) -> onnx.ModelProto:
        self.nodes.append(helper.make_node("Identity", [result], ["y"], name="last"))
        values = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", given), ("y", made))
        ]
        graph = helper.make_graph(self.nodes, "g", values[:1], values[1:], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def u_net() -> onnx.ModelProto:
    """An encoder, a dilated convolution, and a decoder with a transposed convolution and a skip connection."""
    g = FloatGraph()
    skip = g.op("Relu", g.conv("x", 3, 8))
    deep = g.op("Relu", g.conv(g.op("MaxPool", skip, kernel_shape=[2, 2], strides=[2, 2]), 8, 16))
    deep = g.op("Relu", g.conv(deep, 16, 16, far=2))
    wide = g.op("ConvTranspose", deep, g.weights(16, 8, 3, 3), g.weights(8), strides=[2, 2], pads=[1, 1, 0, 0])
    result = g.op("Relu", g.conv(g.op("Concat", wide, skip, axis=1), 16, 8))
    return g.model(g.op("Sigmoid", g.conv(result, 8, 4, 1)), [1, 3, 16, 16], [1, 4, 16, 16])


def detector() -> onnx.ModelProto:
    """SiLU, a split and joined backbone, a nearest resizing, a depthwise convolution, and boxes and classes in rows."""
    g = FloatGraph()

    def swish(x: str, given: int, made: int, window: int = 3, stride: int = 1, group: int = 1) -> str:
        x = g.conv(x, given, made, window, stride, group)
        return g.op("Mul", x, g.op("Sigmoid", x))

    first, second = g.ops("Split", swish("x", 3, 16, stride=2), outputs=2, axis=1)
    joined = g.op("Concat", first, g.op("Add", second, swish(second, 8, 8)), axis=1)
    pooled = g.op("MaxPool", joined, kernel_shape=[5, 5], pads=[2] * 4, strides=[1, 1])
    small = swish(g.op("Concat", joined, pooled, axis=1), 32, 16, stride=2)
    large = g.op("Resize", small, "", g.constant(np.array([1, 1, 2, 2], "float32")), mode="nearest")
    head = swish(g.op("Concat", large, joined, axis=1), 32, 16, 1)
    boxes = g.op("Reshape", g.conv(head, 16, 16, 1), g.constant(np.array([1, 4, 4, -1])))
    boxes = g.op("Softmax", g.op("Transpose", boxes, perm=[0, 2, 1, 3]), axis=1)
    places = g.constant(np.arange(4, dtype="float32").reshape(1, 4, 1, 1))
    boxes = g.op("Reshape", g.op("Conv", boxes, places), g.constant(np.array([1, 4, -1])))
    classes = g.op("Reshape", g.conv(swish(head, 16, 16, group=16), 16, 8, 1), g.constant(np.array([1, 8, -1])))
    return g.model(g.op("Concat", boxes, g.op("Sigmoid", classes), axis=1), [1, 3, 16, 16], [1, 12, 64])


def vision_transformer() -> onnx.ModelProto:
    """Patches, attention of 4 heads, GELU, the mean of all patches and a linear layer."""
    width, heads, g = 16, 4, FloatGraph()
    patches = g.op("Conv", "x", g.weights(width, 3, 4, 4), g.weights(width), strides=[4, 4])
    x = g.op("Transpose", g.op("Reshape", patches, g.constant(np.array([1, width, -1]))), perm=[0, 2, 1])

    def normalised(x: str) -> str:
        return g.op("LayerNormalization", x, g.weights(width), g.weights(width), axis=-1)

    n, shape = normalised(x), g.constant(np.array([0, 0, heads, width // heads]))
    orders = ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    query, key, value = (
        g.op("Transpose", g.op("Reshape", g.linear(n, width, width), shape), perm=order) for order in orders
    )
    scores = g.op("Softmax", g.op("Mul", g.op("MatMul", query, key), g.constant(np.float32(0.5))), axis=-1)
    mixed = g.op("Transpose", g.op("MatMul", scores, value), perm=[0, 2, 1, 3])
    x = g.op("Add", x, g.linear(g.op("Reshape", mixed, g.constant(np.array([0, 0, width]))), width, width))
    wide = g.linear(normalised(x), width, 2 * width)
    error = g.op("Erf", g.op("Div", wide, g.constant(np.float32(np.sqrt(2)))))
    half = g.op("Mul", g.op("Mul", wide, g.op("Add", error, g.constant(np.float32(1)))), g.constant(np.float32(0.5)))
    x = g.op("Add", x, g.linear(half, 2 * width, width))
    return g.model(g.linear(g.op("ReduceMean", x, axes=[1], keepdims=0), width, 10), [1, 3, 12, 12], [1, 10])


def temporal_network() -> onnx.ModelProto:
    """Dilated convolutions along time, and a transposed one."""
    g, x = FloatGraph(), "x"
    for given, made, far in ((8, 16, 1), (16, 16, 2)):
        operands = [x, g.weights(made, given, 3), g.weights(made)]
        x = g.op("Relu", g.op("Conv", *operands, pads=[2 * far, 0], dilations=[far]))
    x = g.op("ConvTranspose", x, g.weights(16, 8, 4), g.weights(8), strides=[2], pads=[1, 1])
    return g.model(x, [1, 8, 20], [1, 8, 40])


def unrolled_lstm() -> onnx.ModelProto:
    """The steps of an LSTM as products, sums and gates, as static quantisers need them."""
    hidden, g = 16, FloatGraph()
    state, cell = (g.constant(np.zeros((1, hidden), "float32")) for _ in range(2))
    given, again, bias = g.weights(12, 4 * hidden), g.weights(hidden, 4 * hidden), g.weights(4 * hidden)
    for x in g.ops("Split", "x", g.constant(np.array([1] * 3)), outputs=3, axis=0):
        sums = g.op("Add", g.op("Add", g.op("MatMul", x, given), g.op("MatMul", state, again)), bias)
        enter, leave, keep, new = g.ops("Split", sums, outputs=4, axis=1)
        kept = g.op("Mul", g.op("Sigmoid", keep), cell)
        cell = g.op("Add", kept, g.op("Mul", g.op("Sigmoid", enter), g.op("Tanh", new)))
        state = g.op("Mul", g.op("Sigmoid", leave), g.op("Tanh", cell))
    return g.model(g.linear(state, hidden, 5), [3, 12], [1, 5])


KINDS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "U-Net": u_net,
    "detector": detector,
    "vision transformer": vision_transformer,
    "temporal network": temporal_network,
    "unrolled LSTM": unrolled_lstm,
}
"""Networks of floats by kind."""

_FORMS: Mapping[str, Mapping[str, Any]] = {
    "qdq": {"quant_format": QuantFormat.QDQ},
    "qdq per channel": {"quant_format": QuantFormat.QDQ, "per_channel": True, "activation_type": QuantType.QInt8},
    "qdq of 16 bits": {"quant_format": QuantFormat.QDQ, "activation_type": QuantType.QInt16},
    "qdq of 4 bits": {
        "quant_format": QuantFormat.QDQ,
        "weight_type": QuantType.QInt4,
        "extra_options": {"UseQDQContribOps": True},
    },
    "operators": {"quant_format": QuantFormat.QOperator, "per_channel": True},
}


class _Samples(CalibrationDataReader):
    def __init__(self, proto: onnx.ModelProto) -> None:
        self.left: Iterator[Mapping[str, np.ndarray]] = iter([sample_feed(proto, case) for case in range(4)])

    def get_next(self) -> Mapping[str, np.ndarray] | None:
        return next(self.left, None)


def sample_feed(proto: onnx.ModelProto, case: int) -> dict[str, np.ndarray]:
    """Seeded inputs of a model."""
    shape = [dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim]
    return {"x": np.random.default_rng(case).standard_normal(shape).astype("float32")}


def quantised(path: Path, how: str) -> Path:
    """The model of `path`, quantised; "float" leaves it.

    Weights have seven bits: on a core without VNNI, ONNX Runtime's sums of eight-bit products saturate.
    """
    weights: dict[str, Any] = {"weight_type": QuantType.QInt8, "reduce_range": True}
    made = path.with_name(f"{how}.onnx")
    if how == "float":
        return path
    if how == "dynamic":
        quantize_dynamic(path, made, **weights)
    else:
        options: dict[str, Any] = {**weights, **_FORMS[how]}
        quantize_static(path, made, _Samples(onnx.load(path)), **options)
    return made
