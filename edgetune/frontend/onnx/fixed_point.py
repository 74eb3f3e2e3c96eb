"""Operators `edgetune::FixedPointScale` and `FixedPointScaleOnce`: int32 times fractions, in fixed point.

Quantised integers are scaled so. A scale (uint32) stands for m / 2^31 / 2^right: its last 5 bits are `right`, the other
27 are those of m / 8 after the first one, so that 2^30 <= m < 2^31. The first operator is
round(round(x * m / 2^31) / 2^right), where the inner rounding takes ties up, and the outer one away from 0
(`MultiplyByQuantizedMultiplier` of TensorFlow Lite, after gemmlowp's SaturatingRoundingDoublingHighMul and
RoundingDivideByPOT; Jacob et al. 2017, section 2.2). The second one rounds x * m / 2^(31 + right) once, ties up.
TensorFlow Lite has 3 more bits of m. Without them, a scale takes 4 bytes, and one result of a million may differ.

A model that uses them has them as functions of ONNX's own operators, so every evaluator knows them. Our importer does
not take the functions apart.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper

DOMAIN = "edgetune"
TWICE, ONCE = "FixedPointScale", "FixedPointScaleOnce"
NAMES = ((DOMAIN, TWICE), (DOMAIN, ONCE))
"""Domain and name of each operator."""

_OPSET = 21
_INT64, _UINT64 = TensorProto.INT64, TensorProto.UINT64
_CONSTANTS = {
    "zero": 0,
    "one": 1,
    "two": 2,
    "eight": 8,
    "shifts": 32,
    "leading": 1 << 27,
    "half_unit": 1 << 30,
    "unit": 1 << 31,
}


def is_fixed_point(node: onnx.NodeProto) -> bool:
    """Whether `node` is one of these operators."""
    return (node.domain, node.op_type) in NAMES


def fixed_point_scales(factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The scales (uint32) of positive `factors`, and by how many bits integers are shifted left before.

    A factor of at least 1 needs such a shift. One below 2^-32 is taken for that, which makes 0 of sums below 2^30.
    """
    fractions, exponents = np.frexp(np.asarray(factors, np.float64))
    digits = np.floor(fractions * (1 << 31) + 0.5)  # as TensorFlow Lite rounds them
    digits = np.floor(digits / 8 + 0.5).astype(np.int64)
    exponents = np.where(digits == 1 << 28, exponents + 1, exponents)
    digits = np.where(digits == 1 << 28, 1 << 27, digits)
    tiny = exponents < -31
    right = np.where(tiny, 31, np.maximum(-exponents, 0))
    fraction = np.where(tiny, 0, digits - (1 << 27))
    return (fraction << 5 | right).astype(np.uint32), np.maximum(exponents, 0)


def fixed_point_functions() -> list[onnx.FunctionProto]:
    """The definitions in ONNX's operators: a division that rounds down is one of what is left without its remainder."""
    return [
        helper.make_function(DOMAIN, name, ["x", "scale"], ["y"], list(nodes), [helper.make_opsetid("", _OPSET)])
        for name, nodes in ((TWICE, _rounded_twice()), (ONCE, _rounded_once()))
    ]


def _product() -> Iterator[onnx.NodeProto]:
    for name, value in _CONSTANTS.items():
        yield helper.make_node("Constant", [], [name], value_int=value)
    yield helper.make_node("Cast", ["x"], ["x64"], to=_INT64)
    yield helper.make_node("Cast", ["scale"], ["scale64"], to=_INT64)
    yield helper.make_node("Div", ["scale64", "shifts"], ["fraction"])
    yield helper.make_node("Add", ["fraction", "leading"], ["digits"])
    yield helper.make_node("Mul", ["digits", "eight"], ["multiplier"])
    yield helper.make_node("Mul", ["x64", "multiplier"], ["product"])
    yield helper.make_node("Mod", ["scale64", "shifts"], ["right"])
    yield helper.make_node("Cast", ["right"], ["places"], to=_UINT64)
    yield helper.make_node("Cast", ["one"], ["bit"], to=_UINT64)
    yield helper.make_node("BitShift", ["bit", "places"], ["shifted"], direction="LEFT")
    yield helper.make_node("Cast", ["shifted"], ["power"], to=_INT64)


def _rounded_twice() -> Iterator[onnx.NodeProto]:
    yield from _product()
    yield helper.make_node("Add", ["product", "half_unit"], ["raised"])
    yield from _floor_divided("raised", "unit", "high")
    yield helper.make_node("Div", ["power", "two"], ["half"])
    yield helper.make_node("Less", ["high", "zero"], ["is_negative"])
    yield helper.make_node("Cast", ["is_negative"], ["negative"], to=_INT64)
    yield helper.make_node("Min", ["half", "one"], ["rounds"])
    yield helper.make_node("Mul", ["negative", "rounds"], ["less"])
    yield helper.make_node("Add", ["high", "half"], ["up"])
    yield helper.make_node("Sub", ["up", "less"], ["away"])
    yield from _floor_divided("away", "power", "result")
    yield helper.make_node("Cast", ["result"], ["y"], to=TensorProto.INT32)


def _rounded_once() -> Iterator[onnx.NodeProto]:
    yield from _product()
    yield helper.make_node("Mul", ["power", "half_unit"], ["half"])
    yield helper.make_node("Mul", ["power", "unit"], ["whole"])
    yield helper.make_node("Add", ["product", "half"], ["raised"])
    yield from _floor_divided("raised", "whole", "result")
    yield helper.make_node("Cast", ["result"], ["y"], to=TensorProto.INT32)


def _floor_divided(dividend: str, divisor: str, quotient: str) -> Iterator[onnx.NodeProto]:
    yield helper.make_node("Mod", [dividend, divisor], [f"{quotient}_rest"])
    yield helper.make_node("Sub", [dividend, f"{quotient}_rest"], [f"{quotient}_whole"])
    yield helper.make_node("Div", [f"{quotient}_whole", divisor], [quotient])
