"""Matrix products, and softmax and norms along the last axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import TensorProto

from edgetune.frontend.tflite.operators import tables, wide
from edgetune.frontend.tflite.operators.hybrid import asymmetric, give_scaled, is_hybrid, symmetric
from edgetune.frontend.tflite.step import OperatorStep, Translator
from edgetune.frontend.tflite.translation import MisfitError

NARROW_WEIGHTS = frozenset({"INT4", "INT8", "UINT8"})
"""Types of constant weights whose products are summed in int32."""


def give_sums(step: OperatorStep, sums: str, *, image: int = 0, bias: int = 2, once: bool = False) -> None:
    """Makes the output of int32 sums of products: plus the bias, times scales of input, weights and output."""
    if step.has(bias):
        terms = step.input(bias).value
        if terms is None or terms.dtype not in {np.dtype(np.int32), np.dtype(np.int64)}:
            raise MisfitError("computes its bias at run time, or has one that is not int32")
        sums = step.op("Add", sums, step.narrowed(terms))
    step.give_integers(step.scaled(sums, step.scale(image) * step.scale(1) / step.output_scale, once=once))


def weights_and_bias(step: OperatorStep, order: Sequence[int], *, image: int = 0, bias: int = 2) -> list[str]:
    """The weights, input 1 with its axes in `order`, and the bias where there is one, as real numbers."""
    operands = [step.turned(1, order)]
    if step.has(bias):
        found, tensor = step.input(bias).value, step.input(image)
        if found is not None and found.dtype.kind == "i" and tensor.quantisation is not None:
            operands.append(step.constant(found * step.scale(image) * step.scale(1)))
        else:
            operands.append(step.real(bias))
    return operands


def fully_connected(step: OperatorStep) -> None:
    """FULLY_CONNECTED: rows of the input, or its last axis where it keeps its axes, times weights (O, I)."""
    tensor = step.input(1)
    weights = tensor.shape
    if len(weights) != 2 or step.option("WeightsFormat", 0):
        raise MisfitError(f"has weights {weights} in format {step.option('WeightsFormat', 0)}")
    outputs, inner = weights
    exact = step.is_narrow(0) and tensor.type in NARROW_WEIGHTS and tensor.value is not None
    sums_are_wide = wide.is_wide(step)
    rows = step.raw(0) if exact else wide.integers(step) if sums_are_wide else step.real(0)
    if step.rank() != 2 or step.input(0).shape[-1] != inner:
        rows = step.op("Reshape", rows, step.constant([-1, inner], np.int64))
    if exact:
        zeros = [step.zero_point(position) for position in (0, 1)]
        sums = step.op("MatMulInteger", rows, _columns(step), *zeros)
        give_sums(step, _with_axes(step, sums, outputs), once=True)
    elif sums_are_wide:
        sums = _product(step, rows, wide.weights_and_bias(step, (1, 0)))
        wide.give_sums(step, _with_axes(step, sums, outputs), coarse=False)
    elif is_hybrid(step) and not step.option("AsymmetricQuantizeInputs", default=False):
        rounded, scale = symmetric(step, rows, [1])
        products = step.op("MatMulInteger", rounded, _columns(step))
        give_scaled(step, products, scale, lambda made: _with_axes(step, made, outputs))
    else:
        rows = asymmetric(step, rows, [1]) if is_hybrid(step) else rows
        step.give(_with_axes(step, _product(step, rows, weights_and_bias(step, (1, 0))), outputs))


def _product(step: OperatorStep, rows: str, operands: Sequence[str]) -> str:
    """Rows times weights, plus the bias where there is one."""
    weights, *bias = operands
    made = step.op("MatMul", rows, weights)
    return step.op("Add", made, *bias) if bias else made


def _columns(step: OperatorStep) -> str:
    """The weights (O, I) as the right side of a product."""
    return step.constant(step.value(1, "weights").T, None)


def _with_axes(step: OperatorStep, made: str, outputs: int) -> str:
    """Rows of `outputs` elements with the axes of the result."""
    if len(step.output().shape) == 2:
        return made
    if step.option("KeepNumDims", default=False) and step.rank() == len(step.output().shape):
        return _as_before(step, made, outputs)
    return step.op("Reshape", made, step.constant([*step.output().shape[:-1], outputs], np.int64))


def _as_before(step: OperatorStep, made: str, outputs: int) -> str:
    """`made` with the axes of the input, the last one of which has other elements now."""
    shape = step.op("Shape", step.raw(0), end=-1)
    return step.op("Reshape", made, step.op("Concat", shape, step.constant([outputs], np.int64), axis=0))


def batch_matmul(step: OperatorStep) -> None:
    """BATCH_MATMUL: of matrices in the last two axes, each of which may be transposed."""
    made = []
    for position, option in ((0, "AdjX"), (1, "AdjY")):
        rank = step.rank(position)
        swapped = [*range(rank - 2), rank - 1, rank - 2]
        adjoint = step.option(option, default=False)
        made.append(step.turned(position, swapped) if adjoint else step.real(position))
    if is_hybrid(step):
        last = [step.rank() - 1]
        if step.option("AsymmetricQuantizeInputs", default=False):
            made[0] = asymmetric(step, made[0], last)
        else:
            integers, scale = symmetric(step, made[0], last)
            made[0] = step.op("Mul", step.op("Cast", integers, to=TensorProto.FLOAT), scale)
    step.give(step.op("MatMul", *made))


def softmax(step: OperatorStep) -> None:
    """SOFTMAX along the last axis, of `Beta` times the input."""
    if tables.is_interpolated(step):
        tables.softmax(step)
        return
    beta = float(step.option("Beta", 1.0))
    value = step.real()
    if beta != 1.0:
        value = step.op("Mul", value, step.constant(beta))
    step.give(step.op("Softmax", value, axis=-1))


def log_softmax(step: OperatorStep) -> None:
    """LOG_SOFTMAX along the last axis."""
    step.give(step.op("LogSoftmax", step.real(), axis=-1))


def l2_normalization(step: OperatorStep) -> None:
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
