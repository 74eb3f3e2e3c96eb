"""Fixed-point scaling as a call in TIR, which code generators print as one function.

A process that reads kernels which have such calls imports this module first, because TVM asks for their operators then.

A scale (uint32) stands for m / 2^31 / 2^right. Its last 5 bits are `right`, the others are those of m / 8 after the
first one, so that 2^30 <= m < 2^31.
"""

from __future__ import annotations

from collections.abc import Callable

import tvm
import tvm_ffi
from tvm import tirx

from edgetune.tvm_types import Expr

FIXED_POINT_SCALE = "edgetune.fixed_point_scale"
"""Operator of (x int32, scale uint32): x * m / 2^31, rounded with ties up, / 2^right, rounded with ties away from 0
(`MultiplyByQuantizedMultiplier` of TensorFlow Lite; Jacob et al. 2017, section 2.2)."""

FIXED_POINT_SCALE_ONCE = "edgetune.fixed_point_scale_once"
"""Operator of (x int32, scale uint32): x * m / 2^(31 + right), rounded with ties up."""

LEAST_SHIFT = 2
"""The shift from which on some instruction sets need fewer instructions."""

LEAST_VECTOR_SHIFT = 1
"""The same where the lanes of a vector are scaled."""

MOST_LITTLE_SHIFT = 12
"""The shift up to which they need still fewer, where the result is limited to a byte."""

_PURE = 1  # CallEffectKind: the same operands give the same result


def fixed_point_scale(x: Expr, scale: Expr) -> Expr:
    """The call that rounds twice."""
    return tirx.call_intrin("int32", FIXED_POINT_SCALE, x, scale)


def fixed_point_scale_once(x: Expr, scale: Expr) -> Expr:
    """The call that rounds once."""
    return tirx.call_intrin("int32", FIXED_POINT_SCALE_ONCE, x, scale)


def _product(x: Expr, scale: Expr) -> tuple[Expr, Expr]:
    """The number x * m (int64), and the shift to the right (int32)."""
    digits = (scale >> tirx.const(5, "uint32")) + tirx.const(1 << 27, "uint32")
    multiplier = (digits << tirx.const(3, "uint32")).astype("int64")
    return x.astype("int64") * multiplier, (scale & tirx.const(31, "uint32")).astype("int32")


def _rounded_twice(call: Expr) -> Expr:
    """The same in arithmetic, for back ends of TVM."""
    product, right = _product(*call.args)
    high = ((product + tirx.const(1 << 30, "int64")) >> tirx.const(31, "int64")).astype("int32")
    zero, one = tirx.const(0, "int32"), tirx.const(1, "int32")
    mask = tirx.const((1 << 31) - 1, "int32") >> (tirx.const(31, "int32") - right)
    half = (mask >> one) + tirx.Select(high < zero, one, zero)
    return (high >> right) + tirx.Select((high & mask) > half, one, zero)


def _rounded_once(call: Expr) -> Expr:
    product, right = _product(*call.args)
    places = right.astype("int64")
    half = tirx.const(1 << 30, "int64") << places
    return ((product + half) >> (places + tirx.const(31, "int64"))).astype("int32")


def _register(name: str, described: str, lowered: Callable[[Expr], Expr]) -> None:
    tvm_ffi.get_global_func("ir.RegisterOp")(name, described)
    for key, value in (
        ("TCallEffectKind", _PURE),
        ("TVectorizable", True),
        ("TScriptPrinterName", name.rpartition(".")[2]),
        ("default.FLowerIntrinsic", lowered),
    ):
        tvm.ir.register_op_attr(name, key, value)


_register(FIXED_POINT_SCALE, "integers times a fraction, rounded twice", _rounded_twice)
_register(FIXED_POINT_SCALE_ONCE, "integers times a fraction, rounded once", _rounded_once)
