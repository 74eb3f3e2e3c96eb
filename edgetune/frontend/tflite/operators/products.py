"""Matrix products, and softmax and norms along the last axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from edgetune.frontend.tflite.operators import tables
from edgetune.frontend.tflite.operators.hybrid import asymmetric, give_scaled, is_hybrid, symmetric
from edgetune.frontend.tflite.step import Step, Translator
from edgetune.frontend.tflite.translation import MisfitError


def give_sums(step: Step, sums: str, *, once: bool = False) -> None:
    """Makes the output of int32 sums of products: plus the bias, times scales of input, weights and output."""
    if step.has(2):
        bias = step.input(2).value
        if bias is None or bias.dtype not in {np.dtype(np.int32), np.dtype(np.int64)}:
            raise MisfitError("computes its bias at run time, or has one that is not int32")
        sums = step.op("Add", sums, step.narrowed(bias))
    step.give_integers(step.scaled(sums, step.scale(0) * step.scale(1) / step.output_scale, once=once))


def weights_and_bias(
    step: Step, order: Sequence[int], *, image: int = 0, bias: int = 2, coarse: bool = True
) -> list[str]:
    """The weights, input 1 with its axes in `order`, and the bias where there is one, as real numbers.

    Convolutions scale their sums of 64 bits by `coarse` factors of 15 bits (`MultiplyByQuantizedMultiplier` of
    int64): the weights' scales are such that the product of the scales is that factor.
    """
    scale = _coarse_scale(step, image, bias) if coarse else None
    operands = [step.turned(1, order, scale)]
    if step.has(bias):
        found, tensor = step.input(bias).value, step.input(image)
        if found is not None and found.dtype.kind == "i" and tensor.quantisation is not None:
            factors = step.scale(image) * (step.scale(1) if scale is None else scale)
            operands.append(step.constant(found * factors))
        else:
            operands.append(step.real(bias))
    return operands


def _coarse_scale(step: Step, image: int, bias: int) -> np.ndarray | None:
    """Scales of the weights; None where sums have 32 bits: of other integers, or by the type of the bias."""
    wide = not step.has(bias) or step.input(bias).type == "INT64"
    if not (wide and step.is_quantised(image, types=("INT16",)) and step.input(1).quantisation is not None):
        return None
    fractions, exponents = np.frexp(step.scale(image) * step.scale(1) / step.output_scale)
    coarse = np.minimum(np.floor(fractions * (1 << 15) + 0.5), (1 << 15) - 1)
    return np.asarray(coarse * np.exp2(exponents - 15.0) * step.output_scale / step.scale(image))


def fully_connected(step: Step) -> None:
    """FULLY_CONNECTED: rows of the input, or its last axis where it keeps its axes, times weights (O, I)."""
    tensor = step.input(1)
    weights = tensor.shape
    if len(weights) != 2 or step.option("WeightsFormat", 0):
        raise MisfitError(f"has weights {weights} in format {step.option('WeightsFormat', 0)}")
    outputs, inner = weights
    exact = step.is_narrow(0) and tensor.type in {"INT8", "UINT8"} and tensor.value is not None
    rows = step.raw(0) if exact else step.real(0)
    if step.rank() != 2 or step.input(0).shape[-1] != inner:
        rows = step.op("Reshape", rows, step.constant([-1, inner], np.int64))
    if exact:
        zeros = [step.zero_point(position) for position in (0, 1)]
        sums = step.op("MatMulInteger", rows, _columns(step), *zeros)
        give_sums(step, _with_axes(step, sums, outputs), once=True)
    elif is_hybrid(step) and step.scale(1).size == 1 and not step.option("AsymmetricQuantizeInputs", default=False):
        integers, scale = symmetric(step, rows, [1])
        products = step.op("MatMulInteger", integers, _columns(step))
        give_scaled(step, products, scale, lambda made: _with_axes(step, made, outputs))
    else:
        rows = asymmetric(step, rows, [1]) if is_hybrid(step) else rows
        factors, *bias = weights_and_bias(step, (1, 0), coarse=False)
        made = step.op("MatMul", rows, factors)
        made = step.op("Add", made, *bias) if bias else made
        step.give(_with_axes(step, made, outputs))


def _columns(step: Step) -> str:
    """The weights (O, I) as the right side of a product."""
    return step.constant(step.value(1, "weights").T, None)


def _with_axes(step: Step, made: str, outputs: int) -> str:
    """Rows of `outputs` elements with the axes of the result."""
    if len(step.output().shape) == 2:
        return made
    if step.option("KeepNumDims", default=False) and step.rank() == len(step.output().shape):
        return _as_before(step, made, outputs)
    return step.op("Reshape", made, step.constant([*step.output().shape[:-1], outputs], np.int64))


def _as_before(step: Step, made: str, outputs: int) -> str:
    """`made` with the axes of the input, the last one of which has other elements now."""
    shape = step.op("Shape", step.raw(0), end=-1)
    return step.op("Reshape", made, step.op("Concat", shape, step.constant([outputs], np.int64), axis=0))


def batch_matmul(step: Step) -> None:
    """BATCH_MATMUL: of matrices in the last two axes, each of which may be transposed."""
    made = []
    for position, option in ((0, "AdjX"), (1, "AdjY")):
        rank = step.rank(position)
        swapped = [*range(rank - 2), rank - 1, rank - 2]
        adjoint = step.option(option, default=False)
        made.append(step.turned(position, swapped) if adjoint else step.real(position))
    step.give(step.op("MatMul", *made))


def softmax(step: Step) -> None:
    """SOFTMAX along the last axis, of `Beta` times the input."""
    if tables.is_interpolated(step):
        tables.softmax(step)
        return
    beta = float(step.option("Beta", 1.0))
    value = step.real()
    if beta != 1.0:
        value = step.op("Mul", value, step.constant(beta))
    step.give(step.op("Softmax", value, axis=-1))


def log_softmax(step: Step) -> None:
    """LOG_SOFTMAX along the last axis."""
    step.give(step.op("LogSoftmax", step.real(), axis=-1))


def l2_normalization(step: Step) -> None:
    """L2_NORMALIZATION along the last axis: by the root of the sum of squares, at least 1e-6."""
    value = step.real()
    squares = step.op("ReduceSum", step.op("Mul", value, value), step.constant([-1], np.int64), keepdims=1)
    norm = step.op("Max", step.op("Sqrt", squares), step.constant(1e-6))
    step.give(step.op("Div", value, norm))


TRANSLATORS: Mapping[str, Translator] = {
    "BATCH_MATMUL": batch_matmul,
    "FULLY_CONNECTED": fully_connected,
    "L2_NORMALIZATION": l2_normalization,
    "LOG_SOFTMAX": log_softmax,
    "SOFTMAX": softmax,
}
"""Operators of rows and matrices."""
