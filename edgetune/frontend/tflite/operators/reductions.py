"""Reductions along axes, places of extremes, sums from one end."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
from onnx import TensorProto, helper

from edgetune.frontend.tflite.step import OperatorStep, Translator
from edgetune.frontend.tflite.translation import MisfitError


def _axes(step: OperatorStep) -> list[int]:
    return [int(axis) for axis in step.value(1, "axes").reshape(-1)]


def _reduced(operator: str) -> Translator:
    def translator(step: OperatorStep) -> None:
        axes = step.constant(_axes(step), np.int64)
        step.give(step.op(operator, step.real(), axes, keepdims=int(step.option("KeepDims", 0))))

    return translator


def mean(step: OperatorStep) -> None:
    """MEAN: sums of integers are scaled once, by a fraction that the number of elements divides (reduce.cc)."""
    axes = sorted({axis % max(step.rank(), 1) for axis in _axes(step)})
    count = prod(step.input(0).shape[axis] for axis in axes)
    if not step.is_quantised(0) or not 0 < count <= _MOST_SUMMED:
        _reduced("ReduceMean")(step)
        return
    fraction, exponent = (float(part) for part in np.frexp(step.scale(0)[0] / step.output_scale))
    left = min(count.bit_length() - 1, 32, 31 + int(exponent))
    multiplier, exponent = (int(fraction * (1 << 31) + 0.5) << left) // count, int(exponent) - left
    keep = int(step.option("KeepDims", 0))
    total = step.op("ReduceSum", step.centred(0), step.constant(axes, np.int64), keepdims=keep)
    step.give_integers(step.scaled_in_two(total, multiplier / (1 << 31), exponent))


_MOST_SUMMED = 1 << 15
"""Sums of so many 16-bit integers fit 32 bits."""


def _logical(operator: str) -> Translator:
    """Any and all, of booleans as 0 and 1."""

    def translator(step: OperatorStep) -> None:
        numbers = step.op("Cast", step.raw(), to=TensorProto.INT32)
        axes = step.constant(_axes(step), np.int64)
        found = step.op(operator, numbers, axes, keepdims=int(step.option("KeepDims", 0)))
        step.give_raw(step.op("Cast", found, to=TensorProto.BOOL))

    return translator


def _place(operator: str) -> Translator:
    """The first place of an extreme."""

    def translator(step: OperatorStep) -> None:
        (axis,) = _axes(step)
        found = step.op(operator, step.real(), axis=axis, keepdims=0)
        step.give_raw(step.op("Cast", found, to=int(helper.np_dtype_to_tensor_dtype(step.output().dtype))))

    return translator


def cumsum(step: OperatorStep) -> None:
    """CUMSUM along one axis."""
    axis = step.constant(step.value(1, "axis").reshape(()), np.int64)
    flags = {"exclusive": int(step.option("Exclusive", 0)), "reverse": int(step.option("Reverse", 0))}
    step.give(step.op("CumSum", step.real(), axis, **flags))


def topk_v2(step: OperatorStep) -> None:
    """TOPK_V2: the largest elements of the last axis, and their places."""
    if step.outputs != 2:
        raise MisfitError(f"has {step.outputs} outputs")
    count = step.constant(step.value(1, "number of elements").reshape(1), np.int64)
    values, places = step.ops("TopK", 2, step.real(), count, axis=-1)
    wanted = int(helper.np_dtype_to_tensor_dtype(step.output(1).dtype))
    step.give_raw(step.op("Cast", places, to=wanted), 1)
    step.give(values)


TRANSLATORS: Mapping[str, Translator] = {
    "ARG_MAX": _place("ArgMax"),
    "ARG_MIN": _place("ArgMin"),
    "CUMSUM": cumsum,
    "MEAN": mean,
    "REDUCE_ALL": _logical("ReduceMin"),
    "REDUCE_ANY": _logical("ReduceMax"),
    "REDUCE_MAX": _reduced("ReduceMax"),
    "REDUCE_MIN": _reduced("ReduceMin"),
    "REDUCE_PROD": _reduced("ReduceProd"),
    "SUM": _reduced("ReduceSum"),
    "TOPK_V2": topk_v2,
}
"""Operators that reduce an axis."""
