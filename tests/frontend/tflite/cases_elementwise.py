"""Forms of the operators that compute each element from those at its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.frontend.tflite.branches import Branches, Cases, Range
from tests.frontend.tflite.writer import Quantised

_SHAPES = (((3, 4, 5), (3, 4, 5)), ((2, 3, 4, 5), (5,)), ((3, 1, 5), (4, 1)), ((4, 7), ()))


def _unary(operator: str, of: Range = (-4, 4), to: Range = (-4, 4), kind: str = "", **options: Any) -> Cases:
    def cases(b: Branches) -> None:
        for shape in ((3, 40), (2, 3, 4, 5)):
            b.make(operator, [b.x(*shape, low=of[0], high=of[1])], to, kind=kind, **options)

    return cases


def _same(operator: str, kind: str = "") -> Cases:
    def cases(b: Branches) -> None:
        x = b.x(4, 30)
        b.make(operator, [x], x, kind=kind)

    return cases


def _binary(
    operator: str, right: Range, to: Range, kind: str = "", *, activations: bool = False, exact: bool = False
) -> Cases:
    def cases(b: Branches) -> None:
        for place, (one, other) in enumerate(_SHAPES):
            second = b.constant if place == 1 else b.x
            inputs = [b.x(*one), second(*other, low=right[0], high=right[1])]
            options = {"FusedActivationFunction": place} if activations and place < 2 else {}
            b.make(operator, inputs, to, kind=kind, exact=exact and b.is_narrow, **options)
        if activations:
            inputs = [b.x(6, 7, low=right[0], high=right[1]), b.x(6, 7)]
            if operator == "DIV":
                inputs.reverse()
            options = {"FusedActivationFunction": 3}
            b.make(operator, inputs, to, kind=kind, exact=exact and b.is_narrow, **options)
        if b.type == "INT16" and operator in {"ADD", "SUB"}:  # scales of powers of 2, more or less
            inputs = [b.x(300, low=-1, high=1), b.x(300)]
            b.make(operator, inputs, (-4, 4), kind=kind, exact=True)
            b.make(operator, inputs, (-4, 4), kind=kind, PotScaleInt16=False)
        if b.is_float and operator != "DIV":
            inputs = [b.fed(b.random.integers(-99, 99, (4, 5)), "INT32"), b.fed(b.random.integers(1, 9, 5), "INT32")]
            b.make(operator, inputs, "INT32", kind=kind, exact=True)

    return cases


def _compared(operator: str, kind: str) -> Cases:
    def cases(b: Branches) -> None:
        for one, other in _SHAPES:
            b.make(operator, [b.x(*one), b.x(*other, low=-3, high=5)], "BOOL", kind=kind)
        if b.is_float:
            inputs = [b.fed(b.random.integers(0, 4, (5, 6)), "INT32"), b.fed(b.random.integers(0, 4, 6), "INT32")]
            b.make(operator, inputs, "BOOL", kind=kind, exact=True)

    return cases


def _logical(operator: str, kind: str, operands: int = 2) -> Cases:
    def cases(b: Branches) -> None:
        inputs = [b.fed(b.random.uniform(size=(6, 7)) < 0.5, "BOOL") for _ in range(operands)]
        b.make(operator, inputs, "BOOL", kind=kind, exact=True)

    return cases


def add_n(b: Branches) -> None:
    b.make("ADD_N", [b.x(4, 5), b.x(4, 5), b.x(4, 5)], "FLOAT32", kind="AddNOptions")


def atan2(b: Branches) -> None:
    b.make("ATAN2", [b.x(8, 9), b.x(8, 9)], "FLOAT32", kind="ATan2Options")
    signs = [0.0, 1.0, -1.0]
    inputs = [b.fed(np.repeat(signs, 3), "FLOAT32"), b.fed(np.tile(signs, 3), "FLOAT32")]
    b.make("ATAN2", inputs, "FLOAT32", kind="ATan2Options")


def bucketize(b: Branches) -> None:
    boundaries = np.array([-2, -0.5, 1, 3], np.float32)
    b.make("BUCKETIZE", [b.x(5, 9)], "INT32", kind="BucketizeOptions", exact=True, Boundaries=boundaries)
    x = b.fed(b.random.integers(-4, 5, (5, 9)), "INT32")
    b.make("BUCKETIZE", [x], "INT32", kind="BucketizeOptions", exact=True, Boundaries=boundaries)


def bitwise(b: Branches) -> None:
    for type_ in ("INT32", "UINT8", "INT16"):
        inputs = [b.fed(b.random.integers(0, 120, (5, 6)), type_) for _ in range(2)]
        b.make("BITWISE_XOR", inputs, type_, kind="BitwiseXorOptions", exact=True)


def prelu(b: Branches) -> None:
    for shape, slopes in (((2, 4, 5, 3), (1, 1, 3)), ((2, 4, 5, 3), (4, 5, 3)), ((7, 9), (7, 9))):
        b.make("PRELU", [b.x(*shape), b.constant(*slopes, low=-0.5, high=1.5)], (-6, 4))


def leaky_relu(b: Branches) -> None:
    for alpha in (0.1, 0.3, 1.7, -0.5):
        b.make("LEAKY_RELU", [b.x(6, 30)], (-7, 4), kind="LeakyReluOptions", Alpha=alpha)


def gelu(b: Branches) -> None:
    for approximate in (False, True):
        b.make("GELU", [b.x(4, 30)], (-0.2, 4), kind="GeluOptions", Approximate=approximate)


def logistic(b: Branches) -> None:
    result = {"INT8": (1 / 256, -128), "UINT8": (1 / 256, 0), "INT16": (1 / 32768, 0)}.get(b.type, (1, 0))
    for spread in (6, 1):
        x = b.x(4, 40, low=-spread, high=spread)
        b.make("LOGISTIC", [x], Quantised([result[0]], [result[1]]))


def tanh(b: Branches) -> None:
    result = {"INT8": (1 / 128, 0), "UINT8": (1 / 128, 128), "INT16": (1 / 32768, 0)}.get(b.type, (1, 0))
    for spread in (6, 1):
        x = b.x(4, 40, low=-spread, high=spread)
        b.make("TANH", [x], Quantised([result[0]], [result[1]]))


def select(b: Branches) -> None:
    for shape in ((4, 5, 6), (4,)):
        x = b.x(4, 5, 6)
        condition = b.fed(b.random.uniform(size=shape) < 0.5, "BOOL")
        b.make("SELECT", [condition, x, b.like(x, 4, 5, 6)], x, kind="SelectOptions", exact=True)


def select_v2(b: Branches) -> None:
    for shape, one, other in (((4, 5, 6), (4, 5, 6), (4, 5, 6)), ((5, 1), (4, 1, 6), (6,)), ((6,), (), (5, 6))):
        x = b.x(*one)
        condition = b.fed(b.random.uniform(size=shape) < 0.5, "BOOL")
        b.make("SELECT_V2", [condition, x, b.like(x, *other)], x, kind="SelectV2Options", exact=True)


def power(b: Branches) -> None:
    for one, other in _SHAPES:
        b.make("POW", [b.x(*one, low=0.2), b.x(*other, low=-2, high=2)], "FLOAT32", kind="PowOptions")
    inputs = [b.fed(b.random.integers(-4, 5, (4, 5)), "INT32"), b.fed(b.random.integers(0, 5, 5), "INT32")]
    b.make("POW", inputs, "INT32", kind="PowOptions", exact=True)


def floor_div(b: Branches) -> None:
    for one, other in _SHAPES[:3]:
        b.make("FLOOR_DIV", [b.x(*one), b.x(*other, low=0.3, high=2)], "FLOAT32", kind="FloorDivOptions", exact=True)
    inputs = [b.fed(b.random.integers(-99, 99, (4, 5)), "INT32"), b.fed([2, -3, 5, -7, 1], "INT32")]
    b.make("FLOOR_DIV", inputs, "INT32", kind="FloorDivOptions", exact=True)


def floor_mod(b: Branches) -> None:
    for one, other in _SHAPES[:3]:
        b.make("FLOOR_MOD", [b.x(*one), b.x(*other, low=0.3, high=2)], "FLOAT32", kind="FloorModOptions")
        b.make("FLOOR_MOD", [b.x(*one), b.x(*other, low=-2, high=-0.3)], "FLOAT32", kind="FloorModOptions")
    for type_ in ("INT32", "INT64"):
        inputs = [b.fed(b.random.integers(-99, 99, (4, 5)), type_), b.fed([2, -3, 5, -7, 1], type_)]
        b.make("FLOOR_MOD", inputs, type_, kind="FloorModOptions", exact=True)


def rounded(b: Branches) -> None:
    x = b.fed(np.arange(-30, 30).reshape(4, 15) / 4, "FLOAT32")
    b.make("ROUND", [x], "FLOAT32", exact=True)


def zeros_like(b: Branches) -> None:
    b.make("ZEROS_LIKE", [b.x(4, 5)], "FLOAT32", kind="ZerosLikeOptions", exact=True)
    b.make("ZEROS_LIKE", [b.fed(b.random.integers(0, 9, 7), "INT32")], "INT32", kind="ZerosLikeOptions", exact=True)


def absolute(b: Branches) -> None:
    _unary("ABS", to=(0, 4), kind="AbsOptions")(b)
    if b.is_float:
        b.make("ABS", [b.fed(b.random.integers(-9, 9, 30), "INT32")], "INT32", kind="AbsOptions", exact=True)


def squared_difference(b: Branches) -> None:
    _binary("SQUARED_DIFFERENCE", (-3, 3), (0, 40), "SquaredDifferenceOptions")(b)


def quantize(b: Branches) -> None:
    if b.is_float:
        return
    real = b.fed(b.random.uniform(-4.2, 4.2, (5, 60)), "FLOAT32")
    b.make("QUANTIZE", [real], (-4, 4), kind="QuantizeOptions", exact=True)
    for to in ((-3, 5), (-1, 1)):
        b.make("QUANTIZE", [b.x(5, 60)], to, kind="QuantizeOptions", exact=True)


def requantize(b: Branches) -> None:
    quantize(b)
    types = {"INT8": ("UINT8", "INT16"), "UINT8": ("INT8",), "INT16": ("INT8",)}[b.type]
    for type_ in types:
        other = Branches(type_).quantised(-3, 5)
        assert other is not None
        made = b.writer.tensor((), type_, other, f"QUANTIZE.to.{type_}")
        b.make("QUANTIZE", [b.x(5, 60)], made, kind="QuantizeOptions", exact=True)


def dequantize(b: Branches) -> None:
    if b.is_float:
        half = b.writer.constant(b.random.uniform(-2, 2, (4, 5)), "FLOAT16")
        b.make("DEQUANTIZE", [half], "FLOAT32", kind="DequantizeOptions")
        return
    b.make("DEQUANTIZE", [b.x(5, 6)], "FLOAT32", kind="DequantizeOptions")


def densify(b: Branches) -> None:
    whole = b.random.uniform(-2, 2, (6, 5)) * (b.random.uniform(0, 1, (6, 5)) > 0.6)
    b.make("DENSIFY", [b.writer.sparse(whole, "FLOAT32")], "FLOAT32", kind="DensifyOptions", exact=True)


def cast(b: Branches) -> None:
    numbers = {"FLOAT32": 0, "INT32": 2, "UINT8": 3, "INT64": 4, "BOOL": 6, "INT16": 7, "INT8": 9}
    for of, to in (("FLOAT32", "INT32"), ("INT32", "FLOAT32"), ("BOOL", "FLOAT32"), ("FLOAT32", "BOOL"),
                   ("INT64", "INT32"), ("UINT8", "FLOAT32"), ("INT8", "INT32"), ("FLOAT32", "INT8"),
                   ("INT16", "FLOAT32")):  # fmt: skip
        x = b.fed(b.random.uniform(0, 2, 20) > 1 if of == "BOOL" else b.random.uniform(0, 90, 20), of)
        options = {"InDataType": numbers[of], "OutDataType": numbers[to]}
        b.make("CAST", [x], to, kind="CastOptions", exact=True, **options)


def fake_quant(b: Branches) -> None:
    for low, high, bits, narrow in ((-2, 3, 8, False), (-1.1, 3.3, 8, False), (0.5, 4, 6, False)):
        options: dict[str, Any] = {"Min": low, "Max": high, "NumBits": bits, "NarrowRange": narrow}
        b.make("FAKE_QUANT", [b.x(6, 20)], "FLOAT32", kind="FakeQuantOptions", **options)


_FLOAT, _ALL = {"FLOAT32"}, {"FLOAT32", "INT8", "UINT8", "INT16"}
_WIDE, _NARROW, _SIGNED = {"FLOAT32", "INT8", "INT16"}, {"FLOAT32", "INT8", "UINT8"}, {"FLOAT32", "INT8"}

CASES: Mapping[str, tuple[Cases, set[str]]] = {
    "ABS": (absolute, _WIDE),
    "ADD": (_binary("ADD", (-3, 5), (-7, 9), "AddOptions", activations=True, exact=True), _ALL),
    "ADD_N": (add_n, _FLOAT),
    "ATAN2": (atan2, _FLOAT),
    "BITWISE_XOR": (bitwise, _FLOAT),
    "BUCKETIZE": (bucketize, _FLOAT),
    "CAST": (cast, _FLOAT),
    "CEIL": (_unary("CEIL"), _FLOAT),
    "COS": (_unary("COS", kind="CosOptions"), _FLOAT),
    "DENSIFY": (densify, _FLOAT),
    "DEQUANTIZE": (dequantize, _ALL),
    "DIV": (_binary("DIV", (0.5, 2), (-6, 6), "DivOptions", activations=True), _ALL),
    "ELU": (_unary("ELU", to=(-1, 4)), _SIGNED),
    "EQUAL": (_compared("EQUAL", "EqualOptions"), _ALL),
    "EXP": (_unary("EXP", of=(-3, 2), to=(0, 8), kind="ExpOptions"), _WIDE),
    "FAKE_QUANT": (fake_quant, _FLOAT),
    "FLOOR": (_unary("FLOOR"), _FLOAT),
    "FLOOR_DIV": (floor_div, _FLOAT),
    "FLOOR_MOD": (floor_mod, _FLOAT),
    "GELU": (gelu, _ALL),
    "GREATER": (_compared("GREATER", "GreaterOptions"), _NARROW),
    "GREATER_EQUAL": (_compared("GREATER_EQUAL", "GreaterEqualOptions"), _NARROW),
    "HARD_SWISH": (_unary("HARD_SWISH", to=(-0.4, 4)), _NARROW),
    "LEAKY_RELU": (leaky_relu, _ALL),
    "LESS": (_compared("LESS", "LessOptions"), _NARROW),
    "LESS_EQUAL": (_compared("LESS_EQUAL", "LessEqualOptions"), _NARROW),
    "LOG": (_unary("LOG", of=(0.1, 8), to=(-3, 3)), _SIGNED),
    "LOGICAL_AND": (_logical("LOGICAL_AND", "LogicalAndOptions"), _FLOAT),
    "LOGICAL_NOT": (_logical("LOGICAL_NOT", "LogicalNotOptions", 1), _FLOAT),
    "LOGICAL_OR": (_logical("LOGICAL_OR", "LogicalOrOptions"), _FLOAT),
    "LOGISTIC": (logistic, _ALL),
    "MAXIMUM": (_binary("MAXIMUM", (-4, 4), (-4, 4), "MaximumMinimumOptions"), _ALL),
    "MINIMUM": (_binary("MINIMUM", (-4, 4), (-4, 4), "MaximumMinimumOptions"), _ALL),
    "MUL": (_binary("MUL", (-3, 5), (-12, 14), "MulOptions", activations=True, exact=True), _ALL),
    "NEG": (_unary("NEG", kind="NegOptions"), {"FLOAT32", "INT16"}),
    "NOT_EQUAL": (_compared("NOT_EQUAL", "NotEqualOptions"), _ALL),
    "POW": (power, _FLOAT),
    "PRELU": (prelu, _NARROW),
    "QUANTIZE": (requantize, {"INT8", "UINT8", "INT16"}),
    "RELU": (_unary("RELU", to=(0, 4)), _ALL),
    "RELU6": (_unary("RELU6", of=(-4, 9), to=(0, 6)), _ALL),
    "RELU_0_TO_1": (_unary("RELU_0_TO_1", to=(0, 1)), _NARROW),
    "RELU_N1_TO_1": (_unary("RELU_N1_TO_1", to=(-1, 1)), _NARROW),
    "ROUND": (rounded, _FLOAT),
    "RSQRT": (_unary("RSQRT", of=(0.1, 8), to=(0, 3)), _SIGNED),
    "SELECT": (select, _ALL),
    "SELECT_V2": (select_v2, _ALL),
    "SIGN": (_same("SIGN", "SignOptions"), _FLOAT),
    "SIN": (_unary("SIN"), _FLOAT),
    "SQRT": (_unary("SQRT", of=(0, 8), to=(0, 3)), _FLOAT),
    "SQUARE": (_unary("SQUARE", to=(0, 16), kind="SquareOptions"), _FLOAT),
    "SQUARED_DIFFERENCE": (squared_difference, _SIGNED),
    "SUB": (_binary("SUB", (-3, 5), (-9, 7), "SubOptions", activations=True, exact=True), _ALL),
    "TANH": (tanh, _ALL),
    "ZEROS_LIKE": (zeros_like, _FLOAT),
}
"""Forms of an operator, and the types that LiteRT's reference kernels take."""
