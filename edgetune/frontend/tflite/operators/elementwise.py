"""Elementwise operators: arithmetic, comparisons, logic, activations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from edgetune.frontend.tflite.operators import tables
from edgetune.frontend.tflite.step import OperatorStep, Translator
from edgetune.frontend.tflite.translation import MisfitError


def _plain(operator: str, operands: int) -> Translator:
    """An operator that ONNX has as well."""

    def translator(step: OperatorStep) -> None:
        step.give(step.op(operator, *(step.real(position) for position in range(operands))))

    return translator


def _activation(name: str) -> Translator:
    """RELU and its kind: integers are scaled to the scale of the output (activations.cc)."""

    def translator(step: OperatorStep) -> None:
        if step.is_quantised(0):
            scaled = step.scaled(step.centred(0), _quotient(step))
            step.give_integers(scaled, activation=name)
        else:
            step.give(step.activated(step.real(), name))

    return translator


def _compared(operator: str, negated: bool = False) -> Translator:
    def translator(step: OperatorStep) -> None:
        made = step.op(operator, step.real(0), step.real(1))
        step.give_raw(step.op("Not", made) if negated else made)

    return translator


def _of_raw(operator: str, operands: int) -> Translator:
    """An operator of booleans and plain integers."""
    return lambda step: step.give_raw(step.op(operator, *(step.raw(position) for position in range(operands))))


def _is_integer(step: OperatorStep) -> bool:
    return step.input(0).quantisation is None and step.input(0).dtype.kind in "iu"


def _quotient(step: OperatorStep, factor: np.float32 | float = 1.0) -> np.ndarray:
    """The scale of the input by that of the output, in float32 as LiteRT has it in its activations."""
    return np.asarray(np.float32(step.scale(0)[0]) * np.float32(factor) / np.float32(step.output_scale))


_LEFT: Mapping[str, int] = {"INT8": 20, "UINT8": 20, "INT16": 15}
"""Bits that terms of sums are shifted left by before they are scaled."""


def _sum(operator: str) -> Translator:
    """ADD and SUB: integers are brought to twice the larger scale, with 20 more bits, or 15 (integer_ops/add.h)."""

    def translator(step: OperatorStep) -> None:
        kind = step.output().type
        if kind not in _LEFT or not step.is_quantised(0, 1, types=(kind,)):
            step.give(step.op(operator, step.real(0), step.real(1)))
            return
        if kind == "INT16" and (shifts := _shifts(step)):
            halved = [step.halved(step.centred(position), shift) for position, shift in enumerate(shifts)]
            step.give_integers(step.op(operator, *halved))
            return
        scales = [step.scale(position)[0] for position in (0, 1)]
        unit, left = 2.0 * max(scales), 1 << _LEFT[kind]
        terms = [_shifted_and_scaled(step, position, left, scales[position] / unit) for position in (0, 1)]
        step.give_integers(step.scaled(step.op(operator, *terms), unit / (left * step.output_scale)))

    return translator


def _shifted_and_scaled(step: OperatorStep, position: int, left: int, factor: np.float64) -> str:
    """An input times `left`, a power of 2, times a `factor`: exact where that is a power of 2, and so one product."""
    product = left * factor
    exact = np.frexp(factor)[0] == 0.5 and product >= 1
    shifted = step.op("Mul", step.centred(position), step.constant(product if exact else left, np.int32))
    return shifted if exact else step.scaled(shifted, np.asarray(factor))


def _shifts(step: OperatorStep) -> Sequence[int]:
    """By how many bits LiteRT shifts 16-bit terms: where all scales are about powers of 2, and an option allows it."""
    logs = np.log2([step.scale(0)[0], step.scale(1)[0], step.output_scale])
    powers = np.rint(logs).astype(int)
    shifts = [int(powers[2] - power) for power in powers[:2]]
    allowed = bool(step.option("PotScaleInt16", default=True)) and np.all(np.abs(logs - powers) < _NEAR_A_POWER)
    return shifts if allowed and min(shifts) == 0 else ()


_NEAR_A_POWER = 1e-3


def multiply(step: OperatorStep) -> None:
    """MUL: products of integers are scaled once."""
    if step.is_quantised(0, 1):
        product = step.op("Mul", step.centred(0), step.centred(1))
        step.give_integers(step.scaled(product, step.scale(0)[0] * step.scale(1)[0] / step.output_scale))
    else:
        step.give(step.op("Mul", step.real(0), step.real(1)))


def add_n(step: OperatorStep) -> None:
    """ADD_N: the sum of all inputs."""
    step.give(step.op("Sum", *(step.real(position) for position in range(step.inputs))))


def square(step: OperatorStep) -> None:
    """SQUARE."""
    step.give(step.op("Mul", step.real(), step.real()))


def squared_difference(step: OperatorStep) -> None:
    """SQUARED_DIFFERENCE."""
    difference = step.op("Sub", step.real(0), step.real(1))
    step.give(step.op("Mul", difference, difference))


def rsqrt(step: OperatorStep) -> None:
    """RSQRT: 1 over the square root."""
    step.give(step.op("Reciprocal", step.op("Sqrt", step.real())))


def floor_mod(step: OperatorStep) -> None:
    """FLOOR_MOD: the remainder has the sign of the divisor."""
    if _is_integer(step):
        step.give(step.op("Mod", step.real(0), step.real(1), fmod=0))
        return
    divisor = step.real(1)
    rest = step.op("Mod", step.real(0), divisor, fmod=1)
    zero = step.constant(0.0)
    other_sign = step.op("Xor", step.op("Less", rest, zero), step.op("Less", divisor, zero))
    moved = step.op("And", other_sign, step.op("Not", step.op("Equal", rest, zero)))
    step.give(step.op("Where", moved, step.op("Add", rest, divisor), rest))


def floor_div(step: OperatorStep) -> None:
    """FLOOR_DIV: rounds down, of integers as well."""
    if _is_integer(step):
        whole = step.op("Sub", step.real(0), step.op("Mod", step.real(0), step.real(1), fmod=0))
        step.give(step.op("Div", whole, step.real(1)))
    else:
        step.give(step.op("Floor", step.op("Div", step.real(0), step.real(1))))


def power(step: OperatorStep) -> None:
    """POW."""
    step.give(step.op("Pow", step.real(0), step.real(1)))


def prelu(step: OperatorStep) -> None:
    """PRELU: a slope for each channel, or of another shape that broadcasts."""
    step.give(step.op("PRelu", step.real(0), step.real(1)))


def leaky_relu(step: OperatorStep) -> None:
    """LEAKY_RELU: negative integers have a factor of their own (leaky_relu.h)."""
    alpha = float(step.option("Alpha", 0.0))
    if not step.is_quantised(0):
        step.give(step.op("LeakyRelu", step.real(), alpha=alpha))
        return
    value, factor = step.centred(0), _quotient(step, np.float32(alpha))
    below = step.op("Neg", value) if factor < 0 else value
    below = step.scaled(below, np.abs(factor)) if factor else step.op("Mul", value, step.constant(0, np.int32))
    negative = step.op("Less", value, step.constant(0, np.int32))
    step.give_integers(step.op("Where", negative, below, step.scaled(value, _quotient(step))))


def hard_swish(step: OperatorStep) -> None:
    """HARD_SWISH: x * min(max(x + 3, 0), 6) / 6."""
    step.give(step.op("HardSwish", step.real()))


def gelu(step: OperatorStep) -> None:
    """GELU, by erf or by tanh."""
    approximate = bool(step.option("Approximate", default=False))
    if step.is_quantised(0, types=("INT16",)):
        tables.by_table(step, partial(tables.gelu, approximate=approximate))
    else:
        step.give(step.op("Gelu", step.real(), approximate="tanh" if approximate else "none"))


def exp(step: OperatorStep) -> None:
    """EXP."""
    if step.is_quantised(0, types=("INT16",)):
        tables.by_table(step, np.exp)
    else:
        step.give(step.op("Exp", step.real()))


def logistic(step: OperatorStep) -> None:
    """LOGISTIC."""
    if tables.is_interpolated(step):
        tables.logistic(step)
    else:
        step.give(step.op("Sigmoid", step.real()))


def tanh(step: OperatorStep) -> None:
    """TANH."""
    if tables.is_interpolated(step):
        tables.tanh(step)
    else:
        step.give(step.op("Tanh", step.real()))


def zeros_like(step: OperatorStep) -> None:
    """ZEROS_LIKE."""
    zero = step.constant(0, step.input(0).dtype if _is_integer(step) else np.float32)
    step.give(step.op("Expand", zero, step.op("Shape", step.real())))


def select(step: OperatorStep) -> None:
    """SELECT: a condition of one axis chooses whole slices."""
    condition, rank = step.raw(0), step.rank(1)
    if step.rank(0) == 1 and rank > 1:
        condition = step.op("Reshape", condition, step.constant([-1] + [1] * (rank - 1), np.int64))
    _chosen(step, condition)


def select_v2(step: OperatorStep) -> None:
    """SELECT_V2: the condition broadcasts."""
    _chosen(step, step.raw(0))


def _chosen(step: OperatorStep, condition: str) -> None:
    same = all(step.input(position).quantisation == step.output().quantisation for position in (1, 2))
    if same:
        step.give_raw(step.op("Where", condition, step.raw(1), step.raw(2)))
    else:
        step.give(step.op("Where", condition, step.real(1), step.real(2)))


def bucketize(step: OperatorStep) -> None:
    """BUCKETIZE: how many of the boundaries an element reaches."""
    boundaries = np.asarray(step.option("Boundaries", np.zeros(0)), np.float32)
    value = step.op("Cast", step.real(), to=1)
    reached = step.op(
        "GreaterOrEqual", step.op("Unsqueeze", value, step.constant([-1], np.int64)), step.constant(boundaries)
    )
    counted = step.op("ReduceSum", step.op("Cast", reached, to=6), step.constant([-1], np.int64), keepdims=0)
    step.give_raw(counted)


def atan2(step: OperatorStep) -> None:
    """ATAN2 of (y, x), by the arctangent of y / x and the quadrant."""
    if step.input(0).dtype != np.float32:
        raise MisfitError(f"is of {step.input(0).type}")
    y, x, zero = step.real(0), step.real(1), step.constant(0.0)
    angle = step.op("Atan", step.op("Div", y, x))
    half = step.op("Where", step.op("Less", y, zero), step.constant(-np.pi), step.constant(np.pi))
    turned = step.op("Where", step.op("Less", x, zero), step.op("Add", angle, half), angle)
    both = step.op("And", step.op("Equal", x, zero), step.op("Equal", y, zero))
    step.give(step.op("Where", both, zero, turned))


_UNARY: Mapping[str, str] = {
    "ABS": "Abs",
    "CEIL": "Ceil",
    "COS": "Cos",
    "ELU": "Elu",
    "FLOOR": "Floor",
    "LOG": "Log",
    "NEG": "Neg",
    "ROUND": "Round",
    "SIGN": "Sign",
    "SIN": "Sin",
    "SQRT": "Sqrt",
}

_BINARY: Mapping[str, str] = {
    "DIV": "Div",
    "MAXIMUM": "Max",
    "MINIMUM": "Min",
}

_OWN: Mapping[str, Callable[[OperatorStep], None]] = {
    "ADD": _sum("Add"),
    "ADD_N": add_n,
    "ATAN2": atan2,
    "BUCKETIZE": bucketize,
    "EQUAL": _compared("Equal"),
    "EXP": exp,
    "FLOOR_DIV": floor_div,
    "FLOOR_MOD": floor_mod,
    "GELU": gelu,
    "GREATER": _compared("Greater"),
    "GREATER_EQUAL": _compared("GreaterOrEqual"),
    "HARD_SWISH": hard_swish,
    "LEAKY_RELU": leaky_relu,
    "LESS": _compared("Less"),
    "LESS_EQUAL": _compared("LessOrEqual"),
    "LOGICAL_AND": _of_raw("And", 2),
    "LOGICAL_NOT": _of_raw("Not", 1),
    "LOGICAL_OR": _of_raw("Or", 2),
    "BITWISE_XOR": _of_raw("BitwiseXor", 2),
    "LOGISTIC": logistic,
    "MUL": multiply,
    "NOT_EQUAL": _compared("Equal", negated=True),
    "POW": power,
    "PRELU": prelu,
    "RELU": _activation("RELU"),
    "RELU6": _activation("RELU6"),
    "RELU_0_TO_1": _activation("RELU_0_TO_1"),
    "RELU_N1_TO_1": _activation("RELU_N1_TO_1"),
    "RSQRT": rsqrt,
    "SELECT": select,
    "SELECT_V2": select_v2,
    "SQUARE": square,
    "SUB": _sum("Sub"),
    "SQUARED_DIFFERENCE": squared_difference,
    "TANH": tanh,
    "ZEROS_LIKE": zeros_like,
}

TRANSLATORS: Mapping[str, Translator] = {
    **{name: _plain(operator, 1) for name, operator in _UNARY.items()},
    **{name: _plain(operator, 2) for name, operator in _BINARY.items()},
    **_OWN,
}
"""Operators that compute each element from those at its place."""
