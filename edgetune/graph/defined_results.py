"""Results that TVM's LLVM back end leaves undefined, written out as the C of kernels defines them.

Integer division by zero gives 0, the smallest integer divided by -1 wraps, and a float that does not fit an integer
saturates (`codegen/scalar_snippets.py`). In LLVM they stop the process, or give any number. `fmod`, for which that back
end has no rule, is a call of the C library's.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tvm_ffi
from tvm import ir, tirx

from edgetune.graph.tvm_types import Expr, PrimFunc

_QUOTIENTS = (tirx.Div, tirx.FloorDiv)
_REMAINDERS = (tirx.Mod, tirx.FloorMod)
_FMOD = {"float32": "fmodf", "float64": "fmod"}


def with_defined_results(function: PrimFunc) -> PrimFunc:
    """`function`, unscheduled, whose divisions, conversions and `fmod` have a result for all operands."""
    callbacks = [(kind, _divided) for kind in (*_QUOTIENTS, *_REMAINDERS)]
    return tvm_ffi.structural_map(function, [*callbacks, (tirx.Cast, _converted), (ir.Call, _called)])


def _divided(node: Expr) -> Expr:
    """A quotient or remainder of integers, unless its divisor is known and neither 0 nor -1."""
    dtype = str(node.ty.dtype)
    if not dtype.startswith(("int", "uint")):
        return node
    if isinstance(node.b, tirx.IntImm) and int(node.b.value) not in (0, -1):
        return node
    a, b, number = tirx.Var("dividend", dtype), tirx.Var("divisor", dtype), _numbers(dtype)
    zero = b.equal(number(0))
    if dtype.startswith("int"):
        special = tirx.Select(zero, number(0), number(0) - a if isinstance(node, _QUOTIENTS) else number(0))
        # A selection would divide first.
        chosen = tirx.if_then_else(tirx.any(zero, b.equal(number(-1))), special, type(node)(a, b))
    else:
        chosen = tirx.Select(zero, number(0), type(node)(a, tirx.max(b, number(1))))
    return tirx.Let(a, node.a, tirx.Let(b, node.b, chosen))


def _converted(node: Expr) -> Expr:
    """A float as an integer: the nearest that there is towards zero, and 0 for NaN."""
    dtype, source = str(node.ty.dtype), str(node.value.ty.dtype)
    if not source.startswith(("float", "bfloat")) or not dtype.startswith(("int", "uint")):
        return node
    limits, number = np.iinfo(dtype), _numbers(dtype)
    wide = source if source == "float64" else "float32"  # float16 has no number beyond the larger integers
    value = tirx.Var("real", wide)
    top, low = (tirx.const(float(one), wide) for one in (2 ** (limits.bits - (limits.min < 0)), limits.min))
    inside = tirx.Select(value >= low, tirx.Cast(dtype, value), number(limits.min))
    whole = tirx.Select(value >= top, number(limits.max), inside)
    chosen = tirx.Select(tirx.isnan(value), number(0), whole)  # TVM takes what is not above for below
    return tirx.Let(value, node.value if source == wide else tirx.Cast(wide, node.value), chosen)


def _called(node: Expr) -> Expr:
    dtype = str(node.ty.dtype) if hasattr(node.ty, "dtype") else ""
    if not isinstance(node.op, ir.Op) or node.op.name != "tirx.fmod" or dtype not in _FMOD:
        return node
    return tirx.call_pure_extern(dtype, _FMOD[dtype], *node.args)


def _numbers(dtype: str) -> Callable[[int], Expr]:
    return lambda value: tirx.const(value, dtype)
