"""Forms of the operators of images, rows and matrices."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from tests.frontend.tflite.branches import Branches, Cases
from tests.frontend.tflite.writer import Quantised

SAME, VALID = 0, 1
RELU, RELU_N1_TO_1, RELU6 = 1, 2, 3
_PLAIN: dict[str, Any] = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}


def conv_2d(b: Branches) -> None:
    forms: list[tuple[int, int, dict[str, Any]]] = [
        (3, 3, {"Padding": SAME}),
        (3, 3, {"Padding": VALID, "StrideH": 2, "StrideW": 2, "FusedActivationFunction": RELU}),
        (1, 1, {"Padding": SAME, "StrideH": 2, "StrideW": 1, "FusedActivationFunction": RELU6}),
        (5, 2, {"Padding": SAME, "StrideH": 2, "StrideW": 3, "FusedActivationFunction": RELU_N1_TO_1}),
        (3, 2, {"Padding": SAME, "DilationHFactor": 2, "DilationWFactor": 3}),
        (2, 3, {"Padding": VALID, "DilationHFactor": 3, "DilationWFactor": 1}),
    ]
    for place, (high, wide, options) in enumerate(forms):
        x = b.x(2 if place == 0 else 1, 9, 8, 3)
        weights = b.weights(6, high, wide, 3, axis=None if place == 1 or b.type == "UINT8" else 0)
        inputs = [x, weights, b.bias(x, weights, 6)]
        b.make("CONV_2D", inputs, (-14, 14), kind="Conv2DOptions", exact=b.is_narrow, **(_PLAIN | options))
    if b.type in {"FLOAT32", "INT8"}:  # groups
        x, weights = b.x(1, 7, 6, 4), b.weights(6, 3, 3, 2, axis=0)
        inputs = [x, weights, b.bias(x, weights, 6)]
        b.make("CONV_2D", inputs, (-14, 14), kind="Conv2DOptions", exact=b.is_narrow, **_PLAIN)


def depthwise_conv_2d(b: Branches) -> None:
    forms: list[tuple[int, dict[str, Any]]] = [
        (1, {"Padding": SAME}),
        (2, {"Padding": VALID, "StrideH": 2, "StrideW": 2, "FusedActivationFunction": RELU6}),
        (3, {"Padding": SAME, "StrideH": 2, "StrideW": 2, "FusedActivationFunction": RELU}),
        (1, {"Padding": SAME, "DilationHFactor": 2, "DilationWFactor": 2}),
    ]
    for place, (multiplier, options) in enumerate(forms):
        x = b.x(1, 9, 8, 4)
        weights = b.weights(1, 3, 3, 4 * multiplier, axis=None if place == 2 or b.type == "UINT8" else 3)
        b.make(
            "DEPTHWISE_CONV_2D",
            [x, weights, b.bias(x, weights, 4 * multiplier)],
            (-9, 9),
            kind="DepthwiseConv2DOptions",
            exact=b.is_narrow,
            DepthMultiplier=multiplier,
            **(_PLAIN | options),
        )


def transpose_conv(b: Branches) -> None:
    forms = [
        (SAME, 1, 1, (3, 3), (5, 6)),
        (SAME, 2, 2, (3, 3), (10, 12)),
        (SAME, 2, 2, (2, 2), (10, 12)),
        (SAME, 2, 3, (4, 2), (9, 17)),
        (VALID, 2, 2, (3, 3), (11, 13)),
        (VALID, 3, 1, (2, 4), (15, 9)),
    ]
    for place, (padding, high, wide, window, extents) in enumerate(forms):
        x = b.x(1, 5, 6, 4)
        weights = b.weights(3, *window, 4, axis=None if place == 1 or b.type == "UINT8" else 0)
        inputs = [b.ints([1, *extents, 3]), weights, x]
        if place != 2:
            inputs.append(b.bias(x, weights, 3))
        options: dict[str, Any] = {"Padding": padding, "StrideH": high, "StrideW": wide}
        b.make("TRANSPOSE_CONV", inputs, (-14, 14), kind="TransposeConvOptions", exact=b.is_narrow, **options)


def conv_3d(b: Branches) -> None:
    for padding, stride, dilation in ((SAME, 1, 1), (VALID, 2, 1), (SAME, 1, 2)):
        x, weights = b.x(1, 5, 6, 5, 2), b.weights(3, 2, 3, 2, 4)
        options: dict[str, Any] = {f"Stride{axis}": stride for axis in "DHW"}
        options |= {f"Dilation{axis}Factor": dilation for axis in "DHW"}
        inputs = [x, weights, b.bias(x, weights, 4)]
        b.make("CONV_3D", inputs, (-9, 9), kind="Conv3DOptions", Padding=padding, **options)


def _pools(b: Branches, operator: str, *, exact: bool) -> None:
    forms: list[tuple[int, int, dict[str, Any]]] = [
        (2, 2, {"Padding": VALID, "StrideH": 2, "StrideW": 2}),
        (3, 3, {"Padding": SAME, "StrideH": 2, "StrideW": 2, "FusedActivationFunction": RELU}),
        (3, 2, {"Padding": SAME, "StrideH": 1, "StrideW": 1}),
        (9, 8, {"Padding": VALID, "StrideH": 1, "StrideW": 1}),
        (2, 3, {"Padding": VALID, "StrideH": 1, "StrideW": 3, "FusedActivationFunction": RELU6}),
    ]
    for high, wide, options in forms:
        x = b.x(2, 9, 8, 5, low=-3, high=9)
        result = (0.0, 9.0) if operator == "L2_POOL_2D" and not b.is_float else x
        b.make(operator, [x], result, kind="Pool2DOptions", exact=exact, FilterHeight=high, FilterWidth=wide, **options)


def average_pool_2d(b: Branches) -> None:
    _pools(b, "AVERAGE_POOL_2D", exact=b.is_narrow)


def max_pool_2d(b: Branches) -> None:
    _pools(b, "MAX_POOL_2D", exact=b.is_narrow)


def l2_pool_2d(b: Branches) -> None:
    _pools(b, "L2_POOL_2D", exact=False)


def local_response_normalization(b: Branches) -> None:
    for radius, alpha in ((2, 0.7), (5, 0.1)):
        options: dict[str, Any] = {"Radius": radius, "Bias": 1.5, "Alpha": alpha, "Beta": 0.6}
        kind = "LocalResponseNormalizationOptions"
        b.make("LOCAL_RESPONSE_NORMALIZATION", [b.x(1, 4, 5, 9)], (-4, 4), kind=kind, **options)


def fully_connected(b: Branches) -> None:
    forms: list[tuple[tuple[int, ...], bool, dict[str, Any]]] = [
        ((5, 16), True, {}),
        ((5, 16), b.is_float is False, {"FusedActivationFunction": RELU}),
        ((2, 4, 8), True, {}),
        ((2, 3, 16), True, {"KeepNumDims": True}),
        ((2, 2, 3, 16), True, {"KeepNumDims": True, "FusedActivationFunction": RELU6}),
    ]
    for place, (shape, biased, options) in enumerate(forms):
        x = b.x(*shape)
        weights = b.weights(10, 16, axis=0 if place == 4 and b.type in {"INT8", "INT16"} else None)
        inputs = [x, weights, b.bias(x, weights, 10) if biased else -1]
        b.make("FULLY_CONNECTED", inputs, (-11, 11), kind="FullyConnectedOptions", exact=b.is_narrow, **options)
    if not b.is_float and b.type != "INT16":  # no bias, and weights that another operator could make
        inputs = [b.x(4, 12), b.weights(8, 12)]
        b.make("FULLY_CONNECTED", inputs, (-11, 11), kind="FullyConnectedOptions", exact=True)


def batch_matmul(b: Branches) -> None:
    forms: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
        ((3, 4, 7), (3, 7, 5), {}),
        ((2, 3, 4, 7), (3, 7, 5), {}),
        ((4, 7), (2, 7, 5), {}),
        ((3, 7, 4), (3, 7, 5), {"AdjX": True}),
        ((3, 4, 7), (3, 5, 7), {"AdjY": True}),
        ((1, 7, 4), (3, 5, 7), {"AdjX": True, "AdjY": True}),
    ]
    for place, (left, right, options) in enumerate(forms):
        other = b.constant(*right, low=-1, high=1) if place == 4 else b.x(*right, low=-1, high=1)
        b.make("BATCH_MATMUL", [b.x(*left), other], (-11, 11), kind="BatchMatMulOptions", **options)


def softmax(b: Branches) -> None:
    result = {"INT8": (1 / 256, -128), "UINT8": (1 / 256, 0), "INT16": (1 / 32768, 0)}.get(b.type, (1, 0))
    to = Quantised([result[0]], [result[1]])
    for shape, beta, spread in (((4, 10), 1.0, 4), ((2, 3, 4, 5), 1.0, 1.5), ((3, 7), 0.5, 6)):
        b.make("SOFTMAX", [b.x(*shape, low=-spread, high=spread)], to, kind="SoftmaxOptions", Beta=beta)


def log_softmax(b: Branches) -> None:
    to = Quantised([16 / 256], [127 if b.type == "INT8" else 255])
    for shape in ((4, 10), (2, 3, 9)):
        b.make("LOG_SOFTMAX", [b.x(*shape)], to)


def l2_normalization(b: Branches) -> None:
    to = Quantised([1 / 128], [128 if b.type == "UINT8" else 0])
    for shape in ((4, 10), (2, 3, 4, 7)):
        b.make("L2_NORMALIZATION", [b.x(*shape, low=-3)], to, kind="L2NormOptions")


def resize_bilinear(b: Branches) -> None:
    for extents, (corners, centres) in product(((12, 5), (3, 16)), ((False, False), (True, False), (False, True))):
        x = b.x(1, 6, 8, 3)
        options = {"AlignCorners": corners, "HalfPixelCenters": centres}
        b.make("RESIZE_BILINEAR", [x, b.ints(extents)], x, kind="ResizeBilinearOptions", **options)


def resize_nearest_neighbor(b: Branches) -> None:
    for extents, (corners, centres) in product(((12, 5), (3, 16)), ((False, False), (True, False), (False, True))):
        x = b.x(1, 6, 8, 3)
        options = {"AlignCorners": corners, "HalfPixelCenters": centres}
        kind = "ResizeNearestNeighborOptions"
        b.make("RESIZE_NEAREST_NEIGHBOR", [x, b.ints(extents)], x, kind=kind, exact=b.is_narrow, **options)


def depth_to_space(b: Branches) -> None:
    for block in (2, 3):
        x = b.x(1, 3, 4, 2 * block * block)
        b.make("DEPTH_TO_SPACE", [x], x, kind="DepthToSpaceOptions", exact=True, BlockSize=block)


def space_to_depth(b: Branches) -> None:
    for block in (2, 3):
        x = b.x(1, 2 * block, 4 * block, 3)
        b.make("SPACE_TO_DEPTH", [x], x, kind="SpaceToDepthOptions", exact=True, BlockSize=block)


def _reductions(b: Branches, operator: str, *, low: float = -4.0, high: float = 4.0) -> None:
    for axes, keep in (([1, 2], True), ([-1], False), (1, False), ([0, 3], True), ([0, 1, 2, 3], False)):
        x = b.x(2, 3, 4, 5, low=low, high=high)
        reach = int(np.prod([(2, 3, 4, 5)[axis] for axis in np.atleast_1d(axes)]))
        results: dict[str, Any] = {"SUM": (low * reach**0.5, high * reach**0.5), "MEAN": (low / 2, high / 2)}
        if operator == "REDUCE_PROD":
            results["REDUCE_PROD"] = (-3, 3)
        b.make(operator, [x, b.ints(axes)], results.get(operator, x), kind="ReducerOptions", KeepDims=keep)


def mean(b: Branches) -> None:
    _reductions(b, "MEAN")
    x = b.x(1, 6, 5, 8)
    b.make("MEAN", [x, b.ints([1, 2])], x, kind="ReducerOptions", KeepDims=True)


def total(b: Branches) -> None:
    _reductions(b, "SUM")


def reduce_prod(b: Branches) -> None:
    _reductions(b, "REDUCE_PROD", low=-1.3, high=1.3)


def reduce_max(b: Branches) -> None:
    _reductions(b, "REDUCE_MAX")


def reduce_min(b: Branches) -> None:
    _reductions(b, "REDUCE_MIN")


def _logical(b: Branches, operator: str, share: float) -> None:
    for axes, keep in (([1], True), ([-1, 0], False)):
        x = b.fed(b.random.uniform(size=(6, 5, 4)) < share, "BOOL")
        b.make(operator, [x, b.ints(axes)], "BOOL", kind="ReducerOptions", KeepDims=keep)


def reduce_any(b: Branches) -> None:
    _logical(b, "REDUCE_ANY", 0.2)


def reduce_all(b: Branches) -> None:
    _logical(b, "REDUCE_ALL", 0.8)


def _places(b: Branches, operator: str, kind: str) -> None:
    for axis, type_, number in ((1, "INT32", 2), (-1, "INT64", 3), (0, "INT32", 2)):
        b.make(operator, [b.x(6, 5, 7), b.ints(axis)], type_, kind=kind, exact=True, OutputType=number + (number == 3))


def arg_max(b: Branches) -> None:
    _places(b, "ARG_MAX", "ArgMaxOptions")


def arg_min(b: Branches) -> None:
    _places(b, "ARG_MIN", "ArgMinOptions")


def cumsum(b: Branches) -> None:
    for axis, exclusive, reverse in ((0, False, False), (-1, True, False), (1, False, True), (2, True, True)):
        options = {"Exclusive": exclusive, "Reverse": reverse}
        b.make("CUMSUM", [b.x(3, 4, 5), b.ints(axis)], (-4, 4), kind="CumsumOptions", **options)
    x = b.fed(b.random.integers(-9, 9, (3, 4)), "INT32")
    b.make("CUMSUM", [x, b.ints(1)], "INT32", kind="CumsumOptions", exact=True)


def topk_v2(b: Branches) -> None:
    for shape, count in (((3, 11), 4), ((2, 3, 9), 1)):
        x = b.x(*shape)
        b.make("TOPK_V2", [x, b.ints(count)], x, "INT32", kind="TopKV2Options", exact=True)


_FLOAT, _ALL = {"FLOAT32"}, {"FLOAT32", "INT8", "UINT8", "INT16"}
_WIDE, _NARROW = {"FLOAT32", "INT8", "INT16"}, {"FLOAT32", "INT8", "UINT8"}

CASES: Mapping[str, tuple[Cases, set[str]]] = {
    "ARG_MAX": (arg_max, _NARROW),
    "ARG_MIN": (arg_min, _NARROW),
    "AVERAGE_POOL_2D": (average_pool_2d, _ALL),
    "BATCH_MATMUL": (batch_matmul, _WIDE),
    "CONV_2D": (conv_2d, _ALL),
    "CONV_3D": (conv_3d, _FLOAT),
    "CUMSUM": (cumsum, _FLOAT),
    "DEPTHWISE_CONV_2D": (depthwise_conv_2d, _ALL),
    "DEPTH_TO_SPACE": (depth_to_space, _NARROW),
    "FULLY_CONNECTED": (fully_connected, _ALL),
    "L2_NORMALIZATION": (l2_normalization, _NARROW),
    "L2_POOL_2D": (l2_pool_2d, _FLOAT),
    "LOCAL_RESPONSE_NORMALIZATION": (local_response_normalization, _FLOAT),
    "LOG_SOFTMAX": (log_softmax, _NARROW),
    "MAX_POOL_2D": (max_pool_2d, _ALL),
    "MEAN": (mean, _ALL),
    "REDUCE_ALL": (reduce_all, _FLOAT),
    "REDUCE_ANY": (reduce_any, _FLOAT),
    "REDUCE_MAX": (reduce_max, _ALL),
    "REDUCE_MIN": (reduce_min, _ALL),
    "REDUCE_PROD": (reduce_prod, _FLOAT),
    "RESIZE_BILINEAR": (resize_bilinear, _ALL),
    "RESIZE_NEAREST_NEIGHBOR": (resize_nearest_neighbor, _ALL),
    "SOFTMAX": (softmax, _ALL),
    "SPACE_TO_DEPTH": (space_to_depth, _NARROW),
    "SUM": (total, _ALL),
    "TOPK_V2": (topk_v2, _ALL),
    "TRANSPOSE_CONV": (transpose_conv, _ALL),
}
"""Forms of an operator, and the types that LiteRT's reference kernels take."""
