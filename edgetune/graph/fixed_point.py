"""Fixed-point scaling as a call in TIR, which code generators print as one function.

A process that reads kernels which have such calls imports this module first, because TVM asks for their operator then.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import tirx

from edgetune.graph.tvm_types import Expr

FIXED_POINT_SCALE = "edgetune.fixed_point_scale"
"""Operator of (x int32, scale uint32): x * m / 2^31, rounded with ties up, / 2^right, rounded with ties away from 0
(`MultiplyByQuantizedMultiplier` of TensorFlow Lite; Jacob et al. 2017, section 2.2). The last 5 bits of a scale are
`right`, the others are those of m / 8 after the first one, and 2^30 <= m < 2^31."""

_PURE = 1  # CallEffectKind: the same operands give the same result


def fixed_point_scale(x: Expr, scale: Expr) -> Expr:
    """The call."""
    return tirx.call_intrin("int32", FIXED_POINT_SCALE, x, scale)


def fixed_point_scale_once(x: Expr, scale: Expr) -> Expr:
    """The number x * m / 2^(31 + right), rounded once, with ties up."""
    multiplier, right = _parts(scale)
    return tirx.q_multiply_shift(x, multiplier, tirx.const(31, "int32"), tirx.const(0, "int32") - right)


def _parts(scale: Expr) -> tuple[Expr, Expr]:
    """The multiplier and the shift to the right, int32."""
    if isinstance(scale, tirx.IntImm):
        value = int(scale.value)
        return tirx.const(((value >> 5) + (1 << 27)) << 3, "int32"), tirx.const(value & 31, "int32")
    digits = (scale >> tirx.const(5, "uint32")) + tirx.const(1 << 27, "uint32")
    return (digits << tirx.const(3, "uint32")).astype("int32"), (scale & tirx.const(31, "uint32")).astype("int32")


def _lowered(call: Expr) -> Expr:
    """The same in arithmetic, for back ends of TVM."""
    x, scale = call.args
    multiplier, right = _parts(scale)
    product = x.astype("int64") * multiplier.astype("int64") + tirx.const(1 << 30, "int64")
    high = (product >> tirx.const(31, "int64")).astype("int32")
    zero, one = tirx.const(0, "int32"), tirx.const(1, "int32")
    half = (one << right) >> one
    return (high + half - tirx.Select(tirx.And(high < zero, right > zero), one, zero)) >> right


def _register() -> None:
    tvm_ffi.get_global_func("ir.RegisterOp")(FIXED_POINT_SCALE, "integers times a fraction, in fixed point")
    for key, value in (
        ("TCallEffectKind", _PURE),
        ("TVectorizable", True),
        ("default.FLowerIntrinsic", _lowered),
    ):
        tvm.ir.register_op_attr(FIXED_POINT_SCALE, key, value)


_register()
