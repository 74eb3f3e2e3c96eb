"""Functions of the preamble that add dot products of narrow integers to lanes of 32 bits (see `dot_products.py`)."""

from __future__ import annotations

from edgetune.codegen.dtypes import by_short
from edgetune.codegen.vector_snippets import either, instructions, lanes_of
from edgetune.target.isa.vector_instructions import LEAST_PAIRS

_HEAD = "static inline __attribute__((always_inline)) void "

FORMS = {
    f"dot_{x}_{w}_{count}": (x, w, count)
    for x, w, count in (
        *(("i16", "i16", 2), ("i16", "i8", 2), ("i8", "i8", 2)),
        *(("u8", "i8", 4), ("i8", "i8", 4), ("u8", "u8", 4)),
    )
}
"""By the name of a function: the types of both factors, and how many products it adds to a lane."""


def _own(x: str, w: str, numbers: int) -> str:
    """The numbers of the lanes, as wide as those that all lanes share."""
    stored = f"*(const {w}x{numbers}u *)w"
    return f"__builtin_convertvector({stored}, {x}x{numbers})" if x == "i16" and w != x else stored


def function(name: str, rest: str) -> str:
    """`void @dot_u8_i8_4_i32x8(i32x8 *sums, const uint8_t *x, const int8_t *w)`.

    sums[o] += x[0] * w[4 * o] + .. + x[3] * w[4 * o + 3] for each lane o; sums wrap.
    """
    x, w, count = FORMS[name]
    lanes = lanes_of(rest)
    products = [f"x[{n}] * w[{count} * o + {n}]" for n in range(count)]
    wrapped = [f"(uint32_t)({one})" for one in products]
    lines = [" + ".join(wrapped[at : at + 2]) for at in range(0, count, 2)]
    plain = (
        f"    {rest} added = {{0}};\n"
        f"    for (int32_t o = 0; o < {lanes}; o++)\n"
        f"        added[o] = (int32_t)({f'{chr(10)}            + '.join(lines)});\n"
        f"    *sums = ({rest})((u32x{lanes})*sums + (u32x{lanes})added);\n"
    )
    shared = f"int{count * by_short(x).bits}"
    words = {
        "rest": rest,
        "wide": f"u32x{lanes}",
        "halves": f"i16x{2 * lanes}",
        "some": f"({shared}_t)*(const {x}x{count}u *)x",
        "all": f"(({shared}_t)*(const {x}x{count}u *)x | (i{shared[3:]}x{lanes}){{0}})",
        "own": f"(i{shared[3:]}x{lanes}){_own(x, w, count * lanes)}",
    }
    choices = [
        (one.condition(**words), one.code(**words)) for one in instructions(lambda isa: isa.dot.get(name, {}), lanes)
    ]
    head = f"{_HEAD}@{name}_{rest}({rest} *sums, const {by_short(x).value} *x, const {by_short(w).value} *w)\n"
    first, last = products[0].replace(" + 0]", "]"), products[-1]
    between = " + .. + " if len(products) > 2 else " + "
    return f"/* sums[o] += {first}{between}{last}; sums wrap. */\n{head}{{\n{either(choices, plain)}}}\n"


def lane_pairs(rest: str) -> str:
    """`void @lane_pairs_i32x8(i32x8 *sums, const int8_t *x, const int8_t *y, const int8_t *w)`.

    sums[o] += x[o] * w[2 * o] + y[o] * w[2 * o + 1]; w is not -128. Of four lanes there are two vectors, the second of
    which is `more`.
    """
    lanes = lanes_of(rest)
    results = max(lanes, LEAST_PAIRS)
    registers = ("sums", "more")[: results // lanes]
    plain = ""
    for number, name in enumerate(registers):
        at = f"(o + {number * lanes})" if number else "o"
        index, doubled = at.strip("()"), f"2 * {at}"
        plain += (
            f"    for (int32_t o = 0; o < {lanes}; o++)\n"
            f"        (*{name})[o] += x[{index}] * w[{doubled}] + y[{index}] * w[{doubled} + 1];\n"
        )
    words = {
        "rest": rest,
        "wide": f"u32x{lanes}",
        "halves": f"i16x{2 * lanes}",
        "x": f"*(const i8x{results}u *)x",
        "y": f"*(const i8x{results}u *)y",
    }
    choices = [(one.condition(**words), one.code(**words)) for one in instructions(lambda isa: isa.lane_pairs, lanes)]
    sums = ", ".join(f"{rest} *{name}" for name in registers)
    where = "" if len(registers) == 1 else " The lanes of more follow those of sums."
    comment = f"/* sums[o] += x[o] * w[2 * o] + y[o] * w[2 * o + 1]; w is not -128.{where} */\n"
    head = f"{_HEAD}@lane_pairs_{rest}({sums}, const int8_t *x, const int8_t *y, const int8_t *w)\n"
    return f"{comment}{head}{{\n{either(choices, plain)}}}\n"


def twice(rest: str) -> str:
    """`void @dot_twice_i8_i8_2_i32x4(i32x4 *sums, const int8_t *x, const int8_t *w, const int8_t *y, const int8_t *v)`.

    sums[o] += x[0] * w[2 * o] + x[1] * w[2 * o + 1] + y[0] * v[2 * o] + y[1] * v[2 * o + 1]; w and v are not -128.
    """
    lanes = lanes_of(rest)
    products = [f"(uint32_t)({x}[{n}] * {w}[2 * o + {n}])" for x, w in ("xw", "yv") for n in (0, 1)]
    plain = (
        f"    {rest} added = {{0}};\n"
        f"    for (int32_t o = 0; o < {lanes}; o++)\n"
        f"        added[o] = (int32_t)({products[0]} + {products[1]}\n"
        f"            + {products[2]} + {products[3]});\n"
        f"    *sums = ({rest})((u32x{lanes})*sums + (u32x{lanes})added);\n"
    )
    words = {"halves": f"i16x{2 * lanes}"}
    for name, x, w in (("", "x", "w"), ("2", "y", "v")):
        words[f"all{name}"] = f"((int16_t)*(const i8x2u *){x} | (i16x{lanes}){{0}})"
        words[f"own{name}"] = f"*(const i8x{2 * lanes}u *){w}"
    choices = [(one.condition(**words), one.code(**words)) for one in instructions(lambda isa: isa.dot_twice, lanes)]
    operands = ", ".join(f"const int8_t *{one}" for one in "xwyv")
    comment = "/* sums[o] += x[0] * w[2 * o] + x[1] * w[2 * o + 1], and the same of y and v; w and v are not -128. */\n"
    head = f"{_HEAD}@dot_twice_i8_i8_2_{rest}({rest} *sums, {operands})\n"
    return f"{comment}{head}{{\n{either(choices, plain)}}}\n"
