"""Changes of type and of quantisation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import TensorProto, helper

from edgetune.frontend.tflite.step import OperatorStep, Translator
from edgetune.frontend.tflite.translation import MisfitError


def quantize(step: OperatorStep) -> None:
    """QUANTIZE: of floats, or of integers with another scale."""
    if step.is_quantised(0):
        step.give_integers(step.scaled(step.centred(0), step.scale(0)[0] / step.output_scale))
        return
    step.give(step.real())


def dequantize(step: OperatorStep) -> None:
    """DEQUANTIZE: of integers, or of halves, which constants behind it are folded from."""
    if step.input(0).quantisation is None:
        step.give(step.op("Cast", step.raw(), to=TensorProto.FLOAT))
    else:
        step.give(step.op("Identity", step.real()))


def densify(step: OperatorStep) -> None:
    """DENSIFY: a sparse constant is whole already (`content.dense`)."""
    step.move(lambda value: step.op("Identity", value))


def cast(step: OperatorStep) -> None:
    """CAST: of elements as they are stored; floats that a narrow integer cannot hold become its nearest one."""
    if step.output().type == "INT4":
        raise MisfitError("makes integers of 4 bits")
    value, dtype = step.raw(), step.output().dtype
    if step.input(0).dtype == np.float32 and dtype.kind in "iu" and dtype.itemsize < _WORD:
        limits = np.iinfo(dtype)
        value = step.op("Clip", value, step.constant(float(limits.min)), step.constant(float(limits.max)))
    step.give_raw(step.op("Cast", value, to=int(helper.np_dtype_to_tensor_dtype(dtype))))


_WORD = 4
"""Bytes from which on integers hold any sum or product that is cast."""


def fake_quant(step: OperatorStep) -> None:
    """FAKE_QUANT: rounds to the steps of a range that is moved so that 0 is one of them (TensorFlow's nudged range)."""
    bits, narrow = step.option("NumBits", 8), bool(step.option("NarrowRange", default=False))
    low, high = float(step.option("Min", 0.0)), float(step.option("Max", 0.0))
    least, most = (1.0 if narrow else 0.0), float(2**bits - 1)
    if not 2 <= bits <= 16 or not low < high:
        raise MisfitError(f"has {bits} bits from {low} to {high}")
    scale = (high - low) / (most - least)
    zero = min(max(round(least - low / scale), least), most)
    value = step.op("Clip", step.real(), step.constant((least - zero) * scale), step.constant((most - zero) * scale))
    steps = step.op("Round", step.op("Mul", value, step.constant(1 / scale)))
    step.give(step.op("Mul", steps, step.constant(scale)))


TRANSLATORS: Mapping[str, Translator] = {
    "CAST": cast,
    "DENSIFY": densify,
    "DEQUANTIZE": dequantize,
    "FAKE_QUANT": fake_quant,
    "QUANTIZE": quantize,
}
"""Operators that change a type."""
