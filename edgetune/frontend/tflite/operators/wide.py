"""Sums of products of 16-bit integers and weights of 8 bits, which need more than 32 bits.

The integers are multiplied and summed as floats: each product is exact, and the sum is, to 24 bits. So it is scaled
once, where sums of real numbers would round each product.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from edgetune.frontend.tflite.step import OperatorStep

_BEYOND = 1 << 17


def is_wide(step: OperatorStep, image: int = 0) -> bool:
    """Whether input `image` and output 0 are integers of 16 bits without a zero point, and the weights constants."""
    if not step.is_quantised(image, types=("INT16",)):
        return False
    weights = step.input(1)
    points = [step.input(image).quantisation, weights.quantisation]
    plain = all(found is not None and not np.any(found.zero_point) for found in points)
    return plain and weights.value is not None


def integers(step: OperatorStep, image: int = 0) -> str:
    """Input `image` as floats of its integers."""
    return step.op("Cast", step.raw(image), to=TensorProto.FLOAT)


def weights_and_bias(step: OperatorStep, order: Sequence[int], bias: int = 2) -> list[str]:
    """The weights with their axes in `order`, and the bias where there is one, as floats of their integers."""
    operands = [step.turned(1, order, np.ones(1))]
    return [*operands, step.constant(step.value(bias, "bias"))] if step.has(bias) else operands


def give_sums(step: OperatorStep, sums: str, *, image: int = 0, bias: int = 2, coarse: bool = True) -> None:
    """Makes the output of sums times the scales.

    Sums of 64 bits have `coarse` factors of 15 bits in convolutions (`MultiplyByQuantizedMultiplier` of int64).
    """
    factors = step.scale(image) * step.scale(1) / step.output_scale
    if coarse and (not step.has(bias) or step.input(bias).type == "INT64"):
        fractions, exponents = np.frexp(factors)
        fractions = np.minimum(np.floor(fractions * (1 << 15) + 0.5), (1 << 15) - 1)
        factors = fractions * np.exp2(exponents - 15.0)
    scaled = step.op("Mul", sums, step.constant(factors if factors.size > 1 else factors.reshape(())))
    rounded = step.op("Floor", step.op("Add", scaled, step.constant(0.5)))
    kept = step.op("Clip", rounded, step.constant(-_BEYOND), step.constant(_BEYOND))
    step.give_integers(step.op("Cast", kept, to=TensorProto.INT32), centred=False)
