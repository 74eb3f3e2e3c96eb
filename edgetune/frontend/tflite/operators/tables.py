"""Activations of 16-bit integers, which TensorFlow Lite interpolates in tables (integer_ops/logistic.h, softmax.h)."""

from __future__ import annotations

from collections.abc import Callable
from math import erf

import numpy as np
from onnx import TensorProto

from edgetune.frontend.tflite.step import OperatorStep

_POINTS = 256
_PER_UNIT = 24
"""Points of the table of the logistic function in a unit of its argument."""
_MIDDLES = np.arange(_POINTS) + 0.5
_STEPS = 512
"""Steps of a table over all 16-bit integers."""


def is_interpolated(step: OperatorStep) -> bool:
    """Whether input and output are 16-bit integers, and the output's are 32768 to 1."""
    return step.is_quantised(0, types=("INT16",)) and step.output_scale == 1 / 32768


def logistic(step: OperatorStep) -> None:
    """LOGISTIC of 16-bit integers."""
    value = _table_places(step, lefts=(0,))
    size = _interpolated(step, step.op("Abs", value), 1 << 9, 0x7FFF << 10)
    one, half = step.constant(1 << 25, np.int32), step.constant(1 << 9, np.int32)
    below = step.op("Sub", step.op("Add", step.op("Sub", one, size), half), step.constant(1, np.int32))
    negative = step.op("Less", value, step.constant(0, np.int32))
    made = step.op("Where", negative, below, step.op("Add", size, half))
    _give(step, step.op("Div", made, step.constant(1 << 10, np.int32)))


def tanh(step: OperatorStep) -> None:
    """TANH of 16-bit integers: 2 * logistic(2 * x) - 1."""
    value = _table_places(step, lefts=(0, 1))
    size = _interpolated(step, step.op("Abs", value), 1 << 8, 0xFFFF << 8)
    size = step.op("Sub", size, step.constant((1 << 23) - (1 << 7), np.int32))
    _give(step, step.op("Mul", step.op("Div", size, step.constant(1 << 8, np.int32)), step.op("Sign", value)))


def _give(step: OperatorStep, value: str) -> None:
    step.give_integers(value, centred=False)


def _table_places(step: OperatorStep, lefts: tuple[int, ...]) -> str:
    """The input in steps of 1 / (3 * 4096), by a factor of 15 bits; a scale of a power of 2 may have one of 2."""
    scale = float(step.scale(0)[0])
    fraction, exponent = np.frexp(scale)
    left = 12 + int(exponent) - 1
    value = step.centred(0)
    if fraction == 0.5 and left in lefts:
        return step.op("Mul", value, step.constant(3 << left, np.int32))
    factor, right = scale * 4096.0 * 3.0, 0
    while factor <= 32767.0 / 2.0 and right <= 30:
        factor, right = factor * 2.0, right + 1
    return step.scaled(value, np.asarray(int(factor) / 2.0**right), once=True)


def _interpolated(step: OperatorStep, places: str, unit: int, most: int) -> str:
    """The logistic function, `unit` times 2^16, at `places`, of which `unit` lie between points; `most` at the end."""
    ends, middles = (65536 / (1 + np.exp(-points / _PER_UNIT)) for points in (np.arange(_POINTS + 1), _MIDDLES))
    moved = ends[:-1] + (middles - (ends[:-1] + ends[1:]) / 2) / 2
    table = np.minimum(np.rint(moved), 65535).astype(np.int64)
    starts, slopes = np.append(table[:-1] * unit, most), np.append(np.diff(table), 0)
    whole = step.op("Div", places, step.constant(unit, np.int32))
    rest = step.op("Sub", places, step.op("Mul", whole, step.constant(unit, np.int32)))
    index = step.op("Min", whole, step.constant(_POINTS - 1, np.int32))
    start, slope = (step.op("Gather", step.constant(one, np.int32), index) for one in (starts, slopes))
    return step.op("Add", start, step.op("Mul", rest, slope))


def by_table(step: OperatorStep, function: Callable[[np.ndarray], np.ndarray]) -> None:
    """A function of each of 16-bit integers, by a table over all of them."""
    low, high = (float(np.float32(step.scale(0)[0]) * np.float32(end)) for end in (-32768, 32767))
    unit = float(65536 / (np.float32(step.output_scale) * np.float32(65535)))
    _give(step, _looked_up(step, step.centred(0), _table(function, low, high, unit)))


def gelu(x: np.ndarray, *, approximate: bool) -> np.ndarray:
    """GELU, by erf or by tanh."""
    if approximate:
        return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))
    return np.asarray(0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2))))


def softmax(step: OperatorStep) -> None:
    """SOFTMAX of 16-bit integers: exponentials by a table, and the quotient by a table of reciprocals."""
    value, last = step.centred(0), step.constant([-1], np.int64)
    below = step.op("Sub", value, step.op("ReduceMax", value, last, keepdims=1))
    beta = np.float32(step.option("Beta", 1.0))
    factor = float(np.float32(step.scale(0)[0]) * beta) / (10.0 / 65535.0)
    places = step.op("Add", step.scaled(below, np.asarray(factor)), step.constant(32767, np.int32))
    exponentials = _looked_up(step, places, _table(np.exp, -10.0, 0.0))
    total = step.op("ReduceSum", exponentials, last, keepdims=1)
    bits = step.constant([1 << bit for bit in range(1, 31)], np.int32)
    reached = step.op("GreaterOrEqual", step.op("Unsqueeze", total, last), bits)
    log = step.op("ReduceSum", step.op("Cast", reached, to=TensorProto.INT32), last, keepdims=0)
    # The sum is brought to 2^16 up to 2^17, less which it is 1 + x of a table of 1 / (1 + x).
    raised = step.op("Gather", step.constant([1 << (30 - bit) for bit in range(31)], np.int64), log)
    whole = step.op("Mul", step.op("Cast", total, to=TensorProto.INT64), raised)
    rounded = step.op("Div", step.op("Add", whole, step.constant(1 << 13, np.int64)), step.constant(1 << 14, np.int64))
    places = step.op("Sub", step.op("Cast", rounded, to=TensorProto.INT32), step.constant(3 << 15, np.int32))
    reciprocal = _looked_up(step, places, _table(lambda x: 1 / (1 + x), 0.0, 1.0))
    unit = step.op("Gather", step.constant([1 << bit for bit in range(31)], np.int32), log)
    half = step.op("Div", unit, step.constant(2, np.int32))
    made = step.op("Div", step.op("Add", step.op("Mul", exponentials, reciprocal), half), unit)
    _give(step, step.op("Max", made, step.constant(0, np.int32)))


def _looked_up(step: OperatorStep, places: str, table: np.ndarray) -> str:
    """A function by its `table` at `places`, int32 that are brought into the range of 16 bits."""
    least, most = (step.constant(end, np.int32) for end in (-32768, 32767))
    offset = step.op("Sub", step.op("Min", step.op("Max", places, least), most), least)
    gap = step.constant(65536 // _STEPS, np.int32)
    index = step.op("Div", offset, gap)
    rest = step.op("Sub", offset, step.op("Mul", index, gap))
    start, slope = (step.op("Gather", step.constant(one, np.int32), index) for one in (table[:-1], np.diff(table)))
    return step.op("Add", start, step.scaled(step.op("Mul", slope, rest), np.asarray(_STEPS / 65536), once=True))


def _table(function: Callable[[np.ndarray], np.ndarray], low: float, high: float, unit: float = 32768.0) -> np.ndarray:
    """`function` by `unit` at the ends of all steps, moved by half of the error in their middles (`LUTPopulate`)."""
    width, factor = np.float32((high - low) / _STEPS), np.float32(unit)
    points = np.float32(low) + np.arange(_STEPS + 1, dtype=np.float32) * width
    values = function(points).astype(np.float32) * factor
    middles = _away(function(points[:-1] + width / 2).astype(np.float32) * factor)
    error = _away((values[1:] + _away(values[:-1])) / 2) - middles
    starts = _away(values[:-1]) - _away(error / 2)
    whole = np.append(starts, _away(values[-1:]))
    return np.asarray(np.clip(whole, -32768, 32767).astype(np.int64))


def _away(values: np.ndarray) -> np.ndarray:
    """Rounded, ties away from 0."""
    return np.asarray(np.sign(values) * np.floor(np.abs(values) + np.float32(0.5)))
