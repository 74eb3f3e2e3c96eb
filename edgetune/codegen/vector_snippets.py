"""Vector operations of the preamble: minimum and maximum, rounding, square roots, widening and narrowing of integers.

Each is plain C on vector extensions, preceded by the instructions that the files of `edgetune.target.isa` give for
compilers which do not find them on their own.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from edgetune.codegen.dtypes import by_short
from edgetune.target.isa import INSTRUCTION_SETS
from edgetune.target.isa.vector_instructions import Instruction, Rows, VectorInstructions

_HEAD = "static inline __attribute__((always_inline)) void "
CHARS = """typedef char @c8x16 __attribute__((vector_size(16))); /* what GCC's builtins want for bytes */
#define c8x16 @c8x16
"""


def instructions(rows: Callable[[VectorInstructions], Rows], lanes: int) -> Iterator[Instruction]:
    """The instructions of all instruction sets for vectors of `lanes` lanes, each once."""
    yield from dict.fromkeys(one for isa in INSTRUCTION_SETS.values() for one in rows(isa.vectors).get(lanes, ()))


_TYPE = re.compile(r"\b(?:[iuf]\d+x\d+u?|c8x16)\b")


def types_in(text: str) -> list[str]:
    """The snippets of the vector types that a text names."""
    return ["chars:all" if one == "c8x16" else f"type:{one}" for one in sorted(set(_TYPE.findall(text)))]


def lanes_of(rest: str) -> int:
    """The lanes of a vector type such as f32x16."""
    return int(rest.partition("x")[2])


def either(choices: list[tuple[str, str]], plain: str) -> str:
    """Statements by conditions of the preprocessor, the first that holds; `plain`, indented already, if none does."""
    text = "".join(f"#elif {condition}\n    {code}\n" for condition, code in choices)
    return f"#{text.removeprefix('#el')}#else\n{plain}#endif\n" if choices else plain


def min_max(word: str, rest: str) -> str:
    """`void @vmax_f32x16(f32x16 *a, const f32x16 *b)`: *a = max(*a, *b); `word` is "max" or "min".

    It keeps a if one operand is NaN, like the scalar snippet. A comparison and a mask are two instructions by GCC 12 on
    x86, where one does it.
    """
    ints = f"i{by_short(rest.partition('x')[0]).bits}x{lanes_of(rest)}"
    sign = ">" if word == "max" else "<"
    plain = f"    const {ints} m = ({ints})(*b {sign} *a);\n    *a = ({rest})((({ints})*b & m) | (({ints})*a & ~m));\n"
    found = instructions(lambda isa: isa.min_max, lanes_of(rest)) if rest.startswith("f32") else ()
    choices = [(one.condition(word=word), one.code(word=word)) for one in found]
    comment = f"/* *a = {word}(*a, *b); *a where either is NaN. */\n"
    return f"{comment}{_HEAD}@v{word}_{rest}({rest} *a, const {rest} *b)\n{{\n{either(choices, plain)}}}\n"


def bounded(word: str, rest: str) -> str:
    """`void @vmax_bound_f32x4(f32x4 *a, const f32x4 *b)`: *a = max(*a, *b) where *b is a number; or "min".

    Of two zeros it may be either one, in `running` as well.
    """
    comment = f"*a = {word}(*a, *b), where *b is a number; NaN stays NaN."
    return _special(word, "bound", comment, lambda isa: isa.bounded, rest)


def running(word: str, rest: str) -> str:
    """`void @vmax_running_f32x4(f32x4 *a, const f32x4 *b)`: *a = max(*a, *b) where *a is a number; or "min"."""
    comment = f"*a = {word}(*a, *b), where *a is a number; that stays where *b is NaN."
    return _special(word, "running", comment, lambda isa: isa.running, rest)


def _special(word: str, name: str, comment: str, rows: Callable[[VectorInstructions], Rows], rest: str) -> str:
    choices = [(one.condition(word=word), one.code(word=word)) for one in instructions(rows, lanes_of(rest))]
    plain = f"    @v{word}_{rest}(a, b);\n"
    head = f"/* {comment} */\n{_HEAD}@v{word}_{name}_{rest}({rest} *a, const {rest} *b)\n"
    return f"{head}{{\n{either(choices, plain)}}}\n"


_HIGH = """    const {w} product = __builtin_convertvector(*x, {w}) * __builtin_convertvector(m, {w});
    const {r} high = __builtin_convertvector((product + (INT64_C(1) << 30)) >> 31, {r});
"""
_SHIFTED = """    const {r} mask = ({r})(((({u}){{0}} + 1u) << ({u})right) - 1u), half = (mask >> 1) - (high < 0);
    *x = (high >> right) - ((high & mask) > half);
"""
_ONCE = """    const {w} product = __builtin_convertvector(*x, {w}) * __builtin_convertvector(m, {w});
    const {w} places = __builtin_convertvector(right, {w});
    const {w} half = (({w}){{0}} + (INT64_C(1) << 30)) << places;
    *x = __builtin_convertvector((product + half) >> (places + 31), {r});
"""


def fixed_point_scale(rest: str) -> str:
    """`void @vfixed_point_scale_i32x8(i32x8 *x, const u32x8 *scale)`, as for a scalar."""
    steps: tuple[tuple[str, Callable[[VectorInstructions], Rows]], ...] = (
        (_HIGH, lambda isa: isa.high_product),
        (_SHIFTED, lambda isa: isa.rounding_shift),
    )
    text = ""
    for plain, rows in steps:
        found = instructions(rows, lanes_of(rest))
        text += either([(one.condition(), one.code(rest=rest)) for one in found], plain.format(**_widths(rest)))
    comment = "*x * m / 2^31 rounded, half upwards; that / 2^right rounded, half away from 0"
    return _scaled("fixed_point_scale", comment, rest, text)


def fixed_point_scale_once(rest: str) -> str:
    """`void @vfixed_point_scale_once_i32x8(i32x8 *x, const u32x8 *scale)`, as for a scalar."""
    comment = "*x * m / 2^(31 + right) rounded, half upwards"
    return _scaled("fixed_point_scale_once", comment, rest, _ONCE.format(**_widths(rest)))


def _widths(rest: str) -> dict[str, str]:
    lanes = lanes_of(rest)
    return {"r": rest, "w": f"i64x{lanes}", "u": f"u32x{lanes}"}


def _scaled(name: str, comment: str, rest: str, body: str) -> str:
    return f"""/* {comment}. The last 5 bits
   of *scale are right, the others are those of m / 8 after the first one, which is 1. */
{_HEAD}@v{name}_{rest}({rest} *x, const u32x{lanes_of(rest)} *scale)
{{
    const {rest} m = ({rest})((*scale >> 5 | 1u << 27) << 3), right = ({rest})(*scale & 31u);
{body}}}
"""


def extreme_or_nan(word: str, rest: str) -> str:
    """`void @vmaximum_f32x16(f32x16 *a, const f32x16 *b)`: as `@vmax`, but NaN where either is; or "minimum"."""
    ints, plain = f"i{by_short(rest.partition('x')[0]).bits}x{lanes_of(rest)}", word[:3]
    head = f"/* *a = {plain}(*a, *b); NaN where either is. */\n{_HEAD}@v{word}_{rest}({rest} *a, const {rest} *b)\n"
    return (
        f"{head}{{\n    const {ints} m = ({ints})(*b != *b);\n    @v{plain}_{rest}(a, b);\n"
        f"    *a = ({rest})((({ints})*b & m) | (({ints})*a & ~m));\n}}\n"
    )


# From 2**23 on (0x4b000000) floats are integers, and NaN stays. The sign is restored for results of -0.
_ROUNDED = """    const {i} m = ({i})(({i})x & 0x7fffffff) < 0x4b000000;
    const {f} y = ({f})(({i})x & m);
    const {i} t = __builtin_convertvector(y, {i});
STEPS    const {i} r = ({i})__builtin_convertvector(RESULT, {f}) | (({i})x & (-0x7fffffff - 1));
    *v = ({f})((r & m) | (({i})x & ~m));
"""
_NEAREST = """    const {f} d = y - __builtin_convertvector(t, {f});
    const {i} up = (d > 0.5f) | ((d == 0.5f) & -(t & 1)), down = (d < -0.5f) | ((d == -0.5f) & -(t & 1));
"""
# Bits are compared: for NEON, a subnormal number equals 0.
_CUT = """    const {i} u = ({i})__builtin_convertvector(t, {f}) | (({i})x & (-0x7fffffff - 1));
    const {i} cut = u != ({i})y;
"""


@dataclass(frozen=True)
class _Rounding:
    """One way to round: the integers it gives, its words for instructions, and what makes them of `t`, rounded to 0."""

    gives: str
    mode: int
    letter: str
    clang: str
    steps: str
    result: str


_ROUNDINGS = {
    "nearbyint": _Rounding("nearest integers, half to even", 8, "n", "roundeven", _NEAREST, "t - up + down"),
    "floor": _Rounding("next integers below, or equal", 9, "m", "floor", _CUT, "t + (cut & (({i})x < 0))"),
    "ceil": _Rounding("next integers above, or equal", 10, "p", "ceil", _CUT, "t - (cut & (({i})x >= 0))"),
    "trunc": _Rounding("next integers towards 0, or equal", 11, "z", "trunc", "", "t"),
}


def rounding(word: str, rest: str) -> str:
    """`void @floor_f32x16(f32x16 *v)`: rounds every lane of *v to an integer; `word` is also nearbyint, ceil or trunc.

    libm would work lane by lane. Adding and subtracting 1.5 * 2**23 is not safe: compilers may remove it under
    -funsafe-math-optimizations (which GCC needs for vectors on ARMv7).
    """
    lanes, way = lanes_of(rest), _ROUNDINGS[word]
    macros = [isa.vectors.clang_rounds for isa in INSTRUCTION_SETS.values() if isa.vectors.clang_rounds]
    builtin = f"__builtin_elementwise_{way.clang}"
    has = f"defined(__clang__) && __has_builtin({builtin})"
    clang = f"{has} && ({' || '.join(f'defined({macro})' for macro in macros)})"
    choices = [(clang, f"*v = {builtin}(x);")]
    words = {"mode": str(way.mode), "letter": way.letter}
    choices += [(one.condition(), one.code(**words)) for one in instructions(lambda isa: isa.rounding, lanes)]
    plain = _ROUNDED.replace("STEPS", way.steps).replace("RESULT", way.result).format(i=f"i32x{lanes}", f=rest)
    comment = f"/* The {way.gives}: exact. Where no instruction does it, by way of int32_t. */\n"
    return f"{comment}{_HEAD}@{word}_{rest}({rest} *v)\n{{\n    const {rest} x = *v;\n{either(choices, plain)}}}\n"


ROUNDINGS = frozenset(_ROUNDINGS)
"""Names of the functions that `rounding` prints."""


def square_root(rest: str) -> str:
    """`void @sqrt_f32x16(f32x16 *v)`: the square root of every lane of *v.

    Compilers make one instruction of a vector literal of roots only with -fno-math-errno.
    """
    lanes = lanes_of(rest)
    choices = [("__has_builtin(__builtin_elementwise_sqrt)", "*v = __builtin_elementwise_sqrt(x);")]
    choices += [(one.condition(), one.code()) for one in instructions(lambda isa: isa.square_root, lanes)]
    roots = ", ".join(f"__builtin_sqrtf(x[{lane}])" for lane in range(lanes))
    plain = "\n".join(
        textwrap.wrap(f"*v = ({rest}){{{roots}}};", 112, initial_indent=" " * 4, subsequent_indent=" " * 8)
    )
    comment = "/* The square root of every lane. */\n"
    return (
        f"{comment}{_HEAD}@sqrt_{rest}({rest} *v)\n{{\n    const {rest} x = *v;\n{either(choices, plain + chr(10))}}}\n"
    )


def every_second(rest: str) -> str:
    """`void @every_second_f32x16(const float *p, f32x16 *r)`: *r = p[0], p[2], .. p[30], from two loads of 16 lanes.

    The second load ends with the last element that is wanted, so that no load passes it.
    """
    lanes = lanes_of(rest)
    low = [2 * lane for lane in range(lanes // 2)]
    places = ", ".join(map(str, [*low, *(2 * lane + 1 for lane in range(lanes // 2, lanes))]))
    loads = f"    const {rest} a = *(const {rest}u *)p, b = *(const {rest}u *)(p + {lanes - 1});\n"
    choices = [("__has_builtin(__builtin_shufflevector)", f"*r = __builtin_shufflevector(a, b, {places});")]
    plain = f"    *r = __builtin_shuffle(a, b, (i32x{lanes}){{{places}}});\n"
    comment = f"/* *r = p[0], p[2], .. p[{2 * lanes - 2}] */\n"
    return f"{comment}{_HEAD}@every_second_{rest}(const float *p, {rest} *r)\n{{\n{loads}{either(choices, plain)}}}\n"


def pairs(rest: str) -> str:
    """`void @pairs_f32x16(const float *p, f32x16 *even, f32x16 *odd)`: *even = p[0], p[2], .., *odd = p[1], p[3], ..

    Compilers join halves of eight lanes as they load them, and then need one shuffle within halves for each result.
    """
    lanes = lanes_of(rest)
    text = f"    const {rest} a = *(const {rest}u *)p, b = *(const {rest}u *)(p + {lanes});\n"
    names, low = "a, b", list(range(0, 2 * lanes, 2))
    if lanes == 8:
        text += shuffled(f"const {rest} low", rest, "a, b", [0, 1, 2, 3, 8, 9, 10, 11])
        text += shuffled(f"const {rest} high", rest, "a, b", [4, 5, 6, 7, 12, 13, 14, 15])
        names, low = "low, high", [0, 2, 8, 10, 4, 6, 12, 14]
    text += shuffled("*even", rest, names, low) + shuffled("*odd", rest, names, [place + 1 for place in low])
    comment = "/* *even = p[0], p[2], ..; *odd = p[1], p[3], .. */\n"
    return f"{comment}{_HEAD}@pairs_{rest}(const float *p, {rest} *even, {rest} *odd)\n{{\n{text}}}\n"


def backwards(rest: str) -> str:
    """`void @backwards_f32x16(const float *p, f32x16 *r)`: *r = p[15], p[14], .. p[0]."""
    places = list(reversed(range(lanes_of(rest))))
    comment = f"/* *r = p[{places[0]}], p[{places[1]}], .. p[0] */\n"
    text = f"    const {rest} a = *(const {rest}u *)p;\n" + shuffled("*r", rest, "a, a", places)
    return f"{comment}{_HEAD}@backwards_{rest}(const float *p, {rest} *r)\n{{\n{text}}}\n"


def every_third(rest: str) -> str:
    """`void @every_third_f32x16(const float *p, f32x16 *r)`: *r = p[0], p[3], .. p[45], from three loads of 16 lanes.

    Those of the first two are at different lanes, so that one blend joins them. No load passes the last element.
    """
    lanes = lanes_of(rest)
    blend = [lane + lanes * (lane % 3 != 0) for lane in range(lanes)]
    found = [3 * lane for lane in range(lanes)]
    places = [at % lanes if at < 2 * lanes else at + 2 - lanes for at in found]
    text = f"    const {rest} a = *(const {rest}u *)p, b = *(const {rest}u *)(p + {lanes});\n"
    text += f"    const {rest} c = *(const {rest}u *)(p + {2 * lanes - 2});\n"
    text += shuffled(f"const {rest} t", rest, "a, b", blend) + shuffled("*r", rest, "t, c", places)
    comment = f"/* *r = p[0], p[3], .. p[{3 * lanes - 3}] */\n"
    return f"{comment}{_HEAD}@every_third_{rest}(const float *p, {rest} *r)\n{{\n{text}}}\n"


def every_fourth(rest: str) -> str:
    """`void @every_fourth_f32x16(const float *p, f32x16 *r)`: *r = p[0], p[4], .. p[60], from four loads of 16 lanes.

    The last load ends with the last element that is wanted, so that no load passes it.
    """
    lanes = lanes_of(rest)
    text = f"    const {rest} a = *(const {rest}u *)p, b = *(const {rest}u *)(p + {lanes});\n"
    text += f"    const {rest} c = *(const {rest}u *)(p + {2 * lanes}), d = *(const {rest}u *)(p + {3 * lanes - 3});\n"
    low = [4 * (lane % (lanes // 2)) for lane in range(lanes)]
    high = [at if at < lanes else at + 3 for at in low]
    text += shuffled(f"const {rest} t", rest, "a, b", low) + shuffled(f"const {rest} u", rest, "c, d", high)
    halves = [*range(lanes // 2), *range(lanes, lanes + lanes // 2)]
    text += shuffled("*r", rest, "t, u", halves)
    comment = f"/* *r = p[0], p[4], .. p[{4 * lanes - 4}] */\n"
    return f"{comment}{_HEAD}@every_fourth_{rest}(const float *p, {rest} *r)\n{{\n{text}}}\n"


def shuffled(target: str, rest: str, pair: str, places: list[int]) -> str:
    """A statement that takes the lanes at `places` of a pair of vectors."""
    code = f"{target} = ET_JOIN_{rest}({pair}, {', '.join(map(str, places))});"
    return "\n".join(textwrap.wrap(code, 112, initial_indent=" " * 4, subsequent_indent=" " * 8)) + "\n"


def needed_types(rest: str) -> list[str]:
    """Snippets of the types that `widen` and `narrow` of `rest` (such as i8x16) mention."""
    short, _, lanes = rest.partition("x")
    named = [f"type:{short}x{lanes}", f"type:{short}x{lanes}u", f"type:{short[0]}16x{lanes}", f"type:i32x{lanes}"]
    named += [f"type:u32x{lanes}"] if short[0] == "u" else []
    return [*named, "type:i32x4", "type:i64x2", "chars:all"]


def widen(rest: str) -> str:
    """`void @widen_i8x16(const void *p, i32x16 *r)`: the 16 numbers at p; always signed, as unsigned ones fit.

    `__builtin_convertvector` says it, of which clang makes one instruction; GCC 12 converts lane by lane, or by halves.
    """
    short, _, lanes = rest.partition("x")
    wide, signed = f"{short[0]}32x{lanes}", f"i32x{lanes}"
    plain = gcc = f"    *r = ({signed})__builtin_convertvector(*(const {rest}u *)p, {wide});\n"
    if by_short(short).bits == 8 and lanes in ("8", "16"):
        half = f"__builtin_convertvector(*(const {rest}u *)p, {short[0]}16x{lanes})"
        gcc = f"    *r = ({signed})__builtin_convertvector({half}, {wide});\n"
    s, letter = ("s", "s") if short[0] == "i" else ("z", "u")
    words = {"short": short, "rest": rest, "signed": signed, "s": s, "letter": letter}
    found = instructions(lambda isa: isa.widen, int(lanes))
    choices = [("defined(__clang__)", plain.strip()), *((one.condition(**words), one.code(**words)) for one in found)]
    comment = f"/* *r = the {lanes} numbers at p. */\n"
    return f"{comment}{_HEAD}@widen_{rest}(const void *p, {signed} *r)\n{{\n{either(choices, gcc)}}}\n"


def widen_word(rest: str) -> str:
    """`void @widen_word_i16(int16_t *to, const int8_t *from)`: four numbers."""
    plain = "    for (int32_t n = 0; n < 4; n++)\n        to[n] = from[n];\n"
    choices = [(one.condition(), one.code()) for one in instructions(lambda isa: isa.widen_word, 1)]
    head = f"{_HEAD}@widen_word_{rest}(int16_t *to, const int8_t *from)"
    return f"/* to[0] = from[0], .., to[3] = from[3]. */\n{head}\n{{\n{either(choices, plain)}}}\n"


def widen_halves(rest: str) -> str:
    """`void @widen_halves_i8x4(const void *p, i16x4 *r)`: the 4 numbers at p; always signed, as unsigned ones fit."""
    short, _, lanes = rest.partition("x")
    halves = f"i16x{lanes}"
    s, letter = ("s", "s") if short[0] == "i" else ("z", "u")
    words = {"short": short, "rest": rest, "s": s, "letter": letter}
    choices = [
        (
            one.condition(**words),
            f"i16x{2 * int(lanes)} all;\n    {one.code(**words)}\n    *r = ({halves})((i64x2)all)[0];",
        )
        for one in instructions(lambda isa: isa.widen_halves, int(lanes))
    ]
    plain = f"    *r = __builtin_convertvector(*(const {rest}u *)p, {halves});\n"
    comment = f"/* *r = the {lanes} numbers at p. */\n"
    return f"{comment}{_HEAD}@widen_halves_{rest}(const void *p, {halves} *r)\n{{\n{either(choices, plain)}}}\n"


def from_half(rest: str) -> str:
    """`void @from_half_f32x8(const void *p, f32x8 *r)`: the 8 numbers of 16 bits at p."""
    lanes = lanes_of(rest)
    plain = f"    for (int32_t l = 0; l < {lanes}; l++)\n        (*r)[l] = (float)((const _Float16 *)p)[l];\n"
    converted = f"*r = __builtin_convertvector(*(const halves *)p, {rest});"
    choices = _of_halves(lanes, converted, instructions(lambda isa: isa.from_half, lanes))
    comment = f"/* *r = the {lanes} numbers of 16 bits at p. */\n"
    return f"{comment}{_HEAD}@from_half_{rest}(const void *p, {rest} *r)\n{{\n{either(choices, plain)}}}\n"


def to_half(rest: str) -> str:
    """`void @to_half_f32x8(const f32x8 *v, void *p)`: the 8 numbers of v, each rounded to 16 bits, at p."""
    lanes = lanes_of(rest)
    plain = f"    for (int32_t l = 0; l < {lanes}; l++)\n        ((_Float16 *)p)[l] = (_Float16)(*v)[l];\n"
    converted = "*(halves *)p = __builtin_convertvector(*v, halves);"
    choices = _of_halves(lanes, converted, instructions(lambda isa: isa.to_half, lanes))
    comment = f"/* The {lanes} numbers of *v, each rounded to 16 bits, at p. */\n"
    return f"{comment}{_HEAD}@to_half_{rest}(const {rest} *v, void *p)\n{{\n{either(choices, plain)}}}\n"


def _of_halves(lanes: int, converted: str, found: Iterable[Instruction]) -> list[tuple[str, str]]:
    """What clang makes one instruction of, and the instructions for GCC, which converts one by one."""
    halves = f"typedef _Float16 halves __attribute__((vector_size({2 * lanes}), aligned(2), may_alias));\n    "
    return [("defined(__clang__)", halves + converted), *((one.condition(), one.code()) for one in found)]


def narrow(rest: str) -> str:
    """`void @narrow_i8x16(const i32x16 *v, i8x16 *r)`: the low bytes of the 16 numbers at v."""
    short, _, lanes = rest.partition("x")
    plain = f"    *r = __builtin_convertvector(__builtin_convertvector(*v, {short[0]}16x{lanes}), {rest});\n"
    found = instructions(lambda isa: isa.narrow, int(lanes))
    choices = [(one.condition(), one.code(short=short)) for one in found]
    comment = "/* *r = the low bytes of *v. */\n"
    return f"{comment}{_HEAD}@narrow_{rest}(const i32x{lanes} *v, {rest} *r)\n{{\n{either(choices, plain)}}}\n"
