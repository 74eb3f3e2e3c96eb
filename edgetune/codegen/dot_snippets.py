"""Functions of the preamble that add dot products of narrow integers to lanes of 32 bits (see `dot_products.py`)."""

from __future__ import annotations

from edgetune.codegen.dtypes import by_short
from edgetune.codegen.vector_snippets import either, instructions, lanes_of

_HEAD = "static inline __attribute__((always_inline)) void "

FORMS = {
    f"dot_{x}_{w}_{count}": (x, w, count)
    for x, w, count in (("i16", "i16", 2), ("u8", "i8", 4), ("i8", "i8", 4), ("u8", "u8", 4))
}
"""By the name of a function: the types of both factors, and how many products it adds to a lane."""


def needed(name: str, rest: str) -> list[str]:
    """The types in the text of a function."""
    x, w, count = FORMS[name]
    lanes = lanes_of(rest)
    halves = [f"type:i16x{2 * lanes}"] if x == "i16" else []
    return [f"type:{rest}", f"type:u32x{lanes}", f"type:{x}x{count}u", f"type:{w}x{count * lanes}u", *halves]


def function(name: str, rest: str) -> str:
    """`void @dot_u8_i8_4_i32x8(i32x8 *sums, const uint8_t *x, const int8_t *w)`.

    sums[o] += x[0] * w[4 * o] + .. + x[3] * w[4 * o + 3] for each lane o; sums wrap.
    """
    x, w, count = FORMS[name]
    lanes = lanes_of(rest)
    products = [f"x[{n}] * w[{count} * o + {n}]" for n in range(count)]
    wrapped = " + ".join(f"(uint32_t)({one})" for one in products)
    plain = (
        f"    for (int32_t o = 0; o < {lanes}; o++)\n"
        f"        (*sums)[o] = (int32_t)((uint32_t)(*sums)[o] + {wrapped});\n"
    )
    words = {
        "rest": rest,
        "wide": f"u32x{lanes}",
        "halves": f"i16x{2 * lanes}",
        "all": f"((int32_t)*(const {x}x{count}u *)x | ({rest}){{0}})",
        "own": f"({rest})*(const {w}x{count * lanes}u *)w",
    }
    choices = [
        (one.condition(**words), one.code(**words)) for one in instructions(lambda isa: isa.dot.get(name, {}), lanes)
    ]
    head = f"{_HEAD}@{name}_{rest}({rest} *sums, const {by_short(x).value} *x, const {by_short(w).value} *w)\n"
    return f"/* sums[o] += {' + '.join(products)}; sums wrap. */\n{head}{{\n{either(choices, plain)}}}\n"
