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
    number = _numbers(dtype)
    zero, minus = node.b.equal(number(0)), tirx.const(0, "bool")
    if dtype.startswith("int"):
        minus = node.b.equal(number(-1))
    result = type(node)(node.a, tirx.Select(tirx.any(zero, minus), number(1), node.b))
    wrapped = number(0) - node.a if isinstance(node, _QUOTIENTS) else number(0)
    return tirx.Select(zero, number(0), tirx.Select(minus, wrapped, result))


def _converted(node: Expr) -> Expr:
    """A float as an integer: the nearest that there is towards zero, and 0 for NaN."""
    dtype, source = str(node.ty.dtype), str(node.value.ty.dtype)
    if not source.startswith("float") or not dtype.startswith(("int", "uint")):
        return node
    limits, number = np.iinfo(dtype), _numbers(dtype)
    value = node.value
    if source == "float16":  # which has no number beyond the larger integers
        source, value = "float32", tirx.Cast("float32", value)
    above = value >= tirx.const(float(2 ** (limits.bits - (limits.min < 0))), source)
    low = tirx.const(float(limits.min), source)
    inside = value >= low if limits.min < 0 else value > low
    below = tirx.Select(value < low, number(limits.min), number(0))
    whole = tirx.Cast(dtype, tirx.Select(tirx.all(inside, tirx.Not(above)), value, tirx.const(0.0, source)))
    return tirx.Select(above, number(limits.max), tirx.Select(inside, whole, below))


def _called(node: Expr) -> Expr:
    dtype = str(node.ty.dtype) if hasattr(node.ty, "dtype") else ""
    if not isinstance(node.op, ir.Op) or node.op.name != "tirx.fmod" or dtype not in _FMOD:
        return node
    return tirx.call_pure_extern(dtype, _FMOD[dtype], *node.args)


def _numbers(dtype: str) -> Callable[[int], Expr]:
    return lambda value: tirx.const(value, dtype)
