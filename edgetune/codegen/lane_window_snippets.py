"""Functions of the preamble for the results of a window, from their bias to their bytes (see `lane_windows.py`)."""

from __future__ import annotations

from edgetune.codegen.dot_snippets import declared
from edgetune.codegen.lane_windows import lane_window_name
from edgetune.codegen.vector_snippets import either
from edgetune.target.isa import INSTRUCTION_SETS
from edgetune.target.isa.vector_instructions import RESULTS_OF_WINDOW, Window

_HEAD = "static inline __attribute__((always_inline)) void "


def window(size: Window, rest: str) -> str:
    """`void @lane_window_3x3_i8(const int32_t *bias, const int8_t *x, int32_t apart, int32_t rows_apart, ..)`.

    The bytes of eight results at y.
    """
    taps = size.rows * size.columns
    scaled = f"@scaled_little_{rest}_i32"
    inner = f"            sum += (uint32_t)(x[{_place(size)} + o] * w[{RESULTS_OF_WINDOW} * t + o]);\n"
    plain = (
        f"    for (int32_t o = 0; o < {RESULTS_OF_WINDOW}; o++) {{\n"
        "        uint32_t sum = (uint32_t)bias[o];\n"
        f"        for (int32_t t = 0; t < {taps}; t++)\n{inner}"
        f"        y[o] = {scaled}((int32_t)sum, &scales[2 * o], zero);\n    }}\n"
    )
    found = (isa.vectors.lane_windows.get(size) for isa in INSTRUCTION_SETS.values())
    choices = [(f"{one.condition()} && defined(__OPTIMIZE__)", one.code()) for one in dict.fromkeys(found) if one]
    operands = ["const int32_t *bias", "const int8_t *x"]
    operands += ["int32_t apart"] if size.columns > 1 else []
    operands += ["int32_t rows_apart"] if size.rows > 1 else []
    operands += ["const int8_t *w", "const int32_t *scales", "int32_t zero", "int8_t *y"]
    head = declared(f"{_HEAD}@{lane_window_name(size)}_{rest}", operands)
    comment = (
        f"/* A window of {size.rows} x {size.columns} taps: y[o] = {scaled}(sum, &scales[2 * o], zero), o < 8,\n"
        "   with sum = bias[o] + x[o] * w[o] + .. In w, eight factors of each tap lie in turn; none is -128. Taps lie\n"
        "   `apart` in a row, and rows `rows_apart`, which are constants. Sums wrap. */\n"
    )
    return f"{comment}{head}\n{{\n{either(choices, plain)}}}\n"


def _place(size: Window) -> str:
    """Where the data of tap t lies."""
    column = "t" if size.rows == 1 else f"t % {size.columns}"
    parts = [f"t / {size.columns} * rows_apart"] if size.rows > 1 else []
    parts += [f"{column} * apart"] if size.columns > 1 else []
    return " + ".join(parts) or "0"


def sizes() -> dict[str, Window]:
    """By the name of a function for a window: its size."""
    known = {size for isa in INSTRUCTION_SETS.values() for size in isa.vectors.lane_windows}
    return {lane_window_name(size): size for size in sorted(known)}
