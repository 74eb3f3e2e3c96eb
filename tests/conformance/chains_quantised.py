"""Chains of quantised operators, of conversions to narrow types and back, and of operators of several kinds.

Scales have digits enough that no sum lies half-way between two integers.
"""

from __future__ import annotations

import numpy as np

from tests.conformance.chain import Chain, floats, ints, twice

_U8 = np.array(120, "uint8")
_I8 = np.array(-3, "int8")
_FLAT = "float32[2,3,4]"


def _convolutions(name: str, data: str, weights: str, weight_scale: np.ndarray, call: str, opset: int = 21) -> Chain:
    """Two quantised convolutions; zero points have the type of what they belong to."""
    kinds = [_U8 if values.startswith("uint8") else _I8 for values in (data, weights)]
    zeros = np.full(weight_scale.shape, 2, kinds[1].dtype)
    return Chain(
        name, (f"t = QLinearConv{call.replace('X', 'x')}", f"y = QLinearConv{call.replace('X', 't')}"), {"x": data},
        {"w": weights, "xs": floats(0.0213), "xz": kinds[0], "ws": weight_scale, "wz": zeros,
         "b": np.array([100, -70, 3, 41], "int32")}, opset,
    )  # fmt: skip


_PLAIN = "<pads=[1, 1, 1, 1]>(X, xs, xz, w, ws, wz, xs, xz)"


def _there_and_back(name: str, element: int, opset: int, scale: float = 0.1) -> Chain:
    """QuantizeLinear and DequantizeLinear, twice, in a type that its number names."""
    nodes = (
        f"q = QuantizeLinear<output_dtype={element}>(x, s)", "t = DequantizeLinear(q, s)",
        f"p = QuantizeLinear<output_dtype={element}>(t, r)", "y = DequantizeLinear(p, r)",
    )  # fmt: skip
    return Chain(name, nodes, {"x": _FLAT}, {"s": floats(scale), "r": floats(1.5 * scale)}, opset)


_TYPES = {
    "uint8": (2, 21),
    "int8": (3, 21),
    "uint16": (4, 21),
    "int16": (5, 21),
    "float8e4m3fn": (17, 21),
    "float8e4m3fnuz": (18, 21),
    "float8e5m2": (19, 21),
    "float8e5m2fnuz": (20, 21),
    "uint4": (21, 21),
    "int4": (22, 21),
    "float4e2m1": (23, 23),
    "uint2": (25, 25),
    "int2": (26, 25),
}

QUANTISED = (
    _convolutions("QLinearConv", "uint8[1,4,6,6]", "int8[4,4,3,3]", floats(0.00317), _PLAIN),
    _convolutions("QLinearConv before 13", "uint8[1,4,6,6]", "int8[4,4,3,3]", floats(0.00317), _PLAIN, 10),
    _convolutions(
        "QLinearConv per channel with bias", "int8[1,4,6,6]", "int8[4,4,3,3]",
        floats(0.00317, 0.00211, 0.00413, 0.00107),
        "<pads=[1, 1, 1, 1]>(X, xs, xz, w, ws, wz, xs, xz, b)",
    ),
    _convolutions("QLinearConv of uint8 weights", "uint8[1,4,6,6]", "uint8[4,4,3,3]", floats(0.001), _PLAIN),
    _convolutions(
        "QLinearConv depthwise, strides, dilations", "uint8[1,4,9,9]", "int8[4,1,3,3]", floats(0.00971),
        "<group=4, pads=[2, 2, 2, 2], strides=[2, 1], dilations=[1, 2]>(X, xs, xz, w, ws, wz, xs, xz)",
    ),
    _convolutions(
        "QLinearConv of one axis", "uint8[1,4,9]", "int8[4,4,3]", floats(0.00317), "(X, xs, xz, w, ws, wz, xs, xz)",
    ),
    _convolutions(
        "QLinearConv of three axes", "uint8[1,4,3,4,4]", "int8[4,4,1,3,3]", floats(0.00317),
        '<auto_pad="SAME_UPPER">(X, xs, xz, w, ws, wz, xs, xz)',
    ),
    twice(
        "QLinearMatMul", "QLinearMatMul(X, xs, xz, w, ws, wz, xs, xz)", "uint8[2,3,4]",
        w="uint8[4,4]", xs=floats(0.0213), xz=_U8, ws=floats(0.00531), wz=_U8,
    ),
    twice(
        "QLinearMatMul per column", "QLinearMatMul(X, xs, xz, w, ws, wz, xs, xz)", "int8[3,4]",
        w="int8[4,4]", xs=floats(0.0213), xz=_I8, ws=floats(0.00531, 0.00207, 0.00409, 0.00311),
        wz=np.array([1, 0, -2, 3], "int8"),
    ),
    Chain(
        "ConvInteger through DynamicQuantizeLinear",
        (
            "q, s, z = DynamicQuantizeLinear(x)", "c = ConvInteger<pads=[1, 1, 1, 1]>(q, w, z)",
            "f = Cast<to=1>(c)", "t = Mul(f, s)",
            "p, r, v = DynamicQuantizeLinear(t)", "d = ConvInteger<pads=[1, 1, 1, 1]>(p, w, v)",
            "g = Cast<to=1>(d)", "y = Mul(g, r)",
        ),
        {"x": "float32[1,4,5,5]"}, {"w": "int8[4,4,3,3]"},
    ),
    Chain(
        "MatMulInteger through DynamicQuantizeLinear",
        (
            "q, s, z = DynamicQuantizeLinear(x)", "c = MatMulInteger(q, w, z)", "f = Cast<to=1>(c)", "t = Mul(f, s)",
            "p, r, v = DynamicQuantizeLinear(t)", "d = MatMulInteger(p, w, v)", "g = Cast<to=1>(d)", "y = Mul(g, r)",
        ),
        {"x": "float32[3,4]"}, {"w": "int8[4,4]"},
    ),
    Chain(
        "ConvInteger through Cast",
        (
            "c = ConvInteger(x, w)", "m = BitwiseAnd(c, mask)", "t = Cast<to=2>(m)", "y = ConvInteger(t, w)",
        ),
        {"x": "uint8[1,4,6,6]"}, {"w": "uint8[4,4,3,3]", "mask": np.array(255, "int32")},
    ),
    Chain(
        "MatMulInteger through Cast",
        ("c = MatMulInteger(x, w)", "m = BitwiseAnd(c, mask)", "t = Cast<to=2>(m)", "y = MatMulInteger(t, w)"),
        {"x": "uint8[3,4]"}, {"w": "uint8[4,4]", "mask": np.array(255, "int32")},
    ),
    Chain(
        "DynamicQuantizeLinear, DequantizeLinear",
        (
            "q, s, z = DynamicQuantizeLinear(x)", "t = DequantizeLinear(q, s, z)",
            "p, r, v = DynamicQuantizeLinear(t)", "y = DequantizeLinear(p, r, v)",
        ),
        {"x": _FLAT},
    ),
    *(_there_and_back(f"QuantizeLinear, DequantizeLinear of {name}", *how) for name, how in _TYPES.items()),
    Chain(
        "QuantizeLinear, DequantizeLinear per channel",
        (
            "q = QuantizeLinear<axis=1>(x, s, z)", "t = DequantizeLinear<axis=1>(q, s, z)",
            "p = QuantizeLinear<axis=2>(t, r, v)", "y = DequantizeLinear<axis=2>(p, r, v)",
        ),
        {"x": "float32[2,3,4]"},
        {"s": floats(0.01, 0.02, 0.03), "z": np.array([1, -2, 3], "int8"), "r": floats(0.1, 0.2, 0.05, 0.1),
         "v": np.array([128, 127, 120, 130], "uint8")},
    ),
    Chain(
        "QuantizeLinear, DequantizeLinear in blocks",
        (
            "q = QuantizeLinear<axis=1, block_size=2>(x, s, z)", "t = DequantizeLinear<axis=1, block_size=2>(q, s, z)",
            "p = QuantizeLinear<axis=1, block_size=2>(t, s, z)", "y = DequantizeLinear<axis=1, block_size=2>(p, s, z)",
        ),
        {"x": "float32[2,4]"},
        {"s": np.array([[0.01, 0.02], [0.03, 0.05]], "float32"), "z": np.array([[1, -2], [3, 0]], "int8")},
    ),
    Chain(
        "QuantizeLinear, DequantizeLinear in blocks of int4",
        (
            "q = QuantizeLinear<axis=1, block_size=2, output_dtype=22>(x, s)",
            "t = DequantizeLinear<axis=1, block_size=2>(q, s)",
            "p = QuantizeLinear<axis=1, block_size=2, output_dtype=22>(t, s)",
            "y = DequantizeLinear<axis=1, block_size=2>(p, s)",
        ),
        {"x": "float32[2,4]"}, {"s": np.array([[0.1, 0.2], [0.3, 0.5]], "float32")},
    ),
    *(
        Chain(f"Cast to {name} and back", (f"q = Cast<to={how[0]}>(x)", "t = Cast<to=1>(q)", "d = Sin(t)",
              f"p = Cast<to={how[0]}>(d)", "y = Cast<to=1>(p)"), {"x": _FLAT}, {}, how[1])
        for name, how in _TYPES.items() if how[0] > 16
    ),
)  # fmt: skip

MIXED = (
    Chain(
        "Conv between QuantizeLinear and DequantizeLinear, QLinearConv, QLinearMatMul",
        (
            "q = QuantizeLinear(x, xs, xz)", "d = DequantizeLinear(q, xs, xz)", "k = DequantizeLinear(w, ws, wz)",
            "c = Conv<pads=[1, 1, 1, 1]>(d, k)", "p = QuantizeLinear(c, xs, xz)",
            "t = QLinearConv<pads=[1, 1, 1, 1]>(p, xs, xz, w, ws, wz, xs, xz)",
            "y = QLinearMatMul(t, xs, xz, v, ws, wz, xs, xz)",
        ),
        {"x": "float32[1,4,4,4]"},
        {"w": "int8[4,4,3,3]", "v": "int8[4,4]", "xs": floats(0.0213), "xz": _U8, "ws": floats(0.00317), "wz": _I8},
    ),
    Chain(
        "QLinearConv, DequantizeLinear, Resize, LpNormalization, DynamicQuantizeLinear, ConvInteger",
        (
            "a = QLinearConv<pads=[1, 1, 1, 1]>(x, xs, xz, w, ws, wz, xs, xz)", "d = DequantizeLinear(a, xs, xz)",
            'u = Resize<mode="linear", antialias=1>(d, , n)', "l = LpNormalization<axis=1>(u)",
            "q, s, z = DynamicQuantizeLinear(l)", "y = ConvInteger(q, w, z)",
        ),
        {"x": "uint8[1,4,4,4]"},
        {"w": "int8[4,4,3,3]", "xs": floats(0.0213), "xz": _U8, "ws": floats(0.00317), "wz": _I8,
         "n": floats(1, 1, 1.5, 1.25)},
    ),
    Chain(
        "QLinearMatMul, Slice, Pad, Cast, Mod, Pow of two types",
        (
            "a = QLinearMatMul(x, xs, xz, w, ws, wz, xs, xz)", "b = Slice(a, b0, e0, a0, s0)",
            "c = Pad(b, pads)", "d = Cast<to=1>(c)", "e = Mod(d, m)", "y = Pow(e, two)",
        ),
        {"x": "uint8[3,4]"},
        {"w": "uint8[4,4]", "xs": floats(0.0213), "xz": _U8, "ws": floats(0.00531), "wz": _U8, "b0": ints(-1),
         "e0": ints(-99), "a0": ints(1), "s0": ints(-2), "pads": ints(0, 1, 0, 1), "m": floats(1.5),
         "two": np.array(2, "int64")},
        opset=28,
    ),
)  # fmt: skip
