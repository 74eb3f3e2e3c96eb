"""Functions of the preamble for four results that become one vector (see `neighbours.py`)."""

from __future__ import annotations

from edgetune.codegen.vector_snippets import either, instructions, lanes_of

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


def scaled(kind: str, rest: str) -> str:
    """`void @vscale_by_i32x4(i32x4 *x, const int32_t *scale)`: each lane scaled; "down" has one scale for all."""
    lanes = lanes_of(rest)
    rows = {"down": lambda isa: isa.scale_down, "by": lambda isa: isa.scale_by, "little": lambda isa: isa.scale_little}
    choices = [(one.condition(), one.code()) for one in instructions(rows[kind], lanes)]
    scale = "scale" if kind == "down" else "&scale[2 * n]"
    operand = "uint32_t scale" if kind == "down" else "const int32_t *scale"
    function = f"@fixed_point_scale_{kind}_i32"
    plain = f"    for (int32_t n = 0; n < {lanes}; n++) (*x)[n] = {function}((*x)[n], {scale});\n"
    head = f"{_HEAD}@vscale_{kind}_{rest}({rest} *x, {operand})"
    own = "scale" if kind == "down" else "&scale[2 * n]"
    return f"/* Lane n of *x = {function}((*x)[n], {own}). */\n{head}\n{{\n{either(choices, plain)}}}\n"
