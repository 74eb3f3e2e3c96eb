"""Writes models that are too large for a repository: MobileNetV2, the onnx package's light graphs, int8 versions.

The light graphs come with every weight 0.02, so their outputs are constant: a test on those proves nothing. Here they
get seeded weights of He's scale, and BatchNorm statistics measured layer by layer, so that outputs depend on inputs.

Each model NAME becomes NAME.onnx, and NAME.npz with three inputs and ONNX Runtime's outputs for them: i0_<input>,
o0_<output>, i1_... The int8 ones (NAME_int8, of any model here or in examples/models) are quantised after training:
QuantizeLinear and DequantizeLinear around every operator, asymmetric activations, weights per channel.

Usage: python examples/make_models.py FOLDER [mobilenet_v2 squeezenet resnet50 shufflenet densenet121 ds_cnn_int8 ...]
Needs: onnx, onnxruntime, numpy.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import ArrayLike
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process

HERE = Path(__file__).parent / "models"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
LIGHT_NAMES = ("squeezenet", "resnet50", "shufflenet", "densenet121")
SMALL_NAMES = ("ds_cnn", "vww", "resnet8", "ad_ae")
NAMES = ("mobilenet_v2", *LIGHT_NAMES, *(f"{name}_int8" for name in (*SMALL_NAMES, "mobilenet_v2")))

# MobileNetV2 (Sandler et al., 2018, table 2): expansion, channels, repeats, stride of the first.
BOTTLENECKS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
CALIBRATION_INPUTS = 8
GOLDENS = 3
EPSILON = 1e-3

Arrays = dict[str, np.ndarray]


class MobileNetV2:
    """The graph, node by node; batch 1, 224x224, opset 17, BatchNorm left in."""

    def __init__(self, random: np.random.Generator) -> None:
        self._random = random
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []

    def model(self) -> onnx.ModelProto:
        """The whole network; its BatchNorm statistics are still those of nothing."""
        tensor = self._unit("input", 3, 32, kernel=3, stride=2)
        channels = 32
        for expansion, out, repeats, first in BOTTLENECKS:
            for number in range(repeats):
                tensor = self._bottleneck(tensor, channels, out, expansion, first if number == 0 else 1)
                channels = out
        tensor = self._unit(tensor, channels, 1280)
        tensor = self._node("GlobalAveragePool", [tensor])
        tensor = self._node("Flatten", [tensor])
        weight = self._weight(self._random.standard_normal((1280, 1000)) * np.sqrt(1 / 1280))
        bias = self._weight(self._random.standard_normal(1000) * 0.1)
        self._nodes.append(helper.make_node("Gemm", [tensor, weight, bias], ["output"]))
        ends = [("input", [1, 3, 224, 224]), ("output", [1, 1000])]
        infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ends]
        graph = helper.make_graph(self._nodes, "mobilenet_v2", infos[:1], infos[1:], self._weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def _bottleneck(self, tensor: str, channels: int, out: int, expansion: int, stride: int) -> str:
        wide = channels * expansion
        inner = self._unit(tensor, channels, wide) if expansion > 1 else tensor
        inner = self._unit(inner, wide, wide, kernel=3, stride=stride, groups=wide)
        inner = self._unit(inner, wide, out, linear=True)
        return self._node("Add", [tensor, inner]) if stride == 1 and channels == out else inner

    def _unit(
        self, tensor: str, channels: int, out: int, *, kernel: int = 1, stride: int = 1, groups: int = 1,
        linear: bool = False,
    ) -> str:  # fmt: skip
        shape = (out, channels // groups, kernel, kernel)
        weight = self._weight(self._random.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:])))
        edge = kernel // 2
        words = {"kernel_shape": [kernel, kernel], "strides": [stride, stride], "pads": [edge] * 4, "group": groups}
        tensor = self._node("Conv", [tensor, weight], **words)
        statistics = [self._weight(values) for values in (np.ones(out), np.zeros(out), np.zeros(out), np.ones(out))]
        tensor = self._node("BatchNormalization", [tensor, *statistics], epsilon=EPSILON)
        return tensor if linear else self._node("Clip", [tensor, *self._zero_and_six()])

    def _zero_and_six(self) -> list[str]:
        if not any(weight.name == "six" for weight in self._weights):
            self._weights += [numpy_helper.from_array(np.float32(v), n) for n, v in (("zero", 0), ("six", 6))]
        return ["zero", "six"]

    def _weight(self, values: np.ndarray) -> str:
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def _node(self, kind: str, inputs: list[str], **attributes: object) -> str:
        name = f"t{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name


def light(name: str, random: np.random.Generator) -> onnx.ModelProto:
    """A light graph of the onnx package, its constant weights replaced by seeded ones."""
    model = onnx.load(LIGHT / f"light_{name}.onnx")
    model.ir_version = 8  # initializers need not be inputs
    graph = model.graph
    shapes = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    shapes |= {n.output[0]: numpy_helper.to_array(n.attribute[0].t) for n in graph.node if n.op_type == "Constant"}
    for node in [n for n in graph.node if n.op_type == "ConstantOfShape"]:
        extents = [int(extent) for extent in shapes[node.input[0]]]
        scale = np.sqrt(2 / np.prod(extents[1:])) if len(extents) > 1 else 0.1
        store(graph, node.output[0], random.standard_normal(extents) * scale)
        graph.node.remove(node)
    used = {name for node in graph.node for name in node.input}
    for initializer in [i for i in graph.initializer if i.name not in used]:
        graph.initializer.remove(initializer)
    known = {i.name for i in graph.initializer}
    for value in [i for i in graph.input if i.name in known or i.name not in used]:
        graph.input.remove(value)
    return model


def normalise(model: onnx.ModelProto, feed: Arrays, random: np.random.Generator) -> None:
    """Gives every BatchNorm the mean and variance that its input has for `feed`, first layers first."""
    graph = model.graph
    for node in [n for n in graph.node if n.op_type == "BatchNormalization"]:
        values = run(model, feed, [node.input[0]])[node.input[0]]
        axes = tuple(axis for axis in range(values.ndim) if axis != 1)
        channels = values.shape[1]
        store(graph, node.input[1], random.uniform(0.6, 1.2, channels))
        store(graph, node.input[2], random.normal(0, 0.1, channels))
        store(graph, node.input[3], np.mean(np.asarray(values), axis=axes))
        store(graph, node.input[4], np.var(np.asarray(values), axis=axes) + EPSILON)


def store(graph: onnx.GraphProto, name: str, values: ArrayLike) -> None:
    """Puts an initializer in the place of the one of that name, if there is one."""
    for old in [i for i in graph.initializer if i.name == name]:
        graph.initializer.remove(old)
    graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(values, np.float32), name))


def inputs(model: onnx.ModelProto, random: np.random.Generator, count: int) -> list[Arrays]:
    """Feeds of coarse patches and some noise: white noise alone looks the same to every network that pools."""
    shapes = {i.name: [d.dim_value or 1 for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    return [{name: picture(random, shape) for name, shape in shapes.items()} for _ in range(count)]


def picture(random: np.random.Generator, shape: list[int]) -> np.ndarray:
    """One input of unit scale."""
    noise = random.standard_normal(shape)
    if len(shape) <= len(("height", "width")):
        return noise.astype(np.float32)
    *lead, height, width = shape
    patch = max(height // 7, 1)
    coarse = random.standard_normal([*lead, -(-height // patch), -(-width // patch)])
    patches = np.kron(coarse, np.ones((patch, patch)))[..., :height, :width]
    return np.asarray(1.5 * patches + 0.3 * noise).astype(np.float32)


def run(model: onnx.ModelProto, feed: Arrays, wanted: list[str]) -> Arrays:
    """What ONNX Runtime computes for tensors of the graph, outputs or not."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.output[:]
    copy.graph.output.extend([helper.make_empty_tensor_value_info(name) for name in wanted])
    session = onnxruntime.InferenceSession(copy.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip(wanted, session.run(wanted, feed), strict=True))


class Calibration(quantization.CalibrationDataReader):
    """Feeds one after the other, as the quantiser asks for them."""

    def __init__(self, feeds: list[Arrays]) -> None:
        self._feeds: Iterator[Arrays] = iter(feeds)

    def get_next(self) -> Arrays | None:
        """The next feed, None after the last."""
        return next(self._feeds, None)


def quantised(model: onnx.ModelProto, random: np.random.Generator) -> onnx.ModelProto:
    """The int8 version of a model, calibrated on seeded inputs."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("float.onnx", "prepared.onnx", "int8.onnx")]
        onnx.save(model, paths[0])
        quant_pre_process(paths[0], paths[1], skip_symbolic_shape=True)
        quantization.quantize_static(
            paths[1],
            paths[2],
            Calibration(inputs(model, random, CALIBRATION_INPUTS)),
            quant_format=quantization.QuantFormat.QDQ,
            activation_type=quantization.QuantType.QInt8,
            weight_type=quantization.QuantType.QInt8,
            per_channel=True,
        )
        return onnx.load(paths[2])


def make(name: str, folder: Path) -> onnx.ModelProto:
    """The model of that name; a float model that an int8 one needs is taken from `folder` when it is there."""
    random = np.random.default_rng(sum(map(ord, name)))
    if name.endswith("_int8"):
        base = name.removesuffix("_int8")
        found = [path for path in (HERE / f"{base}.onnx", folder / f"{base}.onnx") if path.is_file()]
        return quantised(onnx.load(found[0]) if found else make(base, folder), random)
    if name == "mobilenet_v2":
        model = MobileNetV2(random).model()
    elif name in LIGHT_NAMES:
        model = light(name, random)
    else:
        sys.exit(f"there is no model {name}: choose from {' '.join(NAMES)}")
    normalise(model, inputs(model, random, 1)[0], random)
    return model


def main() -> None:
    """Writes the models named on the command line, or all of them."""
    if not sys.argv[1:]:
        sys.exit((__doc__ or "").strip())
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or NAMES:
        model = make(name, folder)
        onnx.checker.check_model(model)
        outputs = [output.name for output in model.graph.output]
        feeds = inputs(model, np.random.default_rng(1), GOLDENS)
        answers = [run(model, feed, outputs) for feed in feeds]
        onnx.save(model, folder / f"{name}.onnx")
        kept = {f"i{number}_{key}": value for number, feed in enumerate(feeds) for key, value in feed.items()}
        kept |= {f"o{number}_{key}": value for number, found in enumerate(answers) for key, value in found.items()}
        np.savez(folder / f"{name}.npz", **kept)  # type: ignore[arg-type]  # arrays only
        first, second = (found[outputs[0]] for found in answers[:2])
        print(name, first.shape, "largest", np.abs(first).max(), "two inputs differ by", np.abs(first - second).max())


if __name__ == "__main__":
    main()
