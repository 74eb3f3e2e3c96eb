"""Powers with a constant exponent as products and square roots: `pow` itself is a call of libm for each lane.

As in PyTorch, x^0.5 is the square root: it is NaN for negative infinity, and zeros keep their sign.
"""

from __future__ import annotations

from tvm import tirx

from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.text import Code
from edgetune.codegen.work import DIVIDE, MULTIPLY
from edgetune.tvm_types import Expr

_PRODUCTS = {1.0: "{x}", 2.0: "{x} * {x}", 3.0: "{x} * {x} * {x}", 4.0: "({x} * {x}) * ({x} * {x})"}
_QUOTIENTS = {-1.0: "1.0{f} / {x}", -2.0: "1.0{f} / ({x} * {x})"}
_FORMS = {**_PRODUCTS, **_QUOTIENTS}
_OPERATIONS = {
    1.0: (),
    2.0: (MULTIPLY,),
    3.0: (MULTIPLY, MULTIPLY),
    4.0: (MULTIPLY, MULTIPLY),
    -1.0: (DIVIDE,),
    -2.0: (MULTIPLY, DIVIDE),
}
_ROOTS = {0.5: tirx.sqrt, -0.5: tirx.rsqrt}


def exponent_of(e: Expr) -> float | None:
    """The exponent of a call of `pow` for floats that has another form; None for any other."""
    exponent = e.args[1].value if isinstance(e.args[1], tirx.Broadcast) else e.args[1]
    if element_and_lanes(e.ty)[0].kind != "float" or not isinstance(exponent, tirx.FloatImm):
        return None
    value = float(exponent.value)
    return value if value in _FORMS or value in _ROOTS else None


def is_product(e: Expr) -> bool:
    """Whether a call of `pow` is a few multiplications."""
    return exponent_of(e) in _PRODUCTS


def root(e: Expr, exponent: float) -> Expr | None:
    """The call of `sqrt` or `rsqrt` that a power is; None where it is a product."""
    return _ROOTS[exponent](e.args[0]) if exponent in _ROOTS else None


def product(name: Code, exponent: float, bits: int) -> Code:
    """A power of the variable `name`, a float of `bits` bits or a vector of these, in C; not for a root."""
    made = Code(_FORMS[exponent].format(x=name, f="" if bits == 64 else "f"), name.variables)
    for kind in _OPERATIONS[exponent]:
        made = made.computed(kind)
    return made
