"""Rows of ARMv6-M: products of bytes, one at a time, with few instructions around them.

Armv6-M Architecture Reference Manual, A6.7: LDRSB takes the sum of two registers as its address, MULS replaces a
factor, and only eight registers are for both; ADD takes any. So rows of data and of factors share an index, sums are
in the other registers, and each byte of the data meets all rows of factors before the next one is loaded.
"""

from __future__ import annotations

from edgetune.target.costs import Costs
from edgetune.target.isa.assembler_statement import reading_statement
from edgetune.target.isa.vector_instructions import Instruction, TileReach, TileSize, VectorInstructions

_MACRO = "__ARM_ARCH_6M__"
_NUMBERS = 4  # of a dot product
_MOST_STEPS = 4
_MOST_COLUMNS = 2


def _tile(size: TileSize) -> Instruction:
    """Four products of a row of data and each row of factors, in each step."""
    columns = range(size.columns)
    steps = [".syntax unified"]  # GCC takes another one in Thumb-1
    steps += [f"adds %[w{column}], %[w0], #{_NUMBERS * column}" for column in columns if column]
    for step in range(size.steps):
        if step and size.columns > 1:  # the factors of other rows lie between
            apart = _NUMBERS * (size.columns - 1)
            steps += [f"adds %[w{column}], #{apart}" for column in columns]
        for number in range(_NUMBERS):
            steps += [f"movs %[at], #{_NUMBERS * step + number}", "ldrsb %[data], [%[x], %[at]]"]
            for column in columns:
                steps.append(f"ldrsb %[product], [%[w{column}], %[at]]")
                steps += ["muls %[product], %[data], %[product]", f"add %[s0{column}], %[product]"]
    sums = [f'[s0{column}] "+hl"(*s0{column})' for column in columns]
    own = ["at", "data", "product"]
    pointers = [f"w{column}" for column in columns]
    written = [*sums, *(f'[{one}] "=&l"({one})' for one in own)]
    written += ['[w0] "+&l"(w0)', *(f'[{one}] "=&l"({one})' for one in pointers[1:])] if size.columns > 1 else []
    given = ['[x] "l"(x)', *([] if size.columns > 1 else ['[w0] "l"(w)'])]
    statement = reading_statement(steps, written, given, ["cc"])
    others = f", {', '.join(f'*{one}' for one in pointers[1:])}" if size.columns > 1 else ""
    declared = f"const int8_t *w0 = w{others};\n    " if size.columns > 1 else ""
    text = f"int32_t {', '.join(own)};\n    {declared}{statement}"
    return Instruction(_MACRO, text, count=float(len(steps) - 1))


_TILES = [
    size
    for steps in range(1, _MOST_STEPS + 1)
    for columns in range(1, _MOST_COLUMNS + 1)
    if (size := TileSize(steps, 1, columns)).calls > 1
]

COSTS = Costs(
    operation=16,
    operations_in_flight=1,
    instruction=1,
    load=4,
    place_of_load=0.01,
    iteration=4,
    addresses=3,
)
"""One instruction begins at a time; an operation is four products, each of a load, MULS, ADD, and half of an index."""

THUMB = VectorInstructions(
    dot={"dot_i8_i8_4": {1: (_tile(TileSize(1, 1, 1)),)}},
    dot_tiles={"dot_i8_i8_4": {size: _tile(size) for size in _TILES}},
    tile_reach={"dot_i8_i8_4": TileReach(31)},
)
