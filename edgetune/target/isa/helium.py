"""Rows of Helium, ARM's vectors for microcontrollers: 16 products of bytes are added to a number by one instruction.

Armv8-M Architecture Reference Manual, C2.4: VMLADAVA adds the products of two vectors to a core register of an even
number. Sums of a tile are such registers; rows of data and of factors are vectors.
"""

from __future__ import annotations

from dataclasses import replace

from edgetune.target.isa.assembler_statement import address, reading_statement
from edgetune.target.isa.dsp_extension import COSTS as DSP_COSTS
from edgetune.target.isa.dsp_extension import DSP, REGISTERS
from edgetune.target.isa.helium_windows import WINDOWS
from edgetune.target.isa.vector_instructions import Instruction, TileSize

_MACRO = "__ARM_FEATURE_MVE"
_MOST_SUMS = 6
"""Sums of a tile: of seven even registers, one is left for addresses."""

_MOST_REGISTERS = 12
"""Registers of a tile, for sums and addresses: of 14, two are left for the loops around it."""

_REACH = 127  # bytes from an address to what a vector is loaded from
_BYTES = 16  # of a vector
_MOST_STEPS = 8  # of a tile: the data of all is within reach
_READ = 2  # loads that are counted where a function is called: from x and from w


def _tile(size: TileSize) -> Instruction:
    """16 products of each row of data and each row of factors, in each step.

    A register has the address of each row, and one that of the factors, which moves on where they are out of reach.
    """
    columns = [f"w{column}" for column in range(size.columns)]
    rows = ["x", *(f"row{row}" for row in range(1, size.rows))]
    steps = [f"add %[row{row}], %[x], %[x{row}]" for row in range(1, size.rows)]
    far = _BYTES * (size.steps * size.columns - 1) > _REACH
    factors = "factors" if far else "w"
    for step in range(size.steps):
        for column, one in enumerate(columns):
            from_here = address(factors, 0 if far else _BYTES * (step * size.columns + column))
            steps.append(f"vldrb.u8 %q[{one}], {from_here}" + (f", #{_BYTES}" if far else ""))
        for row, start in enumerate(rows):
            steps.append(f"vldrb.u8 %q[data], {address(start, _BYTES * step)}")
            steps += [f"vmladava.s8 %[s{row}{column}], %q[data], %q[{one}]" for column, one in enumerate(columns)]
    sums = [f'[s{row}{column}] "+&Te"(*s{row}{column})' for row in range(size.rows) for column in range(size.columns)]
    written = [f'[{one}] "=&w"({one})' for one in (*columns, "data")]
    written += [f'[{row}] "=&r"({row})' for row in rows[1:]]
    written += ['[factors] "+&r"(factors)'] if far else []
    apart = [f'[x{row}] "i"({"" if row == 1 else f"{row} * "}x_apart)' for row in range(1, size.rows)]
    statement = reading_statement(steps, [*sums, *written], ['[x] "r"(x)', *([] if far else ['[w] "r"(w)']), *apart])
    pointers = [f"*{row}" for row in rows[1:]] + (["*factors = w"] if far else [])
    declared = f"const int8_t {', '.join(pointers)};\n    " if pointers else ""
    text = f"i8x16 {', '.join((*columns, 'data'))};\n    {declared}{statement}"
    return Instruction(_MACRO, text, count=float(len(steps) - _READ), also=REGISTERS)


def _fits(size: TileSize) -> bool:
    """Whether there are registers for a tile: its sums, the addresses of its rows, and one for that of factors."""
    sums = size.rows * size.columns
    return sums <= _MOST_SUMS and sums + size.rows + 1 <= _MOST_REGISTERS


_TILES = [
    size
    for steps in range(1, _MOST_STEPS + 1)
    for rows in range(1, _MOST_SUMS + 1)
    for columns in range(1, _MOST_SUMS + 1)
    if (size := TileSize(steps, rows, columns)).calls > 1 and _fits(size)
]

COSTS = DSP_COSTS.model_copy(update={"operation": 1.0, "widened_factors": 1.0, "joint_results": 0.5})
"""An operation is one VMLADAVA, whose factors are not widened. Four neighbours become bytes together."""


_LANES = 4


def _row(text: str, count: float) -> dict[int, tuple[Instruction, ...]]:
    return {_LANES: (Instruction(_MACRO, text, count=count),)}


_DIGITS = (
    "const int32_t m = (int32_t)((scale >> 5 | 1u << 27) << 3), left = -(int32_t)(scale & 31u);\n    i32x4 below;\n    "
)


def _rows_of_table(*, little: bool) -> dict[int, tuple[Instruction, ...]]:
    """A scale of 2^32 too little is x times too little: x is added. A tie is away from 0 where less than 0 is less."""
    steps = ["vld20.32 {q6, q7}, [%[scale]]", "vld21.32 {q6, q7}, [%[scale]]"]
    steps += ["vrmulh.s32 q6, %q[x], q6", "vadd.i32 %q[x], %q[x], q6"]
    steps += [] if little else ["vshr.s32 q6, %q[x], #31", "vadd.i32 %q[x], %q[x], q6"]
    steps += ["vrmulh.s32 %q[x], %q[x], q7"]
    return _row(reading_statement(steps, ['[x] "+w"(*x)'], ['[scale] "r"(scale)'], ["q6", "q7"]), float(len(steps)))


_NEIGHBOURS = replace(
    DSP,
    joined=_row(
        '__asm__("vmov %q0[2], %q0[0], %1, %3\\n\\tvmov %q0[3], %q0[1], %2, %4"\n'
        '        : "=&w"(*r) : "r"(x0), "r"(x1), "r"(x2), "r"(x3));',
        2.0,
    ),
    limited=_row(
        '__asm__("vadd.i32 %q0, %q0, %1\\n\\tvqshl.s32 %q0, %q0, #24\\n\\tvshr.s32 %q0, %q0, #24"'
        ' : "+w"(*x) : "r"(zero));',
        3.0,
    ),
    low_bytes=_row(reading_statement(["vstrb.32 %q[x], [%[y]]"], [], ['[x] "w"(*x)', '[y] "l"(y)']), 1.0),
    widen=_row('__asm__("vldrb.{letter}32 %q0, [%1]" : "=w"(*r) : "l"(p), "m"(*(const {rest}u *)p));', 1.0),
    scale_down={
        **DSP.scale_down,
        **_row(
            _DIGITS
            + '__asm__("vqrdmulh.s32 %q0, %q0, %2\\n\\tvshr.s32 %q1, %q0, #31\\n\\tvadd.i32 %q0, %q0, %q1\\n\\t"\n'
            '        "vrshl.s32 %q0, %3" : "+&w"(*x), "=&w"(below) : "r"(m), "r"(left));',
            4.0,
        ),
    },
    scale_by={**DSP.scale_by, **_rows_of_table(little=False)},
    scale_little={**DSP.scale_little, **_rows_of_table(little=True)},
)
"""Rows for numbers that move from the core's registers to a vector."""

HELIUM = replace(
    _NEIGHBOURS,
    dot={**DSP.dot, "dot_i8_i8_16": {1: (_tile(TileSize(1, 1, 1)),)}},
    dot_tiles={**DSP.dot_tiles, "dot_i8_i8_16": {size: _tile(size) for size in _TILES}},
    lane_windows=WINDOWS,
    tile_reach={**DSP.tile_reach, "dot_i8_i8_16": 4000},
)
