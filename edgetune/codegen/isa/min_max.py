"""Vector max and min: max(a, b) keeps a if one operand is NaN, like the scalar snippet.

They use a comparison and a mask. GCC 12 makes two instructions of that on x86, so there its own builtin makes it one.
"""

from __future__ import annotations

from edgetune.codegen.dtypes import by_short


def vector_extreme(word: str, rest: str) -> str:
    """`void et_vmax_f32x16(f32x16 *a, const f32x16 *b)`: *a = max(*a, *b); `word` is "max" or "min"."""
    short, _, lanes = rest.partition("x")
    of = by_short(short)
    ints = f"i{of.bits}x{lanes}"
    sign = ">" if word == "max" else "<"
    head = f"static inline __attribute__((always_inline)) void et_v{word}_{rest}({rest} *a, const {rest} *b) {{\n"
    plain = f"  const {ints} m = ({ints})(*b {sign} *a);\n  *a = ({rest})((({ints})*b & m) | (({ints})*a & ~m));\n"
    name = {"4": f"{word}ps", "8": f"{word}ps256", "16": f"{word}ps512_mask"}.get(lanes)
    if short != "f32" or name is None:
        return f"{head}{plain}}}\n"
    feature = {"4": "__SSE__", "8": "__AVX__", "16": "__AVX512F__"}[lanes]
    more = ", *a, -1, 4" if lanes == "16" else ""
    builtin = f"__builtin_ia32_{name}"
    return (
        f"{head}#if defined({feature}) && !defined(__clang__) && __has_builtin({builtin})\n"
        f"  *a = {builtin}(*b, *a{more});\n#else\n{plain}#endif\n}}\n"
    )
