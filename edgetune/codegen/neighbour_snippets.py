"""Functions of the preamble for four results that become one vector (see `neighbours.py`)."""

from __future__ import annotations

from collections.abc import Callable

from edgetune.codegen.dtypes import by_short
from edgetune.codegen.vector_snippets import either, instructions, lanes_of
from edgetune.target.isa.vector_instructions import Rows, VectorInstructions

_HEAD = "static inline __attribute__((always_inline)) void "


def joined(rest: str) -> str:
    """`void @joined_i32x4(int32_t x0, int32_t x1, int32_t x2, int32_t x3, i32x4 *r)`."""
    numbers = [f"x{lane}" for lane in range(lanes_of(rest))]
    choices = [(one.condition(), one.code()) for one in instructions(lambda isa: isa.joined, len(numbers))]
    plain = f"    *r = ({rest}){{{', '.join(numbers)}}};\n"
    operands = ", ".join(f"int32_t {one}" for one in numbers)
    head = f"{_HEAD}@joined_{rest}({operands}, {rest} *r)"
    return f"/* *r = {', '.join(numbers)}. */\n{head}\n{{\n{either(choices, plain)}}}\n"


def limited(rest: str) -> str:
    """`void @limited_i8_i32x4(int32_t zero, i32x4 *x)`: *x + zero, within the limits of int8."""
    lanes = lanes_of(rest)
    choices = [(one.condition(), one.code()) for one in instructions(lambda isa: isa.limited, lanes)]
    plain = (
        f"    for (int32_t n = 0; n < {lanes}; n++) {{\n"
        "        const int32_t y = (int32_t)((uint32_t)(*x)[n] + (uint32_t)zero);\n"
        "        (*x)[n] = y > INT8_MAX ? INT8_MAX : y < INT8_MIN ? INT8_MIN : y;\n    }\n"
    )
    head = f"{_HEAD}@limited_i8_{rest}(int32_t zero, {rest} *x)"
    return f"/* *x = *x + zero, within the limits of int8. */\n{head}\n{{\n{either(choices, plain)}}}\n"


def low_bytes(rest: str) -> str:
    """`void @low_bytes_i32x4(const i32x4 *x, int8_t *y)`: the numbers as bytes."""
    lanes = lanes_of(rest)
    choices = [(one.condition(), one.code()) for one in instructions(lambda isa: isa.low_bytes, lanes)]
    plain = f"    for (int32_t n = 0; n < {lanes}; n++) y[n] = (int8_t)(*x)[n];\n"
    head = f"{_HEAD}@low_bytes_{rest}(const {rest} *x, int8_t *y)"
    return f"/* y[0] = (*x)[0] and so on: bytes. */\n{head}\n{{\n{either(choices, plain)}}}\n"


def _places(lanes: int) -> str:
    """A vector that says how many bytes from the first one each lane lies."""
    numbers = ", ".join(map(str, range(lanes)))
    return f"    const u32x{lanes} at = (u32x{lanes}){{{numbers}}} * (uint32_t)apart;\n"


def low_bytes_apart(rest: str) -> str:
    """`void @low_bytes_apart_i32x4(const i32x4 *x, int8_t *y, int32_t apart)`: the numbers as bytes at a distance."""
    lanes = lanes_of(rest)
    known = instructions(lambda isa: isa.low_bytes_apart, lanes)
    choices = [(one.condition(), f"{_places(lanes).strip()}\n    {one.code()}") for one in known]
    plain = f"    for (int32_t n = 0; n < {lanes}; n++) y[n * apart] = (int8_t)(*x)[n];\n"
    head = f"{_HEAD}@low_bytes_apart_{rest}(const {rest} *x, int8_t *y, int32_t apart)"
    return f"/* y[0] = (*x)[0], y[apart] = (*x)[1] and so on: bytes. */\n{head}\n{{\n{either(choices, plain)}}}\n"


def widen_apart(rest: str) -> str:
    """`void @widen_apart_i8x4(const int8_t *p, int32_t apart, i32x4 *r)`: numbers at a distance; always signed."""
    short, _, lanes = rest.partition("x")
    words = {"letter": "s" if short[0] == "i" else "u"}
    known = instructions(lambda isa: isa.widen_apart, int(lanes))
    choices = [(one.condition(), f"{_places(int(lanes)).strip()}\n    {one.code(**words)}") for one in known]
    plain = f"    for (int32_t n = 0; n < {lanes}; n++) (*r)[n] = p[n * apart];\n"
    head = f"{_HEAD}@widen_apart_{rest}(const {by_short(short).value} *p, int32_t apart, i32x{lanes} *r)"
    return f"/* (*r)[0] = p[0], (*r)[1] = p[apart] and so on. */\n{head}\n{{\n{either(choices, plain)}}}\n"


SCALES: dict[str, Callable[[VectorInstructions], Rows]] = {
    "down": lambda isa: isa.scale_down,
    "by": lambda isa: isa.scale_by,
    "little": lambda isa: isa.scale_little,
    "all_by": lambda isa: isa.scale_all_by,
    "all_little": lambda isa: isa.scale_all_little,
}
"""How the lanes of a vector are scaled: by one scale in the code, or by one of a table for each lane or for all."""


def function_of_lane(kind: str) -> str:
    """The function that does to one number what `kind` of `SCALES` does to each lane.

    That for "down" has shifts from `LEAST_SHIFT` on, and vectors have smaller ones.
    """
    return "fixed_point_scale" if kind == "down" else f"fixed_point_scale_{kind.removeprefix('all_')}"


def scaled(kind: str, rest: str) -> str:
    """`void @vscale_by_i32x4(i32x4 *x, const int32_t *scale)`: each lane scaled; "down" has one scale for all."""
    lanes = lanes_of(rest)
    choices = [(one.condition(), one.code()) for one in instructions(SCALES[kind], lanes)]
    scale = "&scale[2 * n]" if kind in ("by", "little") else "scale"
    operand = "uint32_t scale" if kind == "down" else "const int32_t *scale"
    function = f"@{function_of_lane(kind)}_i32"
    plain = f"    for (int32_t n = 0; n < {lanes}; n++) (*x)[n] = {function}((*x)[n], {scale});\n"
    head = f"{_HEAD}@vscale_{kind}_{rest}({rest} *x, {operand})"
    return f"/* Lane n of *x = {function}((*x)[n], {scale}). */\n{head}\n{{\n{either(choices, plain)}}}\n"
