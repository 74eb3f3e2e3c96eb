"""Integer multiply-add on vectors: finds operands with so few bits that a faster instruction applies.

A 32-bit vector product takes two slow instructions on x86. If both factors fit 16 bits (int8 values minus a zero point
do), one instruction that multiplies pairs of 16-bit numbers and adds them is enough, with zeros in the upper halves.
ARM multiplies numbers of 16 bits to 32, so that bytes are widened once, not twice.
"""

from __future__ import annotations

from tvm import tirx

from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.vector_snippets import instructions
from edgetune.tvm_types import Expr

_LOW, _HIGH = -(2**15), 2**15 - 1


def bounds(e: Expr) -> tuple[int, int] | None:
    """(least, greatest) value of an integer expression made of widened narrow integers and constants, or None."""
    if isinstance(e, tirx.Broadcast):
        return bounds(e.value)
    if isinstance(e, tirx.IntImm):
        return int(e.value), int(e.value)
    if isinstance(e, tirx.Cast):
        to, of = element_and_lanes(e.ty)[0], element_and_lanes(e.value.ty)[0]
        if of.kind not in ("int", "uint") or to.bits < 32 or of.bits >= 32:
            return None
        return (0, 2**of.bits - 1) if of.kind == "uint" else (-(2 ** (of.bits - 1)), 2 ** (of.bits - 1) - 1)
    if isinstance(e, (tirx.Add, tirx.Sub)):
        a, b = bounds(e.a), bounds(e.b)
        if a is None or b is None:
            return None
        return (a[0] + b[0], a[1] + b[1]) if isinstance(e, tirx.Add) else (a[0] - b[1], a[1] - b[0])
    return None


def narrow(e: Expr) -> bool:
    """Whether an integer expression certainly fits 16 bits, so that a product of two such cannot overflow 32 bits."""
    found = bounds(e)
    return found is not None and found[0] >= _LOW and found[1] <= _HIGH


def narrow_product(e: Expr) -> bool:
    """Whether `e` is an int32 product of two 16-bit values."""
    return isinstance(e, tirx.Mul) and element_and_lanes(e.ty)[0].short == "i32" and narrow(e.a) and narrow(e.b)


def bytes_of_product(e: Expr) -> tuple[Expr, Expr] | None:
    """The bytes that a product widens and multiplies; None for a product of others, or of two that all lanes share.

    One that all lanes share comes first.
    """
    found = [_byte(side) for side in (e.a, e.b)]
    if None in found or all(isinstance(side, tirx.Broadcast) for side in (e.a, e.b)):
        return None
    first, second = found if isinstance(e.a, tirx.Broadcast) or not isinstance(e.b, tirx.Broadcast) else found[::-1]
    return first, second


def _byte(e: Expr) -> Expr | None:
    """The bytes that are widened to 32 bits; one of them where it is given to all lanes after that."""
    e = e.value if isinstance(e, tirx.Broadcast) else e
    if not isinstance(e, tirx.Cast):
        return None
    of = element_and_lanes(e.value.ty)[0]
    return e.value if of.kind in ("int", "uint") and of.bits == 8 else None


def multiply_add_halves(rest: str) -> str:
    """Macro ET_MAC_HALVES_i32x4(c, a, b): c + a * b; a (vector or scalar) and b have 16 bits, and the sum wraps."""
    lanes = int(rest.partition("x")[2])
    some, wide = f"((a) | (i16x{lanes}){{0}})", f"u32x{lanes}"
    head = f"#define ET_MAC_HALVES_{rest}(c, a, b) "
    factors = (f"({wide})__builtin_convertvector({one}, {rest})" for one in (some, "b"))
    plain = f"{head}(({rest})(({wide})(c) + {' * '.join(factors)}))\n"
    text = "".join(
        f"#elif {found.condition()}\n{head}{found.code(rest=rest, some=some)}\n"
        for found in instructions(lambda isa: isa.multiply_add_halves, lanes)
    )
    return f"#{text.removeprefix('#el')}#else\n{plain}#endif\n" if text else plain


def multiply_add(rest: str) -> str:
    """Macro ET_MAC_i32x16(c, a, b): c + a * b; a (vector or scalar) and b fit 16 bits, the sum wraps.

    It avoids signed vector arithmetic, because sanitizers would check it lane by lane.
    """
    lanes = int(rest.partition("x")[2])
    wide, low = f"u32x{lanes}", f"(((a) & 0xffff) | ({rest}){{0}})"
    head = f"#define ET_MAC_{rest}(c, a, b) "
    plain = f"{head}(({rest})(({wide})(c) + ({wide})((a) | ({rest}){{0}}) * ({wide})(b)))\n"
    words = {"rest": rest, "wide": wide, "low": low, "halves": f"i16x{2 * lanes}"}
    text = "".join(
        f"#elif {found.condition(**words)}\n{head}{found.code(**words)}\n"
        for found in instructions(lambda isa: isa.multiply_add, lanes)
    )
    return f"#{text.removeprefix('#el')}#else\n{plain}#endif\n" if text else plain
