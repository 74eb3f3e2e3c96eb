"""Maxima and minima that are NaN where either operand is: operators of our own in tensor functions.

TIR's own maximum keeps its first operand where either is NaN, which takes one instruction on most processors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import tvm
from tvm import tirx

from edgetune.tvm_types import Expr

MAXIMUM, MINIMUM = "edgetune.maximum", "edgetune.minimum"
_PLAIN: dict[str, Callable[[Expr, Expr], Expr]] = {MAXIMUM: tirx.max, MINIMUM: tirx.min}


@cache
def register_nan_extrema() -> None:
    """Tell TVM of both. A process that makes, or loads, a function with them calls this before."""
    for name in _PLAIN:
        tvm.ir.register_op_attr(name, "TCallEffectKind", tirx.CallEffectKind.Pure.value)
        tvm.ir.register_op_attr(name, "TVectorizable", True)
        tvm.ir.register_op_attr(name, "TScriptPrinterName", name)
        tirx.op.register_intrin_lowering(name, "default", f=_in_tir)


def _in_tir(call: Expr) -> Expr:
    """The same for back ends of TVM, which compute constants and references."""
    a, b = call.args
    return tirx.Select(tirx.any(tirx.isnan(a), tirx.isnan(b)), a + b, _PLAIN[call.op.name](a, b))
