"""Rows of Helium, ARM's vectors for microcontrollers: 16 products of bytes are added to a number by one instruction.

Armv8-M Architecture Reference Manual, C2.4: VMLADAVA adds the products of two vectors to a core register of an even
number. Sums of a tile are such registers; rows of data and of factors are vectors.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from edgetune.target.isa.assembler_statement import address, reading_statement
from edgetune.target.isa.dsp_extension import COSTS as DSP_COSTS
from edgetune.target.isa.dsp_extension import DSP, REGISTERS
from edgetune.target.isa.helium_windows import WINDOWS
from edgetune.target.isa.vector_instructions import Instruction, TileReach, TileSize

_MACRO = "__ARM_FEATURE_MVE"
_MOST_SUMS = 6
"""Sums of a tile: of seven even registers, one is left for addresses."""

_MOST_REGISTERS = 12
"""Registers of a tile, for sums and addresses: of 14, two are left for the loops around it."""

_IMMEDIATE = 4095  # that an address of a row adds to that of the row before
_REACH = {False: 127, True: 508}
"""Bytes from an address to what a vector is loaded from; True: as words, which lie at multiples of 4 bytes."""

_BYTES = 16  # of a vector
_MOST_STEPS = 8  # of a tile: the data of all is within reach
_TAPS = (1, 3, 5)  # of a tile
_VECTORS = 8
_READ = 2  # loads that are counted where a function is called: from x and from w


def _tile(size: TileSize, *, aligned: bool) -> Instruction:
    """16 products of each row of data and each row of factors, in each step and for each tap.

    The factors of a step are loaded, then each row of data, once for all of its taps. A register has the address of
    each row, or of all that are near. Factors that are out of reach have an address that moves on.
    """
    load = "vldrw.u32" if aligned else "vldrb.u8"
    names = [[f"w{tap}{column}" for column in range(size.columns)] for tap in range(size.taps)]
    rows = ["x", *(f"row{place}" for place in range(1, size.places))]
    far = not _within_reach(size, aligned=aligned)
    steps = [] if size.near else [f"add %[{row}], %[{before}], %[apart]" for before, row in pairwise(rows)]
    for step in range(size.steps):
        for tap, columns in enumerate(names):
            for column, one in enumerate(columns):
                offset = _BYTES * ((tap * size.steps + step) * size.columns + column)
                steps.append(f"{load} %q[{one}], " + (f"[%[factors]], #{_BYTES}" if far else address("w", offset)))
        for place, start in enumerate(rows):
            constant = f"x{place}" if size.near and place else ""
            steps.append(f"{load} %q[data], {address('x' if size.near else start, _BYTES * step, constant)}")
            for tap, columns in enumerate(names):
                row = place - tap
                if 0 <= row < size.rows:
                    steps += [f"vmladava.s8 %[s{row}{n}], %q[data], %q[{one}]" for n, one in enumerate(columns)]
    vectors = [*(one for columns in names for one in columns), "data"]
    pointers = [] if size.near else rows[1:]
    written = [
        f'[s{row}{column}] "+&Te"(*s{row}{column})' for row in range(size.rows) for column in range(size.columns)
    ]
    written += [*(f'[{one}] "=&w"({one})' for one in vectors), *(f'[{one}] "=&r"({one})' for one in pointers)]
    written += ['[factors] "+&r"(factors)'] if far else []
    read = ['[x] "r"(x)', *([] if far else ['[w] "r"(w)']), *(['[apart] "i"(x_apart)'] if pointers else [])]
    read += [f'[x{place}] "i"({place} * x_apart)' for place in range(1, size.places if size.near else 1)]
    addresses = [f"*{one}" for one in pointers] + (["*factors = w"] if far else [])
    declared = f"const int8_t {', '.join(addresses)};\n    " if addresses else ""
    text = f"i8x16 {', '.join(vectors)};\n    {declared}{reading_statement(steps, written, read)}"
    return Instruction(_MACRO, text, count=float(len(steps) - _READ), also=REGISTERS)


def _within_reach(size: TileSize, *, aligned: bool) -> bool:
    """Whether one address reaches all factors."""
    return _BYTES * (size.taps * size.steps * size.columns - 1) <= _REACH[aligned]


def _fits(size: TileSize, *, aligned: bool) -> bool:
    """Whether there are registers for a tile: its sums, the addresses of its rows, and one for that of factors.

    Of several taps, rows share data, and all factors of a step have registers, and an address that does not move.
    """
    sums, factors = size.rows * size.columns, size.taps * size.columns
    if size.taps > 1 and not (size.rows > 1 and factors < _VECTORS and _within_reach(size, aligned=aligned)):
        return False
    if size.near and (size.places == 1 or _BYTES * (size.steps - 1) > _REACH[aligned]):
        return False
    return sums <= _MOST_SUMS and sums + (1 if size.near else size.places) + 1 <= _MOST_REGISTERS


def _tiles(*, aligned: bool) -> dict[TileSize, Instruction]:
    """All tiles, those before others that take fewer instructions for the same."""
    return {
        size: _tile(size, aligned=aligned)
        for near in (True, False)
        for steps in range(1, _MOST_STEPS + 1)
        for rows in range(1, _MOST_SUMS + 1)
        for columns in range(1, _MOST_SUMS // rows + 1)
        for taps in _TAPS
        if (size := TileSize(steps, rows, columns, taps, near)).calls > 1 and _fits(size, aligned=aligned)
    }


_FORMS = {"dot_i8_i8_16": False, "dot_aligned_i8_i8_16": True}
COSTS = DSP_COSTS.model_copy(update={"operation": 1.0, "widened_factors": 1.0, "joint_results": 0.5})
"""An operation is one VMLADAVA, whose factors are not widened. Four neighbours become bytes together."""


_LANES = 4


def _row(text: str, count: float) -> dict[int, tuple[Instruction, ...]]:
    return {_LANES: (Instruction(_MACRO, text, count=count),)}


_DIGITS = (
    "const int32_t m = (int32_t)((scale >> 5 | 1u << 27) << 3), left = -(int32_t)(scale & 31u);\n    i32x4 below;\n    "
)


def _rows_of_table(*, little: bool, same: bool = False) -> dict[int, tuple[Instruction, ...]]:
    """A scale of 2^32 too little is x times too little: x is added. A tie is away from 0 where less than 0 is less.

    Lanes have factors of their own, or the `same`.
    """
    steps = ["vld20.32 {q6, q7}, [%[scale]]", "vld21.32 {q6, q7}, [%[scale]]"]
    if same:
        steps = ["vdup.32 q6, %[digits]", "vdup.32 q7, %[shift]"]
    steps += ["vrmulh.s32 q6, %q[x], q6", "vadd.i32 %q[x], %q[x], q6"]
    steps += [] if little else ["vshr.s32 q6, %q[x], #31", "vadd.i32 %q[x], %q[x], q6"]
    steps += ["vrmulh.s32 %q[x], %q[x], q7"]
    factors = ['[digits] "r"(scale[0])', '[shift] "r"(scale[1])'] if same else ['[scale] "r"(scale)']
    return _row(reading_statement(steps, ['[x] "+w"(*x)'], factors, ["q6", "q7"]), float(len(steps)))


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
    scale_all_by=_rows_of_table(little=False, same=True),
    scale_all_little=_rows_of_table(little=True, same=True),
    low_bytes_apart=_row(
        reading_statement(["vstrb.32 %q[x], [%[y], %q[at]]"], [], ['[x] "w"(*x)', '[y] "r"(y)', '[at] "w"(at)']), 2.0
    ),
    widen_apart=_row(
        reading_statement(
            ["vldrb.{letter}32 %q[r], [%[p], %q[at]]"], ['[r] "=&w"(*r)'], ['[p] "r"(p)', '[at] "w"(at)']
        ).replace("{{letter}}", "{letter}"),
        2.0,
    ),
)
"""Rows for numbers that move from the core's registers to a vector."""

HELIUM = replace(
    _NEIGHBOURS,
    dot={**DSP.dot, **{name: {1: (_tile(TileSize(1, 1, 1), aligned=one),)} for name, one in _FORMS.items()}},
    dot_tiles={**DSP.dot_tiles, **{name: _tiles(aligned=one) for name, one in _FORMS.items()}},
    lane_windows=WINDOWS,
    tile_reach={
        **DSP.tile_reach,
        **{name: TileReach(row=_IMMEDIATE, near=_REACH[aligned]) for name, aligned in _FORMS.items()},
    },
)
