"""Scalar preamble snippets: operations that C leaves undefined or does not have, defined for every input.

Integer division by zero gives 0, the smallest integer divided by -1 wraps, shifts by too many bits give 0 (or the
sign), a float that does not fit an integer saturates and NaN becomes 0. max(a, b) and min(a, b) give a if one operand
is NaN: relu passes NaN on, as in ONNX Runtime. maximum(a, b) and minimum(a, b) are NaN if either operand is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from edgetune.codegen.dtypes import Element, by_short, storage_type
from edgetune.codegen.vector_snippets import either, instructions
from edgetune.errors import KernelFailed
from edgetune.target.isa.vector_instructions import Rows, VectorInstructions


def _unsigned(of: Element) -> str:
    return "uint64_t" if of.bits == 64 else "uint32_t"


def _limits(of: Element) -> tuple[str, str]:
    letter = "U" if of.kind == "uint" else ""
    return f"{letter}INT{of.bits}_MIN" if not letter else "0", f"{letter}INT{of.bits}_MAX"


def _extreme(rest: str, sign: str, word: str) -> str:
    of = by_short(rest).value
    which = f"The {'larger' if word == 'max' else 'smaller'} one"
    comment = f"/* {which}; a where either is NaN. */\n" if by_short(rest).kind == "float" else f"/* {which}. */\n"
    return f"{comment}static inline {of} @{word}_{rest}({of} a, {of} b) {{ return b {sign} a ? b : a; }}\n"


def _extreme_or_nan(rest: str, sign: str, word: str) -> str:
    of = by_short(rest).value
    comment = f"/* The {'larger' if word == 'maximum' else 'smaller'} one; NaN where either is. */\n"
    return f"{comment}static inline {of} @{word}_{rest}({of} a, {of} b) {{ return b {sign} a || b != b ? b : a; }}\n"


def _negated(of: Element) -> str:
    return f"({of.value})(0u - ({_unsigned(of)})a)"


def _binary(name: str, rest: str, comment: str, body: str) -> str:
    """The function `name` of two numbers `a` and `b`; `body` is its statements, `comment` what they compute."""
    of = by_short(rest).value
    return f"/* {comment}. */\nstatic inline {of} @{name}_{rest}({of} a, {of} b)\n{{\n{body}}}\n"


def _div(rest: str, name: str = "div") -> str:
    of = by_short(rest)
    special = "" if of.kind == "uint" else f"b == -1 ? {_negated(of)} : "
    comment = "a / b; 0 where b is 0" if of.kind == "uint" else "a / b; 0 where b is 0, and wrapped where it overflows"
    return _binary(name, rest, comment, f"    return b == 0 ? 0 : {special}({of.value})(a / b);\n")


def _mod(rest: str, name: str = "mod") -> str:
    of = by_short(rest)
    special = "" if of.kind == "uint" else " || b == -1"
    return _binary(name, rest, "a % b; 0 where b is 0", f"    return b == 0{special} ? 0 : ({of.value})(a % b);\n")


def _floordiv(rest: str) -> str:
    of = by_short(rest)
    if of.kind == "uint":
        return _div(rest, "floordiv")
    special = f"    if (b == 0 || b == -1) return b == 0 ? 0 : {_negated(of)};\n"
    value = f"({of.value})(a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0))"
    comment = "a / b, rounded down; 0 where b is 0, and wrapped where it overflows"
    return _binary("floordiv", rest, comment, f"{special}    return {value};\n")


def _floormod(rest: str) -> str:
    of = by_short(rest)
    if of.kind == "uint":
        return _mod(rest, "floormod")
    remainder = f"    if (b == 0 || b == -1) return 0;\n    const {of.value} r = ({of.value})(a % b);\n"
    value = f"r != 0 && (r < 0) != (b < 0) ? ({of.value})(r + b) : r"
    comment = "a less b times a / b rounded down; 0 where b is 0"
    return _binary("floormod", rest, comment, f"{remainder}    return {value};\n")


def _shl(rest: str) -> str:
    of = by_short(rest)
    shifted = f"({of.value})(({_unsigned(of)})a << b)"
    return _binary(
        "shl", rest, f"a << b; 0 from {of.bits} bits on", f"    return (uint64_t)b < {of.bits} ? {shifted} : 0;\n"
    )


def _shr(rest: str) -> str:
    of = by_short(rest)
    over = "0" if of.kind == "uint" else f"({of.value})(a >> {of.bits - 1})"
    comment = f"a >> b; {'0' if of.kind == 'uint' else 'the sign'} from {of.bits} bits on"
    return _binary("shr", rest, comment, f"    return (uint64_t)b < {of.bits} ? ({of.value})(a >> b) : {over};\n")


def _abs(rest: str) -> str:
    of = by_short(rest)
    comment = "/* The absolute value; the smallest number stays as it is. */\n"
    return f"{comment}static inline {of.value} @abs_{rest}({of.value} a) {{ return a < 0 ? {_negated(of)} : a; }}\n"


def _pow(rest: str) -> str:
    of = by_short(rest)
    wide = _unsigned(of)
    negative = f"    if (b < 0) return a == 1 ? 1 : a == -1 ? ({of.value})(b % 2 == 0 ? 1 : -1) : 0;\n"
    body = (
        f"    {wide} r = 1, s = ({wide})a;\n"
        f"    for (uint64_t n = (uint64_t)b; n != 0; n >>= 1) {{ if (n & 1) r *= s; s *= s; }}\n"
        f"    return ({of.value})r;\n"
    )
    return _binary(
        "pow", rest, "a to the power of b, wrapped where it overflows", f"{negative if of.kind == 'int' else ''}{body}"
    )


def _popcount(rest: str) -> str:
    of = by_short(rest)
    narrow = f"(uint{of.bits}_t)"
    comment = "/* The number of bits that are 1. */\n"
    return (
        f"{comment}static inline int32_t @popcount_{rest}({of.value} a) {{ return __builtin_popcountll({narrow}a); }}\n"
    )


def _clz(rest: str) -> str:
    of = by_short(rest)
    value = f"__builtin_clzll((uint{of.bits}_t)a) - {64 - of.bits}"
    comment = "/* The number of zeros before the first 1. */\n"
    return f"{comment}static inline int32_t @clz_{rest}({of.value} a) {{ return a == 0 ? {of.bits} : {value}; }}\n"


def _float_to(source: str) -> Callable[[str], str]:
    def text(rest: str) -> str:
        to, of = by_short(rest), by_short(source)
        low, high = _limits(to)
        top = to.bits - (to.kind == "int")
        suffix = "" if of.bits == 64 else "f"
        head = "/* x rounded to 0, limited to the integers of the result; 0 for NaN. */\n"
        head += f"static inline {to.value} @{source}_to_{rest}({of.value} x)\n{{\n"
        if to.kind == "uint":
            return f"{head}    return x >= 0x1p+{top}{suffix} ? {high} : x > 0.0{suffix} ? ({to.value})x : 0;\n}}\n"
        low_float = f"-0x1p+{top}{suffix}"
        inside = f"x >= {low_float} ? ({to.value})x : x < {low_float} ? {low} : 0"
        return f"{head}    return x >= 0x1p+{top}{suffix} ? {high} : {inside};\n}}\n"

    return text


def _reinterpret(rest: str) -> str:
    of, to = (by_short(short).value for short in rest.split("_"))
    return (
        f"/* The bits of a as another type. */\nstatic inline {to} @reinterpret_{rest}({of} a)\n{{\n"
        f"    union {{ {of} from; {to} to; }} bits = {{a}};\n    return bits.to;\n}}\n"
    )


_SIGMOID_F64 = """/* 1 / (1 + e^-x), at most 4 ULP from the exact value where the C library's exp is within 1 ULP. */
static inline double @sigmoid_f64(double x)
{
    return 1.0 / (1.0 + __builtin_exp(-x));
}
"""
_MULTIPLY_SHIFT = """/* x * y / 2^(q - s) rounded to the nearest integer, half upwards: exact in 64 bits. */
static inline int32_t @q_multiply_shift_i32(int32_t x, int32_t y, int32_t q, int32_t s)
{
    const int64_t product = (int64_t)((uint64_t)x << (s > 0 ? s : 0)) * y;
    const int32_t right = q - (s < 0 ? s : 0);
    return (int32_t)((product + (INT64_C(1) << (right - 1))) >> right);
}
"""
_SCALE = """The last 5 bits of
   scale are right, the others are those of m / 8 after the first one, which is 1. */"""
_FIXED_POINT_SCALE = f"""/* x * m / 2^31 rounded, half upwards; that / 2^right rounded, half away from 0. {_SCALE}
static inline int32_t @fixed_point_scale_i32(int32_t x, uint32_t scale)
{{
    const int32_t m = (int32_t)((scale >> 5 | 1u << 27) << 3), right = (int32_t)(scale & 31u);
    const int32_t high = (int32_t)(((int64_t)x * m + (INT64_C(1) << 30)) >> 31);
    const int32_t mask = (int32_t)((1u << right) - 1u), half = (mask >> 1) + (high < 0 ? 1 : 0);
    return (high >> right) + ((high & mask) > half ? 1 : 0);
}}
"""


_FALLBACK = "static inline __attribute__((unused))"
"""The head of a function that is perhaps only called where another one's instructions are not there."""


def _scale_down(_: str) -> str:
    """`int32_t @fixed_point_scale_down_i32(int32_t x, uint32_t scale)`: the same, where right is 2 or more."""
    head, _, rest = _FIXED_POINT_SCALE.replace("fixed_point_scale", "fixed_point_scale_down").partition("{\n")
    plain = rest.rpartition("}")[0]
    head = head.replace("away from 0.", "away from 0; right is 2 or more.").replace("static inline", _FALLBACK)
    choices = [(one.condition(), one.code()) for one in instructions(lambda isa: isa.scale_down, 1)]
    return f"{head}{{\n{either(choices, plain)}}}\n"


def _scale_by(little: bool, _: str) -> str:
    """`int32_t @fixed_point_scale_by_i32(int32_t x, const int32_t *scale)`: the same, by both factors of a scale.

    Where shifts are `little`, the second factor is one more, and decides ties.
    """
    rounded = "high" if little else "(high < 0 ? high - 1 : high)"
    plain = (
        "    const int64_t twice = scale[0] + (INT64_C(1) << 32), half = INT64_C(1) << 31;\n"
        "    const int32_t high = (int32_t)((x * twice + half) >> 32);\n"
        f"    return (int32_t)(((int64_t){rounded} * scale[1] + half) >> 32);\n"
    )
    rows = (lambda isa: isa.scale_little) if little else (lambda isa: isa.scale_by)
    choices = [(one.condition(), one.code()) for one in instructions(rows, 1)]
    second = "2^(32 - right) + 1: right is 2 to 12, and the result becomes a byte" if little else "2^(32 - right)"
    comment = (
        "/* x * m / 2^31 rounded, half upwards; that / 2^right rounded, half away from 0. scale[0] is 2 m - 2^32,\n"
        f"   scale[1] is {second}. */"
    )
    head = f"{_FALLBACK} int32_t @fixed_point_scale_{'little' if little else 'by'}_i32(int32_t x, const int32_t *scale)"
    return f"{comment}\n{head}\n{{\n{either(choices, plain)}}}\n"


def _scaled_byte(value: str, function: str, scale: str, rows: Callable[[VectorInstructions], Rows], _: str) -> str:
    """`int8_t @scaled_i8_i32(int32_t x, uint32_t scale, int32_t zero)`: x scaled, plus zero, within its limits."""
    of = by_short(value)
    least, most = _limits(of)
    plain = (
        f"    const int32_t y = @{function}_i32(x, scale) + zero;\n"
        f"    return ({of.value})(y > {most} ? {most} : y < {least} ? {least} : y);\n"
    )
    words = {"value": of.value, "sign": "s" if of.kind == "int" else "u"}
    choices = [(one.condition(), one.code(**words)) for one in instructions(rows, 1)]
    name = f"scaled_{function.rpartition('_')[2]}".removesuffix("_down")
    head = f"static inline {of.value} @{name}_{value}_i32(int32_t x, {scale}, int32_t zero)"
    comment = f"/* @{function}_i32(x, scale) plus zero, within the limits of the type. */"
    return f"{comment}\n{head}\n{{\n{either(choices, plain)}}}\n"


def _rounded_byte(value: str, _: str) -> str:
    """`int8_t @rounded_i8_f32(float x, int32_t zero)`: x rounded, plus zero, within its limits."""
    of = by_short(value)
    least, most = _limits(of)
    plain = (
        "    const float y = __builtin_nearbyintf(x) + (float)zero;\n"
        f"    return y > (float){least} ? (y < (float){most} ? ({of.value})y : {most}) : {least};\n"
    )
    words = {"value": of.value, "sign": "s" if of.kind == "int" else "u"}
    choices = [(one.condition(), one.code(**words)) for one in instructions(lambda isa: isa.rounded_byte, 1)]
    head = f"static inline {of.value} @rounded_{value}_f32(float x, int32_t zero)"
    comment = "/* x rounded, half to even, plus zero, within the limits of the type. */"
    return f"{comment}\n{head}\n{{\n{either(choices, plain)}}}\n"


_FIXED_POINT_SCALE_ONCE = f"""/* x * m / 2^(31 + right) rounded, half upwards. {_SCALE}
static inline int32_t @fixed_point_scale_once_i32(int32_t x, uint32_t scale)
{{
    const int64_t product = (int64_t)x * (int32_t)((scale >> 5 | 1u << 27) << 3);
    const int32_t right = 31 + (int32_t)(scale & 31u);
    return (int32_t)((product + (INT64_C(1) << (right - 1))) >> right);
}}
"""
_FROM_BF16 = """/* bfloat16 as float: exact. */
static inline float @from_bf16_f32(uint16_t h)
{
    union { uint32_t bits; float value; } f = {(uint32_t)h << 16};
    return f.value;
}
"""
_TO_BF16 = """/* The bfloat16 nearest to x, half to even: at most 0.5 ULP. */
static inline uint16_t @to_bf16_f32(float x)
{
    union { float value; uint32_t bits; } f = {x};
    if ((f.bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((f.bits >> 16) | 0x40u);
    return (uint16_t)((f.bits + 0x7fffu + ((f.bits >> 16) & 1u)) >> 16);
}
"""
_FROM_F16 = """/* float16 as float: exact. */
static inline float @from_f16_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
    union { uint32_t bits; float value; } f = {rest >= 0x7c00u ? rest << 13 | 0x7f800000u : (rest << 13) + 0x38000000u};
    if (rest < 0x0400u) f.value = (float)rest * 0x1p-24f;
    f.bits |= sign;
    return f.value;
}
"""
_TO_F16 = """/* The float16 nearest to x, half to even: at most 0.5 ULP. */
static inline uint16_t @to_f16_f32(float x)
{
    union { float value; uint32_t bits; } f = {x};
    const uint32_t sign = f.bits >> 16 & 0x8000u, rest = f.bits & 0x7fffffffu;
    uint32_t h = 0;
    if (rest > 0x7f800000u) h = 0x7e00u;
    else if (rest >= 0x477ff000u) h = 0x7c00u;
    else if (rest >= 0x38800000u) h = (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13;
    else if (rest >= 0x33000000u) {
        const uint32_t shift = 126u - (rest >> 23), m = (rest & 0x7fffffu) | 0x800000u, half = 1u << (shift - 1u);
        h = m >> shift;
        if ((m & (half * 2u - 1u)) > half || ((m & (half * 2u - 1u)) == half && (h & 1u) != 0)) h += 1u;
    }
    return (uint16_t)(sign | h);
}
"""

_PREFETCH = """/* Prefetches the cache line `bytes` after `from`, which may lie past the end of the array. */
static inline void @prefetch_line(const void *from, uintptr_t bytes)
{
    __builtin_prefetch((const void *)((uintptr_t)from + bytes), 0, 3);
}
"""

SCALAR: dict[str, Callable[[str], str]] = {
    "max": lambda rest: _extreme(rest, ">", "max"),
    "min": lambda rest: _extreme(rest, "<", "min"),
    "maximum": lambda rest: _extreme_or_nan(rest, ">", "maximum"),
    "minimum": lambda rest: _extreme_or_nan(rest, "<", "minimum"),
    "div": _div,
    "mod": _mod,
    "floordiv": _floordiv,
    "floormod": _floormod,
    "shl": _shl,
    "shr": _shr,
    "abs": _abs,
    "pow": _pow,
    "popcount": _popcount,
    "clz": _clz,
    "f32_to": _float_to("f32"),
    "f64_to": _float_to("f64"),
    "reinterpret": _reinterpret,
    "q_multiply_shift": lambda _: _MULTIPLY_SHIFT,
    "fixed_point_scale": lambda _: _FIXED_POINT_SCALE,
    "fixed_point_scale_down": _scale_down,
    "fixed_point_scale_by": partial(_scale_by, False),
    "fixed_point_scale_little": partial(_scale_by, True),
    **{
        f"scaled_{value}": partial(
            _scaled_byte, value, "fixed_point_scale_down", "uint32_t scale", lambda isa: isa.scaled_byte
        )
        for value in ("i8", "u8")
    },
    **{
        f"scaled_once_{value}": partial(
            _scaled_byte, value, "fixed_point_scale_once", "uint32_t scale", lambda isa: isa.scaled_byte_once
        )
        for value in ("i8", "u8")
    },
    **{
        f"scaled_{kind}_{value}": partial(
            _scaled_byte, value, f"fixed_point_scale_{kind}", "const int32_t *scale", rows
        )
        for kind, rows in (("by", lambda isa: isa.scaled_byte_by), ("little", lambda isa: isa.scaled_byte_little))
        for value in ("i8", "u8")
    },
    **{f"rounded_{value}": partial(_rounded_byte, value) for value in ("i8", "u8")},
    "fixed_point_scale_once": lambda _: _FIXED_POINT_SCALE_ONCE,
    "from_bf16": lambda _: _FROM_BF16,
    "to_bf16": lambda _: _TO_BF16,
    "prefetch": lambda _: _PREFETCH,
}


def half_conversion(kind: str, has_float16: bool) -> str:
    """Conversions of float16: the compiler's, or our own on its bits (round to nearest even, subnormals, NaN)."""
    if not has_float16:
        return _FROM_F16 if kind == "from_f16" else _TO_F16
    stored = storage_type(by_short("f16"), has_float16)
    if kind == "from_f16":
        comment, function = "float16 as float: exact.", f"float @from_f16_f32({stored} h) {{ return (float)h; }}"
    else:
        comment = "The float16 nearest to x, half to even."
        function = f"{stored} @to_f16_f32(float x) {{ return ({stored})x; }}"
    return f"/* {comment} */\nstatic inline {function}\n"


def scalar_snippet(kind: str, rest: str, has_float16: bool) -> str:
    """C text of a scalar snippet; KernelFailed if there is none with that name."""
    if kind in ("from_f16", "to_f16"):
        return half_conversion(kind, has_float16)
    if kind == "alias":
        stored = storage_type(by_short(rest), has_float16)
        return f"typedef {stored} @alias_{rest} __attribute__((may_alias));\n"
    if (kind, rest) == ("sigmoid", "f64"):
        return _SIGMOID_F64
    if kind not in SCALAR:
        raise KernelFailed(f"there is no preamble snippet {kind}:{rest}")
    return SCALAR[kind](rest)
