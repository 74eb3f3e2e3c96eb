"""Writes an ONNX model as a LiteRT flatbuffer, channels last: the operators of small float32 image networks.

LiteRT brings no converter from ONNX; those that others offer want TensorFlow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.tools.flatbuffer_utils import convert_object_to_bytearray

from benchmarks.side import CannotLoad
from benchmarks.sides.folding import Step, clip_kind, folded_steps

_LAST = (0, 2, 3, 1)
_ACTIVATIONS = {"": 0, "relu": schema.ActivationFunctionType.RELU, "relu6": schema.ActivationFunctionType.RELU6}


def to_flatbuffer(model: onnx.ModelProto) -> bytes:
    """Bytes of a .tflite file with the tensor names of `model`; raises CannotLoad for what is not covered."""
    inferred = onnx.shape_inference.infer_shapes(model).graph
    shapes = {
        value.name: tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        for value in [*inferred.input, *inferred.value_info, *inferred.output]
    }
    writer = _Writer(shapes)
    constants = {i.name for i in inferred.initializer}
    inputs = [writer.value(i.name) for i in inferred.input if i.name not in constants]
    for step in folded_steps(inferred):
        writer.step(step)
    return writer.finish(inputs, [writer.value(o.name) for o in inferred.output])


class _Writer:
    def __init__(self, shapes: dict[str, tuple[int, ...]]) -> None:
        self._shapes = shapes
        self._indices: dict[str, int] = {}
        self._tensors: list[Any] = []
        self._buffers: list[Any] = [schema.BufferT()]  # the first is empty by the format's rule
        self._codes: dict[int, int] = {}
        self._operators: list[Any] = []

    def value(self, name: str) -> int:
        """Index of an activation."""
        if name not in self._indices:
            shape = self._shapes[name]
            last = tuple(shape[axis] for axis in _LAST) if len(shape) == 4 else shape
            self._indices[name] = self._add(name, last, np.dtype(np.float32), 0)
        return self._indices[name]

    def constant(self, data: np.ndarray) -> int:
        """Index of a constant."""
        data = np.ascontiguousarray(data)
        self._buffers.append(schema.BufferT(data=np.frombuffer(data.tobytes(), np.uint8)))
        return self._add(f"constant{len(self._buffers)}", data.shape, data.dtype, len(self._buffers) - 1)

    def step(self, step: Step) -> None:
        """Write one operator."""
        methods = {"Conv": self._conv, "Gemm": self._gemm, "Add": self._add_tensors, "Softmax": self._softmax}
        methods |= dict.fromkeys(("AveragePool", "GlobalAveragePool"), self._average)
        methods |= dict.fromkeys(("Flatten", "Reshape"), self._reshape)
        methods |= dict.fromkeys(("Relu", "Clip"), self._activation)
        if step.kind not in methods:
            raise CannotLoad(f"the writer of LiteRT models lacks the operator {step.kind}")
        methods[step.kind](step)

    def finish(self, inputs: list[int], outputs: list[int]) -> bytes:
        """The whole file."""
        graph = schema.SubGraphT(
            tensors=self._tensors, inputs=inputs, outputs=outputs, operators=self._operators, name="main"
        )
        codes = [schema.OperatorCodeT(deprecatedBuiltinCode=min(c, 127), builtinCode=c) for c in self._codes]
        model = schema.ModelT(version=3, operatorCodes=codes, subgraphs=[graph], buffers=self._buffers)
        return bytes(convert_object_to_bytearray(model))

    def _add(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], buffer: int) -> int:
        kind = schema.TensorType.INT32 if dtype == np.int32 else schema.TensorType.FLOAT32
        self._tensors.append(schema.TensorT(shape=list(shape), type=kind, buffer=buffer, name=name.encode()))
        return len(self._tensors) - 1

    def _emit(self, name: str, inputs: list[int], output: int, options: Any = None) -> None:
        code = getattr(schema.BuiltinOperator, name)
        index = self._codes.setdefault(code, len(self._codes))
        kind = getattr(schema.BuiltinOptions, type(options).__name__[:-1]) if options is not None else 0
        self._operators.append(schema.OperatorT(index, inputs, [output], kind, options))

    def _conv(self, step: Step) -> None:
        shape = self._shapes[step.inputs[0]]
        if len(shape) != 4:
            raise CannotLoad(f"the writer of LiteRT models lacks Conv with {len(shape)} axes")
        weights, *rest = step.constants
        bias = rest[0] if rest else np.zeros(weights.shape[0], np.float32)
        group = step.attributes.get("group", 1)
        data = self.value(step.inputs[0])
        kernel = weights.shape[2:]
        strides = step.attributes.get("strides", [1, 1])
        dilations = step.attributes.get("dilations", [1, 1])
        padding = self._padding(step, shape[2:], kernel, strides, dilations)
        if padding is None:
            data, padding = self._pad(data, step.attributes["pads"]), schema.Padding.VALID
        facts = {
            "padding": padding,
            "strideH": strides[0],
            "strideW": strides[1],
            "dilationHFactor": dilations[0],
            "dilationWFactor": dilations[1],
            "fusedActivationFunction": _ACTIVATIONS[step.activation],
        }
        output = self.value(step.output)
        if group == 1:
            arrays = [self.constant(weights.transpose(_LAST)), self.constant(bias)]
            self._emit("CONV_2D", [data, *arrays], output, schema.Conv2DOptionsT(**facts))
        elif group == shape[1]:
            arrays = [self.constant(weights.transpose(1, 2, 3, 0)), self.constant(bias)]
            options = schema.DepthwiseConv2DOptionsT(depthMultiplier=weights.shape[0] // group, **facts)
            self._emit("DEPTHWISE_CONV_2D", [data, *arrays], output, options)
        else:
            raise CannotLoad("the writer of LiteRT models lacks Conv with groups of several channels")

    def _padding(self, step: Step, size: Any, kernel: Any, strides: Any, dilations: Any) -> int | None:
        """The format's own word for the padding of `step`, None where it has none."""
        automatic = step.attributes.get("auto_pad", b"NOTSET")
        if automatic not in {b"NOTSET", b""}:
            raise CannotLoad(f"the writer of LiteRT models lacks auto_pad={automatic.decode()}")
        pads = list(step.attributes.get("pads", [0, 0, 0, 0]))
        if not any(pads):
            return int(schema.Padding.VALID)
        same = []
        for n, k, s, d in zip(size, kernel, strides, dilations, strict=True):
            total = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
            same.append((total // 2, total - total // 2))
        wanted = [same[0][0], same[1][0], same[0][1], same[1][1]]
        return int(schema.Padding.SAME) if pads == wanted else None

    def _pad(self, data: int, pads: list[int]) -> int:
        top, left, bottom, right = pads
        n, h, w, c = self._tensors[data].shape
        output = self._add(f"padded{len(self._tensors)}", (n, h + top + bottom, w + left + right, c), np.dtype("f4"), 0)
        amounts = np.array([[0, 0], [top, bottom], [left, right], [0, 0]], np.int32)
        self._emit("PAD", [data, self.constant(amounts)], output, schema.PadOptionsT())
        return output

    def _gemm(self, step: Step) -> None:
        facts = step.attributes
        if facts.get("transA", 0) or facts.get("alpha", 1.0) != 1.0 or facts.get("beta", 1.0) != 1.0:
            raise CannotLoad("the writer of LiteRT models lacks Gemm with transA, alpha or beta")
        weights, *rest = step.constants
        weights = weights if facts.get("transB", 0) else weights.T
        bias = rest[0].reshape(-1) if rest else np.zeros(weights.shape[0], np.float32)
        options = schema.FullyConnectedOptionsT(fusedActivationFunction=_ACTIVATIONS[step.activation])
        inputs = [self.value(step.inputs[0]), self.constant(weights), self.constant(bias)]
        self._emit("FULLY_CONNECTED", inputs, self.value(step.output), options)

    def _add_tensors(self, step: Step) -> None:
        if len(step.inputs) != 2 or self._shapes[step.inputs[0]] != self._shapes[step.inputs[1]]:
            raise CannotLoad("the writer of LiteRT models lacks Add of a constant or of two shapes")
        options = schema.AddOptionsT(fusedActivationFunction=_ACTIVATIONS[step.activation])
        self._emit("ADD", [self.value(name) for name in step.inputs], self.value(step.output), options)

    def _average(self, step: Step) -> None:
        plane = self._shapes[step.inputs[0]][2:]
        if step.kind == "AveragePool" and tuple(step.attributes["kernel_shape"]) != plane:
            raise CannotLoad("the writer of LiteRT models lacks AveragePool of less than the whole plane")
        if any(step.attributes.get("pads", [0])):
            raise CannotLoad("the writer of LiteRT models lacks AveragePool with padding")
        axes = self.constant(np.array([1, 2], np.int32))
        inputs = [self.value(step.inputs[0]), axes]
        self._emit("MEAN", inputs, self.value(step.output), schema.ReducerOptionsT(keepDims=True))

    def _reshape(self, step: Step) -> None:
        before, after = self._shapes[step.inputs[0]], self._shapes[step.output]
        if len(after) == 4 or (len(before) == 4 and before[1] != 1 and before[2:] != (1, 1)):
            raise CannotLoad(f"the writer of LiteRT models lacks {step.kind} that moves channels")
        shape = self.constant(np.array(after, np.int32))
        options = schema.ReshapeOptionsT(newShape=list(after))
        self._emit("RESHAPE", [self.value(step.inputs[0]), shape], self.value(step.output), options)

    def _softmax(self, step: Step) -> None:
        rank = len(self._shapes[step.output])
        if rank != 2 or step.attributes.get("axis", -1) not in {-1, 1}:
            raise CannotLoad("the writer of LiteRT models lacks Softmax over another axis than the last")
        self._emit("SOFTMAX", [self.value(step.inputs[0])], self.value(step.output), schema.SoftmaxOptionsT(beta=1.0))

    def _activation(self, step: Step) -> None:
        kind = clip_kind(step)
        if not kind:
            raise CannotLoad("the writer of LiteRT models lacks Clip to other limits than 0 and 6")
        self._emit(kind.upper(), [self.value(step.inputs[0])], self.value(step.output))
