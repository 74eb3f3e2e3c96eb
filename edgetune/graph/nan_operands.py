"""NaN in elementwise operators: maxima, minima and signs of NaN are NaN, as in ONNX Runtime and numpy.

A maximum in TIR keeps its first operand where either is NaN. With a bound that is known to be a number, that is
all it takes, in one instruction on most processors: the other operand comes first. Where both operands are known at run
time alone, the call of an operator of our own stands for a maximum that looks at the second one, too. Reductions and
pooling keep the plain maximum.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from tvm import relax, te, tirx, topi

from edgetune.graph.nan_extrema import MAXIMUM, MINIMUM, register_nan_extrema
from edgetune.graph.rewrite import constant
from edgetune.tvm_types import Expr, Tensor, Var

_LEGALISE = "FLegalize"


def keeping_nan() -> dict[str, Callable[[relax.BlockBuilder, relax.Call], relax.Expr]]:
    """How operators that drop NaN in TVM's own form are legalised, by the name of the operator."""
    return {
        "relax.maximum": partial(_extreme, maximum),
        "relax.minimum": partial(_extreme, minimum),
        "relax.sign": _sign,
    }


def maximum(a: Tensor | Expr, b: Tensor | Expr) -> te.Tensor:
    """max(a, b), which broadcast, one of them a literal or none; NaN where an element of a tensor is NaN."""
    return _keeping(topi.maximum, MAXIMUM, a, b)


def minimum(a: Tensor | Expr, b: Tensor | Expr) -> te.Tensor:
    """min(a, b), as `maximum`."""
    return _keeping(topi.minimum, MINIMUM, a, b)


def _keeping(plain: Callable[..., te.Tensor], name: str, a: Tensor | Expr, b: Tensor | Expr) -> te.Tensor:
    if not isinstance(a, te.Tensor):
        return plain(b, a)
    if not isinstance(b, te.Tensor) or not _is_float(a):
        return plain(a, b)
    rank = max(len(a.shape), len(b.shape))

    def extent(axis: int) -> int:
        found = [int(x.shape[axis - rank]) for x in (a, b) if axis - rank >= -len(x.shape)]
        return 0 if 0 in found else max(found)

    def element(*index: Var) -> Expr:
        return tirx.call_intrin(str(a.dtype), name, _at(a, index), _at(b, index))

    register_nan_extrema()
    return te.compute([extent(axis) for axis in range(rank)], element, name="extreme")


def _at(x: te.Tensor, index: tuple[Var, ...]) -> Expr:
    own = index[len(index) - len(x.shape) :]
    return x(*(0 if int(extent) == 1 else i for extent, i in zip(x.shape, own, strict=True)))


def _is_float(x: te.Tensor) -> bool:
    return "float" in str(x.dtype)


def _extreme(
    compute: Callable[[te.Tensor, te.Tensor], te.Tensor], builder: relax.BlockBuilder, call: relax.Call
) -> relax.Expr:
    left, right = call.args
    plain = call.op.get_attr(_LEGALISE)
    if "float" not in str(call.ty.dtype) or _is_number(right):
        return plain(builder, call)
    if _is_number(left):
        return plain(builder, relax.Call(call.op, [right, left], call.attrs))
    return builder.call_te(compute, left, right)


def _is_number(operand: relax.Expr) -> bool:
    """Whether an operand is a constant without NaN."""
    value = constant(operand)
    return value is not None and not bool(np.isnan(value.astype(np.float64)).any())


def _sign(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    return builder.call_te(_signs, call.args[0], primfunc_name_hint="tir_sign")


def _signs(x: te.Tensor) -> te.Tensor:
    """Signs of x. Those of floats are x times the square of a power of two, which takes any number beyond 1, limited.

    So an element is read once, and NaN stays.
    """
    if not _is_float(x):
        return topi.sign(x)
    dtype = str(x.dtype)
    most, one = (tirx.const(number, dtype) for number in (_MOST[dtype], 1.0))
    return te.compute(x.shape, lambda *i: tirx.max(tirx.min(x(*i) * most * most, one), -one), name="sign")


_MOST = {"float16": 2.0**15, "bfloat16": 2.0**127, "float32": 2.0**127, "float64": 2.0**1023}
"""Powers of two whose product with any number but 0 is larger than 1, if taken twice."""
