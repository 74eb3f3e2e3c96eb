"""Small whole models as converters write them, one or more for each way to quantise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from tests.frontend.tflite.branches import Branches, Result
from tests.frontend.tflite.writer import Quantised

SAME, VALID = 0, 1
RELU, RELU6 = 1, 3
Build: TypeAlias = Callable[[Branches], Sequence[int]]


def _layer(b: Branches, operator: str, inputs: Sequence[int], result: Result, kind: str = "", **options: Any) -> int:
    return b.make(operator, inputs, result, kind=kind, **options)[0]


def _convolved(b: Branches, x: int, weights: int, channels: int, to: tuple[float, float], **options: Any) -> int:
    plain = {"Padding": SAME, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
    inputs = [x, weights, b.bias(x, weights, channels)]
    return _layer(b, "CONV_2D", inputs, to, "Conv2DOptions", **(plain | options))


def _depthwise(b: Branches, x: int, weights: int, channels: int, to: tuple[float, float], **options: Any) -> int:
    plain = {"Padding": SAME, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
    inputs = [x, weights, b.bias(x, weights, channels)]
    return _layer(b, "DEPTHWISE_CONV_2D", inputs, to, "DepthwiseConv2DOptions", DepthMultiplier=1, **(plain | options))


def _connected(b: Branches, x: int, weights: int, outputs: int, to: tuple[float, float], **options: Any) -> int:
    inputs = [x, weights, b.bias(x, weights, outputs)]
    return _layer(b, "FULLY_CONNECTED", inputs, to, "FullyConnectedOptions", **options)


def _probabilities(b: Branches, x: int, operator: str = "SOFTMAX") -> int:
    to = {"INT8": (1 / 256, -128), "UINT8": (1 / 256, 0), "INT16": (1 / 32768, 0)}.get(b.type, (1.0, 0))
    kind, options = ("SoftmaxOptions", {"Beta": 1.0}) if operator == "SOFTMAX" else ("", {})
    return _layer(b, operator, [x], Quantised([to[0]], [to[1]]), kind, **options)


def _between_ones(b: Branches, x: int) -> int:
    to = {"INT8": (1 / 128, 0), "INT16": (1 / 32768, 0)}.get(b.type, (1.0, 0))
    return _layer(b, "TANH", [x], Quantised([to[0]], [to[1]]))


def residual(b: Branches) -> Sequence[int]:
    """Convolutions and depthwise ones with scales for each channel, a sum, a pool, rows and SOFTMAX."""
    x = b.x(1, 12, 10, 3, low=-1, high=1)
    first = _convolved(b, x, b.weights(8, 3, 3, 3, axis=0), 8, (0, 6), StrideH=2, StrideW=2, FusedActivationFunction=3)
    second = _depthwise(b, first, b.weights(1, 3, 3, 8, axis=3), 8, (0, 12), FusedActivationFunction=RELU)
    third = _convolved(b, second, b.weights(8, 1, 1, 8, axis=0), 8, (-20, 20))
    added = _layer(b, "ADD", [first, third], (0, 24), "AddOptions", FusedActivationFunction=RELU)
    window = {"Padding": VALID, "StrideH": 6, "StrideW": 5, "FilterHeight": 6, "FilterWidth": 5}
    pooled = _layer(b, "AVERAGE_POOL_2D", [added], added, "Pool2DOptions", **window)
    rows = _layer(b, "RESHAPE", [pooled, b.ints([-1, 8])], pooled, "ReshapeOptions")
    return [_probabilities(b, _connected(b, rows, b.weights(5, 8, axis=0), 5, (-12, 12)))]


def branched(b: Branches) -> Sequence[int]:
    """One scale for each tensor of weights; SPLIT, CONCATENATION, MEAN, LOGISTIC."""
    x = b.x(1, 8, 8, 6, low=-2, high=2)
    left, right = b.make("SPLIT", [b.ints(-1), x], x, x, kind="SplitOptions", NumSplits=2)
    left = _convolved(b, left, b.weights(4, 3, 3, 3), 4, (-9, 9))
    right = _convolved(b, right, b.weights(4, 1, 3, 3), 4, (-9, 9))
    joined = _layer(b, "CONCATENATION", [left, right], left, "ConcatenationOptions", Axis=3)
    mean = _layer(b, "MEAN", [joined, b.ints([1, 2])], (-3, 3), "ReducerOptions", KeepDims=False)
    return [_probabilities(b, _connected(b, mean, b.weights(4, 8), 4, (-6, 6)), "LOGISTIC")]


def unsigned(b: Branches) -> Sequence[int]:
    """The older scheme: uint8, weights with a zero point."""
    x = b.x(1, 9, 9, 3, low=-1, high=1)
    first = _convolved(b, x, b.weights(6, 3, 3, 3), 6, (0, 6), FusedActivationFunction=RELU6)
    second = _depthwise(b, first, b.weights(1, 3, 3, 6), 6, (0, 12), StrideH=2, StrideW=2, FusedActivationFunction=1)
    window = {"Padding": SAME, "StrideH": 2, "StrideW": 2, "FilterHeight": 3, "FilterWidth": 3}
    pooled = _layer(b, "MAX_POOL_2D", [second], second, "Pool2DOptions", **window)
    rows = _layer(b, "RESHAPE", [pooled, b.ints([1, 54])], pooled, "ReshapeOptions")
    return [_probabilities(b, _connected(b, rows, b.weights(6, 54), 6, (-25, 25)))]


def wide(b: Branches) -> Sequence[int]:
    """Activations of 16 bits, weights of 8, bias of 64."""
    x = b.x(1, 10, 8, 3, low=-1, high=1)
    first = _convolved(b, x, b.weights(6, 3, 3, 3, axis=0), 6, (0, 6), FusedActivationFunction=RELU)
    second = _depthwise(b, first, b.weights(1, 3, 3, 6, axis=3), 6, (0, 12), StrideH=2, StrideW=2)
    mean = _layer(b, "MEAN", [second, b.ints([1, 2])], (-4, 4), "ReducerOptions", KeepDims=True)
    rows = _layer(b, "RESHAPE", [mean, b.ints([1, 6])], mean, "ReshapeOptions")
    return [_probabilities(b, _connected(b, rows, b.weights(5, 6), 5, (-9, 9)))]


def _four_bits(b: Branches, *shape: int) -> int:
    count = shape[0]
    found = Quantised(b.random.uniform(0.05, 0.15, count).tolist(), [0] * count, 0)
    return b.writer.constant(b.random.integers(-7, 8, shape), "INT4", found)


def four_bits(b: Branches) -> Sequence[int]:
    """Weights of 4 bits."""
    x = b.x(1, 7, 9, 5, low=-1, high=1)
    first = _convolved(b, x, _four_bits(b, 7, 3, 3, 5), 7, (-9, 9), StrideW=2, FusedActivationFunction=RELU)
    rows = _layer(b, "RESHAPE", [first, b.ints([7, 35])], first, "ReshapeOptions")
    return [_connected(b, rows, _four_bits(b, 5, 35), 5, (-40, 40))]


def _half(b: Branches, *shape: int) -> int:
    """A constant of halves behind DEQUANTIZE."""
    value = b.writer.constant(b.random.uniform(-1, 1, shape), "FLOAT16")
    return _layer(b, "DEQUANTIZE", [value], "FLOAT32", "DequantizeOptions")


def halves(b: Branches) -> Sequence[int]:
    """Weights and bias of halves behind DEQUANTIZE; TANH."""
    x = b.x(1, 9, 8, 3)
    plain = {"Padding": SAME, "StrideH": 2, "StrideW": 2, "DilationHFactor": 1, "DilationWFactor": 1}
    first = _layer(b, "CONV_2D", [x, _half(b, 6, 3, 3, 3), _half(b, 6)], "FLOAT32", "Conv2DOptions", **plain)
    window = {**plain, "StrideH": 1, "StrideW": 1, "DepthMultiplier": 1, "FusedActivationFunction": RELU}
    inputs = [first, _half(b, 1, 3, 3, 6), _half(b, 6)]
    second = _layer(b, "DEPTHWISE_CONV_2D", inputs, "FLOAT32", "DepthwiseConv2DOptions", **window)
    inputs = [second, _half(b, 4, 120), _half(b, 4)]
    return [_layer(b, "TANH", [_layer(b, "FULLY_CONNECTED", inputs, "FLOAT32", "FullyConnectedOptions")], "FLOAT32")]


def _narrow(b: Branches, *shape: int, axis: int | None = None) -> int:
    """Weights of 8 bits of a model of floats."""
    count = 1 if axis is None else shape[axis]
    found = Quantised(b.random.uniform(0.004, 0.01, count).tolist(), [0] * count, axis or 0)
    return b.writer.constant(b.random.integers(-127, 128, shape), "INT8", found)


def dynamic_range(b: Branches) -> Sequence[int]:
    """Floats with weights of 8 bits, before which LiteRT rounds activations to 8 bits as well."""
    x = b.x(1, 9, 8, 3)
    plain = {"Padding": SAME, "StrideH": 2, "StrideW": 2, "DilationHFactor": 1, "DilationWFactor": 1}
    bias = b.writer.constant(b.random.uniform(-1, 1, 6), "FLOAT32")
    inputs = [x, _narrow(b, 6, 3, 3, 3, axis=0), bias]
    first = _layer(b, "CONV_2D", inputs, "FLOAT32", "Conv2DOptions", FusedActivationFunction=RELU, **plain)
    rows = _layer(b, "RESHAPE", [first, b.ints([1, 120])], "FLOAT32", "ReshapeOptions")
    bias = b.writer.constant(b.random.uniform(-1, 1, 5), "FLOAT32")
    made = _layer(b, "FULLY_CONNECTED", [rows, _narrow(b, 5, 120), bias], "FLOAT32", "FullyConnectedOptions")
    return [_probabilities(b, made)]


def dynamic_range_of_four_bits(b: Branches) -> Sequence[int]:
    """Floats with rows of weights of 4 bits, with a scale for each row, and for all."""
    rows = b.x(4, 20)
    for weights in (_four_bits(b, 12, 20), b.writer.constant(b.random.integers(-7, 8, (6, 12)), "INT4", _ONE_SCALE)):
        bias = b.writer.constant(b.random.uniform(-1, 1, b.writer.tensors[weights].shape[0]), "FLOAT32")
        rows = _layer(b, "FULLY_CONNECTED", [rows, weights, bias], "FLOAT32", "FullyConnectedOptions")
    return [rows]


_ONE_SCALE = Quantised([0.07], [0])


def sliced(b: Branches) -> Sequence[int]:
    """STRIDED_SLICE, PAD, SPLIT_V, MUL, SUB, PACK."""
    x = b.x(1, 8, 10, 4, low=-2, high=2)
    masks = {"BeginMask": 0b1001, "EndMask": 0b1011}
    ends = [b.ints(one) for one in ([0, 2, 1, 0], [0, 0, 9, 4], [1, 1, 2, 1])]
    every = _layer(b, "STRIDED_SLICE", [x, *ends], x, "StridedSliceOptions", **masks)
    padded = _layer(b, "PAD", [every, b.ints([[0, 0], [1, 1], [2, 0], [0, 0]])], x, "PadOptions")
    left, right = b.make("SPLIT_V", [padded, b.ints([3, -1]), b.ints(2)], x, x, kind="SplitVOptions", NumSplits=2)
    product = _layer(b, "MUL", [left, right], (-4, 4), "MulOptions")
    scale = b.constant(4, low=-1, high=1)
    less = _layer(b, "SUB", [product, scale], (-4.5, 4.5), "SubOptions")
    again = _layer(b, "MUL", [less, scale], less, "MulOptions", FusedActivationFunction=RELU)
    return [_layer(b, "PACK", [less, again], less, "PackOptions", Axis=1, ValuesCount=2)]


def decoder(b: Branches) -> Sequence[int]:
    """TRANSPOSE_CONV, both ways to resize, LEAKY_RELU, RELU6."""
    x = b.x(1, 4, 5, 6, low=-2, high=2)
    weights = b.weights(4, 3, 3, 6, axis=0)
    options = {"Padding": SAME, "StrideH": 2, "StrideW": 2}
    inputs = [b.ints([1, 8, 10, 4]), weights, x, b.bias(x, weights, 4)]
    wider = _layer(b, "TRANSPOSE_CONV", inputs, (-12, 12), "TransposeConvOptions", **options)
    bent = _layer(b, "LEAKY_RELU", [wider], (-3, 12), "LeakyReluOptions", Alpha=0.2)
    options = {"HalfPixelCenters": True}
    twice = _layer(b, "RESIZE_BILINEAR", [bent, b.ints([16, 15])], bent, "ResizeBilinearOptions", **options)
    kind = "ResizeNearestNeighborOptions"
    third = _layer(b, "RESIZE_NEAREST_NEIGHBOR", [bent, b.ints([16, 15])], bent, kind, **options)
    added = _layer(b, "ADD", [twice, third], (-6, 24), "AddOptions")
    return [_layer(b, "RELU6", [added], (0, 6)), _convolved(b, added, b.weights(2, 1, 1, 4, axis=0), 2, (-30, 30))]


def excited(b: Branches) -> Sequence[int]:
    """HARD_SWISH, and channels that are scaled by a LOGISTIC of their MEAN."""
    x = b.x(1, 9, 8, 3, low=-2, high=2)
    first = _convolved(b, x, b.weights(8, 3, 3, 3, axis=0), 8, (-9, 9), StrideH=2, StrideW=2)
    bent = _layer(b, "HARD_SWISH", [first], (-0.4, 9))
    mean = _layer(b, "MEAN", [bent, b.ints([1, 2])], (-0.4, 5), "ReducerOptions", KeepDims=True)
    less = _convolved(b, mean, b.weights(4, 1, 1, 8, axis=0), 4, (0, 6), FusedActivationFunction=RELU)
    gate = _probabilities(b, _convolved(b, less, b.weights(8, 1, 1, 4, axis=0), 8, (-8, 8)), "LOGISTIC")
    scaled = _layer(b, "MUL", [bent, gate], (-0.4, 9), "MulOptions")
    return [_convolved(b, scaled, b.weights(4, 1, 1, 8, axis=0), 4, (-18, 18))]


def attention(b: Branches) -> Sequence[int]:
    """TRANSPOSE, BATCH_MATMUL with a transposed side, SOFTMAX."""
    x = b.x(6, 16, low=-2, high=2)
    heads = []
    for _ in range(3):
        made = _connected(b, x, b.weights(16, 16, axis=0), 16, (-10, 10))
        apart = _layer(b, "RESHAPE", [made, b.ints([6, 2, 8])], made, "ReshapeOptions")
        heads.append(_layer(b, "TRANSPOSE", [apart, b.ints([1, 0, 2])], made, "TransposeOptions"))
    scores = _layer(b, "BATCH_MATMUL", heads[:2], (-120, 120), "BatchMatMulOptions", AdjY=True)
    small = _layer(b, "MUL", [scores, b.constant(low=0.0, high=0.35)], (-30, 30), "MulOptions")
    mixed = _layer(b, "BATCH_MATMUL", [_probabilities(b, small), heads[2]], (-10, 10), "BatchMatMulOptions")
    back = _layer(b, "TRANSPOSE", [mixed, b.ints([1, 0, 2])], mixed, "TransposeOptions")
    rows = _layer(b, "RESHAPE", [back, b.ints([6, 16])], back, "ReshapeOptions")
    return [_layer(b, "ADD", [_connected(b, rows, b.weights(16, 16), 16, (-20, 20)), x], (-22, 22), "AddOptions")]


def words(b: Branches) -> Sequence[int]:
    """GATHER from a table by integers that are the input, MEAN, TANH."""
    table = b.constant(50, 8, low=-1, high=1)
    found = _layer(b, "GATHER", [table, b.fed(b.random.integers(0, 50, (1, 12)), "INT32")], table, "GatherOptions")
    mean = _layer(b, "MEAN", [found, b.ints(1)], (-0.5, 0.5), "ReducerOptions")
    return [_between_ones(b, _connected(b, mean, b.weights(6, 8, axis=0), 6, (-2, 2)))]


def face(b: Branches) -> Sequence[int]:
    """Floats as in models of landmarks: PRELU, PADV2 of channels, a sum, RESIZE_BILINEAR, RESHAPE, CONCATENATION."""
    x = b.x(1, 12, 12, 3)
    first = _convolved(b, x, b.weights(8, 3, 3, 3), 8, (-9, 9), StrideH=2, StrideW=2)
    bent = _layer(b, "PRELU", [first, b.constant(1, 1, 8, low=0.05, high=0.4)], (-9, 9))
    second = _depthwise(b, bent, b.weights(1, 3, 3, 8), 8, (-9, 9), StrideH=2, StrideW=2)
    third = _convolved(b, second, b.weights(12, 1, 1, 8), 12, (-9, 9))
    window = {"Padding": SAME, "StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 2}
    pooled = _layer(b, "MAX_POOL_2D", [bent], bent, "Pool2DOptions", **window)
    padded = _layer(b, "PAD", [pooled, b.ints([[0, 0], [0, 0], [0, 0], [0, 4]])], (-9, 9), "PadOptions")
    added = _layer(b, "ADD", [third, padded], (-9, 9), "AddOptions", FusedActivationFunction=RELU)
    inputs = [added, b.ints([6, 6])]
    wider = _layer(b, "RESIZE_BILINEAR", inputs, added, "ResizeBilinearOptions", HalfPixelCenters=True)
    joined = _layer(b, "CONCATENATION", [wider, bent], (-9, 9), "ConcatenationOptions", Axis=-1)
    scores = _convolved(b, joined, b.weights(2, 1, 1, 20), 2, (-9, 9))
    return [_layer(b, "RESHAPE", [_probabilities(b, scores, "LOGISTIC"), b.ints([1, 72, 1])], scores, "ReshapeOptions")]


def recurrent(b: Branches) -> Sequence[int]:
    """The steps of an LSTM one after the other: rows, SPLIT, LOGISTIC, TANH, MUL, ADD."""
    units, count = 6, 2 if b.type == "INT16" else 3
    x = b.x(1, count, 5, low=-1, high=1)
    steps = b.make("UNPACK", [x], *([x] * count), kind="UnpackOptions", Axis=1, Num=count)
    state, hidden = b.constant(1, units, low=-4, high=4), b.constant(1, units, low=-1, high=1)
    axis = None if b.type == "INT16" else 0
    forth, back = b.weights(4 * units, 5, axis=axis), b.weights(4 * units, units, axis=axis)
    for step in steps:
        both = [_connected(b, step, forth, 4 * units, (-6, 6)), _connected(b, hidden, back, 4 * units, (-6, 6))]
        gates = _layer(b, "ADD", both, (-8, 8), "AddOptions")
        parts = b.make("SPLIT", [b.ints(1), gates], *([gates] * 4), kind="SplitOptions", NumSplits=4)
        taken, kept, shown = (_probabilities(b, parts[place], "LOGISTIC") for place in (0, 1, 3))
        fresh = _layer(b, "MUL", [taken, _between_ones(b, parts[2])], (-1, 1), "MulOptions")
        state = _layer(b, "ADD", [_layer(b, "MUL", [kept, state], (-4, 4), "MulOptions"), fresh], (-4, 4), "AddOptions")
        hidden = _layer(b, "MUL", [shown, _between_ones(b, state)], (-1, 1), "MulOptions")
    return [hidden, state]


MODELS: Mapping[str, tuple[str, Build]] = {
    "int8 per axis": ("INT8", residual),
    "int8 per tensor": ("INT8", branched),
    "uint8": ("UINT8", unsigned),
    "int16": ("INT16", wide),
    "int4 weights": ("INT8", four_bits),
    "float16 weights": ("FLOAT32", halves),
    "dynamic range": ("FLOAT32", dynamic_range),
    "dynamic range of 4 bits": ("FLOAT32", dynamic_range_of_four_bits),
    "slices": ("INT8", sliced),
    "decoder": ("INT8", decoder),
    "squeeze and excitation": ("INT8", excited),
    "attention": ("INT8", attention),
    "embedding": ("INT8", words),
    "landmarks": ("FLOAT32", face),
    "LSTM": ("INT8", recurrent),
    "LSTM of 16 bits": ("INT16", recurrent),
    "LSTM of floats": ("FLOAT32", recurrent),
}
"""The type of a model's activations, and what makes it and names its outputs."""
