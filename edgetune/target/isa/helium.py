"""Rows of Helium, ARM's vectors for microcontrollers: 16 products of bytes are added to a number by one instruction.

Armv8-M Architecture Reference Manual, C2.4: VMLADAVA adds the products of two vectors to a core register of an even
number. Sums of a tile are such registers; rows of data and of factors are vectors.
"""

from __future__ import annotations

from dataclasses import replace

from edgetune.target.isa.assembler_statement import address, reading_statement
from edgetune.target.isa.dsp_extension import DSP
from edgetune.target.isa.vector_instructions import Instruction, TileSize

_MACRO = "__ARM_FEATURE_MVE"
_MOST_SUMS = 6
"""Sums of a tile: of seven even registers, one is left for addresses."""

_MOST_KEPT = 7
"""Vectors of factors of a tile: one of eight is for data."""

_REACH = 127  # bytes from an address to what a vector is loaded from
_BYTES = 16  # of a vector
_MOST_STEPS = 4  # of a tile
_READ = 2  # loads that are counted where a function is called: from x and from w


def _tile(size: TileSize) -> Instruction:
    """16 products of each row of data and each row of factors, in each step.

    The factors are kept, and rows of data pass by: a register has the address of one at a time.
    """
    kept = [f"w{number}" for number in range(size.steps * size.columns)]
    steps = [f"vldrb.u8 %q[{one}], {address('w', _BYTES * number)}" for number, one in enumerate(kept)]
    for row in range(size.rows):
        steps += [f"add %[row], %[x], %[x{row}]"] if row else []
        for step in range(size.steps):
            steps.append(f"vldrb.u8 %q[data], {address('row' if row else 'x', _BYTES * step)}")
            for column in range(size.columns):
                steps.append(f"vmladava.s8 %[s{row}{column}], %q[data], %q[{kept[step * size.columns + column]}]")
    sums = [f'[s{row}{column}] "+&Te"(*s{row}{column})' for row in range(size.rows) for column in range(size.columns)]
    written = [f'[{one}] "=&w"({one})' for one in (*kept, "data")]
    written += ['[row] "=&r"(row)'] if size.rows > 1 else []
    apart = [f'[x{row}] "i"({"" if row == 1 else f"{row} * "}x_apart)' for row in range(1, size.rows)]
    statement = reading_statement(steps, [*sums, *written], ['[x] "r"(x)', '[w] "r"(w)', *apart])
    pointer = "const int8_t *row;\n    " if size.rows > 1 else ""
    text = f"i8x16 {', '.join((*kept, 'data'))};\n    {pointer}{statement}"
    return Instruction(_MACRO, text, count=float(len(steps) - _READ))


def _fits(size: TileSize) -> bool:
    """Whether there are registers for the factors of a tile, and offsets reach all of them."""
    kept = size.steps * size.columns
    return kept <= _MOST_KEPT and _BYTES * (kept - 1) <= _REACH


_TILES = [
    size
    for steps in range(1, _MOST_STEPS + 1)
    for rows in range(1, _MOST_SUMS + 1)
    for columns in range(1, _MOST_SUMS // rows + 1)
    if (size := TileSize(steps, rows, columns)).calls > 1 and _fits(size)
]

HELIUM = replace(
    DSP,
    dot={**DSP.dot, "dot_i8_i8_16": {1: (_tile(TileSize(1, 1, 1)),)}},
    dot_tiles={**DSP.dot_tiles, "dot_i8_i8_16": {size: _tile(size) for size in _TILES}},
    tile_reach={**DSP.tile_reach, "dot_i8_i8_16": 4000},
)
