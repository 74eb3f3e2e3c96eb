"""Windows of Helium: eight results of a depthwise convolution by one statement, from their bias to their bytes.

Vectors of bytes become 16 bits wide as they are loaded. Two taps are added in 16 bits, which holds as weights are not
-128. What is widened to 32 bits after that are the even lanes in one vector and the odd ones in another; VLD2 and VLD4
load bias and scales so, and VQMOVNB and VQMOVNT put results back in order.
"""

from __future__ import annotations

from collections.abc import Iterator

from edgetune.target.isa.assembler_statement import address, reading_statement
from edgetune.target.isa.vector_instructions import RESULTS_OF_WINDOW, Instruction, Window

_MACRO = "__ARM_FEATURE_MVE"
_MOST_TAPS = 16  # the factors of all are within reach
_MOST_ROWS = 5
_MOST_NEAR = 7  # columns, the places of which are operands

_SUMS = ("vld20.32 {q0, q1}, [%[bias]]", "vld21.32 {q0, q1}, [%[bias]]")
_BYTES = (
    *(f"vld4{turn}.32 {{q4, q5, q6, q7}}, [%[scales]]" for turn in range(4)),
    *("vrmulh.s32 q2, q0, q4", "vadd.i32 q0, q0, q2", "vrmulh.s32 q0, q0, q5"),
    *("vrmulh.s32 q2, q1, q6", "vadd.i32 q1, q1, q2", "vrmulh.s32 q1, q1, q7"),
    *("vqmovnb.s32 q0, q0", "vqmovnt.s32 q0, q1"),
    *("vqadd.s16 q0, q0, %[zero]", "vqmovnb.s16 q0, q0", "vstrb.16 q0, [%[y]]"),
)
"""A scale of 2^32 too little is x times too little: x is added."""


def _loads(size: Window) -> Iterator[tuple[list[str], str]]:
    """For each tap: what computes its address, and the address."""
    middle = size.columns // 2
    for row in range(size.rows):
        for column in range(size.columns):
            if size.near:
                steps = [f"add %[row], %[{'row' if row else 'x'}], %[{'rows_apart' if row else 'middle'}]"]
                yield steps if column == 0 else [], f"[%[row], %[at{column}]]" if column != middle else "[%[row]]"
            else:
                steps = [f"add %[row], %[row], %[{'apart' if column else 'next_row'}]"]
                yield (steps if row or column else ["mov %[row], %[x]"]), "[%[row]]"


def _window(size: Window) -> Instruction:
    """The sums of pairs of taps, then those of the last one."""
    steps = [*_SUMS]
    loads = [*_loads(size)]
    for tap, (before, place) in enumerate(loads):
        data, factors = ("q3", "q4") if tap % 2 else ("q2", "q3")
        steps += [*before, f"vldrb.s16 {data}, {place}"]
        steps.append(f"vldrb.s16 {factors}, {address('w', RESULTS_OF_WINDOW * tap)}")
        steps.append(f"vmul.i16 {data}, {data}, {factors}")
        if tap % 2:
            steps.append("vadd.i16 q2, q2, q3")
        if tap % 2 or tap + 1 == len(loads):
            steps += ["vmovlb.s16 q3, q2", "vmovlt.s16 q2, q2", "vadd.i32 q0, q0, q3", "vadd.i32 q1, q1, q2"]
    steps += _BYTES
    given = ['[x] "l"(x)', '[w] "l"(w)', '[bias] "r"(bias)', '[scales] "r"(scales)', '[zero] "r"(zero)', '[y] "l"(y)']
    middle = size.columns // 2
    if size.near:
        given += [f'[middle] "i"({middle} * apart)']
        given += [f'[at{n}] "i"({n - middle} * apart)' for n in range(size.columns) if n != middle]
        given += ['[rows_apart] "i"(rows_apart)'] if size.rows > 1 else []
    else:
        given += ['[apart] "i"(apart)'] if size.columns > 1 else []
        given += [f'[next_row] "i"(rows_apart - {size.columns - 1} * apart)'] if size.rows > 1 else []
    statement = reading_statement(steps, ['[row] "=&l"(row)'], given, [f"q{number}" for number in range(8)])
    return Instruction(_MACRO, f"const int8_t *row;\n    {statement}", count=float(len(steps)))


WINDOWS = {
    size: _window(size)
    for rows in range(1, _MOST_ROWS + 1)
    for columns in range(1, _MOST_TAPS // rows + 1)
    for near in (True, False)
    if not (size := Window(rows, columns, near)).near or columns <= _MOST_NEAR
}
