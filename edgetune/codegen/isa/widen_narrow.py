"""Vector widening and narrowing: converts vectors of 8-bit integers to vectors of 32-bit integers and back.

`__builtin_convertvector` expresses both, and clang makes one instruction of it; GCC 12 converts lane by lane.
"""

from __future__ import annotations

from edgetune.codegen.dtypes import by_short

_HEAD = "static inline __attribute__((always_inline)) void "
_WIDEN_X86 = {
    "4": ("__SSE4_1__", "pmov{s}xbd128", "(c8x16)(i32x4){{(int32_t)*(const {short}x4u *)p, 0, 0, 0}}"),
    "8": ("__AVX2__", "pmov{s}xbd256", "(c8x16)(i64x2){{(int64_t)*(const {short}x8u *)p, 0}}"),
    "16": ("__AVX512F__", "pmov{s}xbd512_mask", "(c8x16)*(const {short}x16u *)p, (i32x16){{0}}, 0xffff"),
}
_NARROW_X86 = {
    "4": ("__AVX512VL__", "pmovdb128_mask", "({0}x4)((i32x4){1}(*v, (c8x16){{0}}, 0xf))[0]"),
    "8": ("__AVX512VL__", "pmovdb256_mask", "({0}x8)((i64x2){1}(*v, (c8x16){{0}}, 0xff))[0]"),
    "16": ("__AVX512F__", "pmovdb512_mask", "({0}x16){1}(*v, (c8x16){{0}}, 0xffff)"),
}


def _rest(rest: str) -> tuple[str, str, str]:
    short, _, lanes = rest.partition("x")
    return short, lanes, f"{short[0]}32x{lanes}"


def needed_types(rest: str) -> list[str]:
    """Snippets of the types that `widen` and `narrow` of `rest` (such as i8x16) mention."""
    short, lanes, _ = _rest(rest)
    named = [f"type:{short}x{lanes}", f"type:{short}x{lanes}u", f"type:{short[0]}16x{lanes}", f"type:i32x{lanes}"]
    named += [f"type:u32x{lanes}"] if short[0] == "u" else []
    return [*named, "type:i32x4", "type:i64x2", "chars:all"]


CHARS = "typedef char c8x16 __attribute__((vector_size(16))); /* what GCC's builtins want for bytes */\n"


def widen(rest: str) -> str:
    """`void et_widen_i8x16(const void *p, i32x16 *r)`: the 16 numbers at p; always signed, as unsigned ones fit."""
    short, lanes, wide = _rest(rest)
    signed = f"i32x{lanes}"
    plain = f"  *r = ({signed})__builtin_convertvector(*(const {rest}u *)p, {wide});\n"
    if by_short(short).bits == 8 and lanes in ("8", "16"):
        middle = f"{short[0]}16x{lanes}"
        half = f"__builtin_convertvector(*(const {rest}u *)p, {middle})"
        gcc = f"  *r = ({signed})__builtin_convertvector({half}, {wide});\n"
    else:
        gcc = plain
    text = f"{_HEAD}et_widen_{rest}(const void *p, {signed} *r) {{\n#if defined(__clang__)\n{plain}"
    if lanes in _WIDEN_X86:
        feature, builtin, arguments = _WIDEN_X86[lanes]
        builtin = "__builtin_ia32_" + builtin.format(s="s" if short[0] == "i" else "z")
        call = f"{builtin}({arguments.format(short=short)})"
        text += f"#elif defined({feature}) && __has_builtin({builtin})\n  *r = ({signed}){call};\n"
    if lanes == "4":
        letter = "s" if short[0] == "i" else "u"
        inputs = f'"=w"(*r) : "r"(p), "m"(*(const {rest}u *)p)'
        a64 = ("ldr %s0, [%1]", f"{letter}xtl %0.8h, %0.8b", f"{letter}xtl %0.4s, %0.4h")
        a32 = ("vld1.32 {%e0[0]}, [%1]", f"vmovl.{letter}8 %q0, %e0", f"vmovl.{letter}16 %q0, %e0")
        for feature, lines in (("__aarch64__", a64), ("__ARM_NEON", a32)):
            body = "\\n\\t".join(lines)
            text += f'#elif defined({feature})\n  __asm__("{body}" : {inputs});\n'
    return f"{text}#else\n{gcc}#endif\n}}\n"


def narrow(rest: str) -> str:
    """`void et_narrow_i8x16(const i32x16 *v, i8x16 *r)`: the low bytes of the 16 numbers at v."""
    short, lanes, _ = _rest(rest)
    text = f"{_HEAD}et_narrow_{rest}(const i32x{lanes} *v, {rest} *r) {{\n"
    plain = f"  *r = __builtin_convertvector(__builtin_convertvector(*v, {short[0]}16x{lanes}), {rest});\n"
    if lanes not in _NARROW_X86:
        return f"{text}{plain}}}\n"
    feature, builtin, call = _NARROW_X86[lanes]
    builtin = f"__builtin_ia32_{builtin}"
    own = f"  *r = {call.format(short, builtin)};\n"
    text += f"#if defined({feature}) && !defined(__clang__) && __has_builtin({builtin})\n{own}"
    return f"{text}#else\n{plain}#endif\n}}\n"
