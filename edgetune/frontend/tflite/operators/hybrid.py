"""Hybrid operators: activations are floats and weights are integers, so activations are quantised when they are known.

Each example, or row, gets a scale of its own (`BatchQuantizeFloats` of TensorFlow Lite). It has a zero point as well in
convolutions whose weights have several scales, and in products that an option says it of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from onnx import TensorProto

from edgetune.frontend.tflite.step import OperatorStep

_LEAST, _MOST = -128.0, 127.0


def is_hybrid(step: OperatorStep) -> bool:
    """Whether input 0 is of floats, and input 1 are constant integers of 8 or 4 bits."""
    weights = step.input(1)
    return (
        step.input(0).dtype == np.float32
        and weights.type in {"INT4", "INT8"}
        and weights.quantisation is not None
        and weights.value is not None
    )


def symmetric(step: OperatorStep, value: str, axes: Sequence[int]) -> tuple[str, str]:
    """`value` as integers of 8 bits, and their scales, in which `axes` are one element (`SymmetricQuantizeFloats`)."""
    largest = step.op("ReduceMax", step.op("Abs", value), step.constant(axes, np.int64), keepdims=1)
    zero, most = step.constant(0.0), step.constant(_MOST)
    largest = step.op("Where", step.op("Equal", largest, zero), most, largest)
    steps = step.rounded(step.op("Mul", value, step.op("Div", most, largest)))
    steps = step.op("Clip", steps, step.constant(-_MOST), most)
    return step.op("Cast", steps, to=TensorProto.INT8), step.op("Div", largest, most)


def asymmetric(step: OperatorStep, value: str, along: Sequence[int]) -> str:
    """`value` rounded to 256 steps, of which 0 is one, along axes (`AsymmetricQuantizeFloats`), as floats again."""
    axes = step.constant(along, np.int64)
    zero, least, most, one = (step.constant(number) for number in (0.0, _LEAST, _MOST, 1.0))
    low = step.op("Min", step.op("ReduceMin", value, axes, keepdims=1), zero)
    high = step.op("Max", step.op("ReduceMax", value, axes, keepdims=1), zero)
    width = step.op("Sub", high, low)
    scale = step.op("Div", width, step.constant(_MOST - _LEAST))
    scale = step.op("Where", step.op("Equal", width, zero), one, scale)
    from_low, from_high = (step.op("Div", end, scale) for end in (low, high))
    nearer_low = step.op(
        "Less",
        step.op("Sub", step.constant(-_LEAST), from_low),
        step.op("Add", most, from_high),
    )
    point = step.op("Where", nearer_low, step.op("Sub", least, from_low), step.op("Sub", most, from_high))
    point = step.rounded(step.op("Clip", point, least, most))
    steps = step.rounded(step.op("Add", point, step.op("Mul", value, step.op("Div", one, scale))))
    centred = step.op("Sub", step.op("Clip", steps, least, most), point)
    return step.op("Mul", centred, scale)


def give_scaled(step: OperatorStep, sums: str, scale: str, shaped: Callable[[str], str] = lambda made: made) -> None:
    """Makes the output of int32 sums of products: times both scales, plus the bias, and then `shaped`."""
    factors = step.op("Mul", scale, step.constant(step.scale(1).reshape(-1)))
    value = step.op("Mul", step.op("Cast", sums, to=TensorProto.FLOAT), factors)
    step.give(shaped(step.op("Add", value, step.real(2)) if step.has(2) else value))
