"""Integer multiply-add on vectors: finds operands with so few bits that a faster instruction applies.

A 32-bit vector product takes two slow instructions on x86. If both factors fit 16 bits (int8 values minus a zero point
do), one instruction that multiplies pairs of 16-bit numbers and adds them is enough, with zeros in the upper halves.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

from edgetune.codegen.dtypes import by_short, element_and_lanes

_LOW, _HIGH = -(2**15), 2**15 - 1


def bounds(e: Any) -> tuple[int, int] | None:
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


def narrow(e: Any) -> bool:
    """Whether an integer expression certainly fits 16 bits, so that a product of two such cannot overflow 32 bits."""
    found = bounds(e)
    return found is not None and found[0] >= _LOW and found[1] <= _HIGH


def narrow_product(e: Any) -> bool:
    """Whether `e` is an int32 product of two 16-bit values."""
    return isinstance(e, tirx.Mul) and element_and_lanes(e.ty)[0].short == "i32" and narrow(e.a) and narrow(e.b)


_X86 = {
    "4": (
        ("__AVX512VNNI__) && defined(__AVX512VL__", "vpdpwssd_v4si", "vpdpwssd128"),
        ("__SSE2__", "pmaddwd128", "pmaddwd128"),
    ),
    "8": (
        ("__AVX512VNNI__) && defined(__AVX512VL__", "vpdpwssd_v8si", "vpdpwssd256"),
        ("__AVX2__", "pmaddwd256", "pmaddwd256"),
    ),
    "16": (
        ("__AVX512VNNI__", "vpdpwssd_v16si", "vpdpwssd512"),
        ("__AVX512BW__", "pmaddwd512_mask", "pmaddwd512"),
    ),
}


def multiply_add(rest: str) -> str:
    """Macro ET_MAC_i32x16(c, a, b): c + a * b; a (vector or scalar) and b fit 16 bits, the sum wraps.

    It avoids signed vector arithmetic, because sanitizers would check it lane by lane.
    """
    lanes = rest.partition("x")[2]
    halves = f"i16x{2 * int(lanes)}"
    head = f"#define ET_MAC_{rest}(c, a, b) "
    wide = f"u{by_short('i32').bits}x{lanes}"
    plain = f"{head}(({rest})(({wide})(c) + ({wide})((a) | ({rest}){{0}}) * ({wide})(b)))\n"
    if lanes not in _X86:
        return plain
    text, word = "", "#if"
    low = f"(((a) & 0xffff) | ({rest}){{0}})"
    for feature, gcc, clang in _X86[lanes]:
        for condition, name in (("!defined(__clang__)", gcc), ("defined(__clang__)", clang)):
            builtin = f"__builtin_ia32_{name}"
            if name.startswith("vpdp"):
                value = f"(({rest}){builtin}((c), {low}, (b)))"
            else:
                more = f", ({rest}){{0}}, 0xffff" if name.endswith("_mask") else ""
                product = f"{builtin}(({halves}){low}, ({halves})(b){more})"
                value = f"(({rest})(({wide})(c) + ({wide}){product}))"
            text += f"{word} defined({feature}) && {condition} && __has_builtin({builtin})\n{head}{value}\n"
            word = "#elif"
    return f"{text}#else\n{plain}#endif\n"
