"""Operators `edgetune::FixedPointScale` and `FixedPointScaleOnce`: integers times a fraction, in fixed point.

Quantised integers are scaled so. The first is round(round(x * multiplier / 2^31) / 2^right), where the inner rounding
takes ties up, and the outer one away from 0 (`MultiplyByQuantizedMultiplier` of TensorFlow Lite, after gemmlowp's
SaturatingRoundingDoublingHighMul and RoundingDivideByPOT; Jacob et al. 2017, section 2.2). The second one rounds
x * multiplier / 2^(31 + right) once, ties up. All tensors are int32; multipliers and shifts broadcast to x.

A model that uses them has them as functions of ONNX's own operators, so every evaluator knows them. Our importer does
not take the functions apart: shifts are one instruction each.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import TensorProto, helper

DOMAIN = "edgetune"
TWICE, ONCE = "FixedPointScale", "FixedPointScaleOnce"
NAMES = ((DOMAIN, TWICE), (DOMAIN, ONCE))
"""Domain and name of each operator."""

_OPSET = 21
_INT64, _UINT64 = TensorProto.INT64, TensorProto.UINT64
_CONSTANTS = {"zero": 0, "one": 1, "two": 2, "half_unit": 1 << 30, "unit": 1 << 31}


def is_fixed_point(node: onnx.NodeProto) -> bool:
    """Whether `node` is one of these operators."""
    return (node.domain, node.op_type) in NAMES


def fixed_point_functions() -> list[onnx.FunctionProto]:
    """The definitions in ONNX's operators: a division that rounds down is one of what is left without its remainder."""
    return [
        helper.make_function(
            DOMAIN, name, ["x", "multiplier", "right"], ["y"], list(nodes), [helper.make_opsetid("", _OPSET)]
        )
        for name, nodes in ((TWICE, _rounded_twice()), (ONCE, _rounded_once()))
    ]


def _product() -> Iterator[onnx.NodeProto]:
    for name, value in _CONSTANTS.items():
        yield helper.make_node("Constant", [], [name], value_int=value)
    yield helper.make_node("Cast", ["x"], ["x64"], to=_INT64)
    yield helper.make_node("Cast", ["multiplier"], ["multiplier64"], to=_INT64)
    yield helper.make_node("Mul", ["x64", "multiplier64"], ["product"])
    yield helper.make_node("Cast", ["one"], ["bit"], to=_UINT64)
    yield helper.make_node("Cast", ["right"], ["places"], to=_UINT64)
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
