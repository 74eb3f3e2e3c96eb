"""Functions of the preamble that round, and narrow vectors of 32 bits to bytes within limits (see `narrowing.py`)."""

from __future__ import annotations

from edgetune.codegen.vector_snippets import either, instructions, lanes_of

_HEAD = "static inline __attribute__((always_inline)) void "
_MOST = 4
"""Vectors that one call narrows."""


def nearest(rest: str) -> str:
    """`void @nearest_f32x8(const f32x8 *v, i32x8 *r)`: the nearest integers of 32 bits, half to even."""
    ints = f"i32x{lanes_of(rest)}"
    plain = f"""    const {ints} low = ({ints})(*v > -0x1p+31f), high = ({ints})(*v >= 0x1p+31f);
    const {rest} x = ({rest})(({ints})*v & low & ~high);
    const {ints} t = __builtin_convertvector(x, {ints});
    const {rest} d = x - __builtin_convertvector(t, {rest});
    const {ints} up = (d > 0.5f) | ((d == 0.5f) & -(t & 1)), down = (d < -0.5f) | ((d == -0.5f) & -(t & 1));
    *r = (t - up + down) | (high & 0x7fffffff) | (~low & (-0x7fffffff - 1));
"""
    found = instructions(lambda isa: isa.nearest, lanes_of(rest))
    choices = [(one.condition(), one.code(rest=rest, ints=ints)) for one in found]
    comment = (
        "/* *r = *v rounded to integers, half to even, within those of 32 bits; any of these where it is NaN. */\n"
    )
    return f"{comment}{_HEAD}@nearest_{rest}(const {rest} *v, {ints} *r)\n{{\n{either(choices, plain)}}}\n"


def narrowed(rest: str) -> str:
    """`void @narrowed_i8x8(int32_t zero, const i32x8 *v, i8x8 *r)`: *v + zero, within the limits of a byte."""
    comment = "/* *r = *v + zero, within the limits of a byte. */\n"
    head = f"{_HEAD}@narrowed_{rest}(int32_t zero, const i32x{lanes_of(rest)} *v, {rest} *r)"
    return f"{comment}{head}\n{{\n{_by_rows(rest, [''])}}}\n"


def narrowed_each(rest: str) -> str:
    """`void @narrowed_each_i8x8x4(int32_t zero, const i32x8 *v0, i8x8 *r0, ..)`: of several vectors."""
    vector, _, number = rest.rpartition("x")
    numbers = [str(n) for n in range(int(number))]
    comment = f"/* *r0 = *v0 + zero, within the limits of a byte, and so on for {number} vectors. */\n"
    operands = ", ".join(f"const i32x{lanes_of(vector)} *v{n}, {vector} *r{n}" for n in numbers)
    head = f"{_HEAD}@narrowed_each_{rest}(int32_t zero,\n        {operands})"
    return f"{comment}{head}\n{{\n{_by_rows(vector, numbers)}}}\n"


def _plainly(rest: str, names: list[str]) -> str:
    """The same without instructions of one instruction set."""
    ints, uints, halves = (f"{kind}x{lanes_of(rest)}" for kind in ("i32", "u32", f"{rest[0]}16"))
    low, high = (0, 255) if rest[0] == "u" else (-128, 127)
    text = f"    const {ints} least = ({ints}){{0}} + ({low} - zero), most = ({ints}){{0}} + ({high} - zero);\n"
    for n in names:
        text += f"    const {ints} below{n} = *v{n} < least, above{n} = *v{n} > most;\n"
        text += f"    const {ints} x{n} = (*v{n} & ~below{n} & ~above{n}) | (least & below{n}) | (most & above{n});\n"
        sums = f"({ints})(({uints})x{n} + (uint32_t)zero)"
        text += f"    *r{n} = __builtin_convertvector(__builtin_convertvector({sums}, {halves}), {rest});\n"
    return text


def _by_rows(rest: str, names: list[str]) -> str:
    """The instructions for vectors of bytes, by their `names`. Those for four also narrow two, twice, and three."""
    is_unsigned, lanes, count = rest[0] == "u", lanes_of(rest), len(names)
    vectors = [f"*v{names[n % 2 if count == 2 else min(n, count - 1)]}" for n in range(_MOST)]
    words = {"value": "uint8_t" if is_unsigned else "int8_t", "u": "u" * is_unsigned, "sign": "us"[not is_unsigned]}
    choices = []
    for one in instructions(lambda isa: isa.narrow_one if count == 1 else isa.narrow_four, lanes):
        text = one.code(**words, **{f"v{n}": vector for n, vector in enumerate(vectors)}) + "\n"
        text += f"    typedef {_WORDS[lanes]} words __attribute__((vector_size(sizeof(all))));\n"
        text += "    const words each = (words)all;\n"
        text += "\n".join(f"    *r{name} = ({rest})each[{n}];" for n, name in enumerate(names))
        choices.append((one.condition(**words), text))
    return either(choices, _plainly(rest, names))


_WORDS = {4: "int32_t", 8: "int64_t"}
"""The integer that holds the bytes of a vector, by its lanes."""
