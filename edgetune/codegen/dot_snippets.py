"""Functions of the preamble that add dot products of narrow integers to lanes of 32 bits (see `dot_products.py`)."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from edgetune.codegen.dot_tiles import tile_name
from edgetune.codegen.dtypes import by_short
from edgetune.codegen.line_breaks import COLUMNS
from edgetune.codegen.vector_snippets import either, instructions, lanes_of
from edgetune.target.dot_product import order_of_factors
from edgetune.target.isa import INSTRUCTION_SETS
from edgetune.target.isa.vector_instructions import (
    LEAST_PAIRS,
    RESULTS_OF_LANES,
    TileSize,
    WindowSize,
)

_HEAD = "static inline __attribute__((always_inline)) void "
_HEAD_OF_FALLBACK = "static inline __attribute__((always_inline, unused)) void "
"""Of a function that is perhaps only called where another one's instructions are not there: clang warns of those."""

FORMS = {
    f"dot_{x}_{w}_{count}": (x, w, count)
    for x, w, count in (
        *(("i16", "i16", 2), ("i16", "i8", 2), ("i8", "i8", 2)),
        *(("u8", "i8", 4), ("i8", "i8", 4), ("u8", "u8", 4), ("i16", "i8", 4), ("i8", "i8", 16)),
    )
} | {"dot_aligned_i16_i8_4": ("i16", "i8", 4), "dot_aligned_i8_i8_16": ("i8", "i8", 16)}
"""By the name of a function: the types of both factors, and how many products it adds to a lane."""


def _own(x: str, w: str, numbers: int) -> str:
    """The numbers of the lanes, as wide as those that all lanes share."""
    stored = f"*(const {w}x{numbers}u *)w"
    return f"__builtin_convertvector({stored}, {x}x{numbers})" if x == "i16" and w != x else stored


def function(name: str, rest: str) -> str:
    """`void @dot_u8_i8_4_i32x8(i32x8 *sums, const uint8_t *x, const int8_t *w)`.

    sums[o] += x[0] * w[4 * o] + .. + x[3] * w[4 * o + 3] for each lane o; sums wrap.
    """
    if rest == "i32":
        return _of_one(name)
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


def _of_one(name: str) -> str:
    """`void @dot_i16_i8_4_i32(int32_t *s00, const int16_t *x0, const int8_t *w0)`: the same for one sum."""
    x, w, count = FORMS[name]
    products = [f"x[{n}] * w[{place}]" for place, n in enumerate(order_of_factors(by_short(x).dtype, count))]
    wrapped = [f"(uint32_t)({one})" for one in products]
    lines = [" + ".join(wrapped[at : at + 2]) for at in range(0, count, 2)]
    plain = f"    *s00 = (int32_t)((uint32_t)*s00 + {f'{chr(10)}        + '.join(lines)});\n"
    choices = [(one.condition(), one.code()) for one in instructions(lambda isa: isa.dot.get(name, {}), 1)]
    head = f"{_HEAD_OF_FALLBACK}@{name}_i32(int32_t *s00, const {by_short(x).value} *x, const {by_short(w).value} *w)\n"
    aligned = "; x and w lie at multiples of 4 bytes" if "aligned" in name else ""
    return f"/* *s00 += {' + '.join(products)}; it wraps{aligned}. */\n{head}{{\n{either(choices, plain)}}}\n"


def tile(name: str, size: TileSize, rest: str) -> str:
    """`void @dot_i16_i8_4_2x2x1_i32(int32_t *s00, int32_t *s10, const int16_t *x, int32_t x_apart, const int8_t *w)`.

    The dot products of all rows of data, so many elements apart, by all rows of factors; the same for several taps.
    """
    x, w, count = FORMS[name]
    rows, columns = size.rows, size.columns
    sums = [(row, column) for row in range(rows) for column in range(columns)]
    more = " + k" if size.steps > 1 else ""
    heads = [f"for (int32_t t = 0; t < {size.taps}; t++) {{"] if size.taps > 1 else []
    heads += [f"for (int32_t k = 0; k < {count * size.steps}; k += {count}) {{"] if more else []
    plain = "".join(f"{'    ' * depth}{one}\n" for depth, one in enumerate(heads, 1))
    for row, column in sums:
        data = f"x{('', ' + x_apart', f' + {row} * x_apart')[min(row, 2)]}"
        data += (" + t * x_apart" if size.taps > 1 else "") + more
        factors = f"w{f' + {count * column}' if column else ''}"
        factors += f" + {count * size.steps * columns} * t" if size.taps > 1 else ""
        factors += more if columns == 1 else f" + {columns} * k" if more else ""
        plain += f"{'    ' * (len(heads) + 1)}@{name}_{rest}(s{row}{column}, {data}, {factors});\n"
    plain += "".join(f"{'    ' * depth}}}\n" for depth in range(len(heads), 0, -1))
    found = (isa.vectors.dot_tiles.get(name, {}).get(size) for isa in INSTRUCTION_SETS.values())
    choices = [(f"{one.condition()} && defined(__OPTIMIZE__)", one.code()) for one in dict.fromkeys(found) if one]
    operands = [
        *(f"int32_t *s{row}{column}" for row, column in sums),
        *(f"const {by_short(x).value} *x", "int32_t x_apart")[: min(rows, 2)],
        f"const {by_short(w).value} *w",
    ]
    head = declared(f"{_HEAD}@{tile_name(name, size)}_{rest}", operands)
    lines = (
        f"@{name}_{rest} of {count * size.steps} numbers, of each of {rows} rows of x and {columns} of w.",
        f"In w, {count} of each row lie in turn." if columns > 1 else "",
        "x_apart is a constant." if rows > 1 else "",
        f"That for {size.taps} taps, of which x moves on by x_apart." if size.taps > 1 else "",
    )
    return f"/* {' '.join(filter(None, lines))} */\n{head}\n{{\n{either(choices, plain)}}}\n"


def declared(head: str, operands: Sequence[str]) -> str:
    """The head of a function, its operands in lines of their own: names get the prefix of a package later."""
    indent = " " * 8
    lines = textwrap.wrap(", ".join(one.replace(" ", "\0") for one in operands), COLUMNS - len(indent))
    return "\n".join((f"{head}(", *(indent + line.replace("\0", " ") for line in lines))) + ")"


def tiles() -> dict[str, tuple[str, TileSize]]:
    """By the name of a function for a tile: that for one dot product, and its rows and columns."""
    known = {
        (name, size) for isa in INSTRUCTION_SETS.values() for name, of in isa.vectors.dot_tiles.items() for size in of
    }
    return {tile_name(name, size): (name, size) for name, size in sorted(known)}


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


def lane_products(size: WindowSize, rest: str) -> str:
    """`void @lane_products_i16_3_i32(int32_t *s0, .., const int8_t *x, int32_t x_apart, const int16_t *w)`.

    s0 += x[0] * w[0] and so on, for several taps.
    """
    lanes, taps = range(RESULTS_OF_LANES), size.taps
    own = by_short(size.function.rpartition("_")[2]).value
    more = ["", ""] if taps == 1 else [" + t * x_apart", f" + {RESULTS_OF_LANES} * t"]
    indent = "    " if taps == 1 else "        "
    inner = "".join(
        f"{indent}*s{n} = (int32_t)((uint32_t)*s{n} + (uint32_t)(x[{_sum(n, more[0])}] * w[{_sum(n, more[1])}]));\n"
        for n in lanes
    )
    plain = inner if taps == 1 else f"    for (int32_t t = 0; t < {taps}; t++) {{\n{inner}    }}\n"
    found = (isa.vectors.lane_products.get(size) for isa in INSTRUCTION_SETS.values())
    choices = [(f"{one.condition()} && defined(__OPTIMIZE__)", one.code()) for one in dict.fromkeys(found) if one]
    operands = [*(f"int32_t *s{n}" for n in lanes), "const int8_t *x", *(["int32_t x_apart"] if taps > 1 else [])]
    head = declared(f"{_HEAD}@{window_name(size)}_{rest}", [*operands, f"const {own} *w"])
    comment = "*s0 += x[0] * w[0], and the same of s1, s2 and s3"
    comment += f", for {taps} taps: x_apart is a constant" if taps > 1 else ""
    return f"/* {comment}. Sums wrap. */\n{head}\n{{\n{either(choices, plain)}}}\n"


def _sum(number: int, more: str) -> str:
    """An index that begins with a number."""
    return f"{number}{more}" if number or not more else more.removeprefix(" + ")


def window_name(size: WindowSize) -> str:
    """The function for a window of taps."""
    return size.function if size.taps == 1 else f"{size.function}_{size.taps}"


def windows() -> dict[str, WindowSize]:
    """By the name of a function for products of lanes: the taps and the function of one."""
    known = {size for isa in INSTRUCTION_SETS.values() for size in isa.vectors.lane_products}
    return {window_name(size): size for size in sorted(known)}


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
