"""Rows of the DSP extension of ARM's microcontrollers: integers of 8 and 16 bits in the core's own registers.

Armv7-M Architecture Reference Manual, A7.7: SMLAD, SXTB16. GCC 12 has no builtin for SXTB16 with a rotation.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgetune.target.costs import Costs
from edgetune.target.isa.assembler_statement import address, reading_statement
from edgetune.target.isa.vector_instructions import (
    RESULTS_OF_LANES,
    Instruction,
    TileReach,
    TileSize,
    VectorInstructions,
    WindowSize,
)

_MACRO = "__ARM_FEATURE_DSP"
REGISTERS = "!defined(__ARM_RWPI)"
"""The condition that r9 is a register as any, not the base of data."""

_UNALIGNED = f"defined(__ARM_FEATURE_UNALIGNED) && {REGISTERS}"
_WORD = 4  # bytes
_MOST_STEPS = 4  # of a tile
_MOST_TAPS = 5  # of a row of a window
_READ = 2  # loads that are counted where a function is called: from x and from w
_MOST_WORDS = 11
"""Registers of a tile, for sums and words: of 14, addresses take 2, and one is left. Of two rows, four have words."""


def _halves(even: str, odd: str, source: str) -> tuple[str, ...]:
    """The bytes of `source` as integers of 16 bits: the even ones in a word, the odd ones in another."""
    return (
        f"int32_t {even}, {odd};",
        f'__asm__("sxtb16 %0, %1" : "=r"({even}) : "r"({source}));',
        f'__asm__("sxtb16 %0, %1, ror #8" : "=r"({odd}) : "r"({source}));',
    )


_WIDEN_WORD = (
    "const int32_t bytes = (int32_t)*(const i8x4u *)from;",
    *_halves("even", "odd", "bytes"),
    "int32_t first, second;",
    '__asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(first) : "r"(even), "r"(odd));',
    '__asm__("pkhtb %0, %1, %2, asr #16" : "=r"(second) : "r"(odd), "r"(even));',
    "*(i16x2u *)to = (i16x2)first;",
    "*(i16x2u *)(to + 2) = (i16x2)second;",
)


def _tile(size: TileSize, *, aligned: bool) -> Instruction:
    """Four products of each row of data and each row of factors, in each step.

    Of the fewer rows, all words are kept; those of the others pass by. Two rows of factors are one load where aligned.
    """
    by_rows = size.rows >= size.columns
    fewer, more = sorted((size.rows, size.columns))
    steps: list[str] = []

    def data(step: int, row: int, first: str, second: str) -> None:
        apart = f"x{row}" if row else ""
        low, high = (address("x", 2 * _WORD * step + offset, apart) for offset in (0, _WORD))
        steps.extend(
            [f"ldrd %[{first}], %[{second}], {low}"]
            if aligned
            else [f"ldr %[{first}], {low}", f"ldr %[{second}], {high}"]
        )

    def factors(step: int, column: int, words: tuple[str, str, str], following: str) -> None:
        word, even, odd = words
        at = address("w", _WORD * (step * size.columns + column))
        pair = aligned and column % 2 == 0 and column + 1 < size.columns
        if not (aligned and column % 2):
            steps.append(f"ldrd %[{word}], %[{following}], {at}" if pair else f"ldr %[{word}], {at}")
        steps.extend((f"sxtb16 %[{even}], %[{word}]", f"sxtb16 %[{odd}], %[{word}], ror #8"))

    def products(row: int, column: int, halves: Sequence[tuple[str, str]]) -> None:
        steps.extend(f"smlad %[s{row}{column}], %[{mine}], %[{own}], %[s{row}{column}]" for mine, own in halves)

    kept, passing = (("even", "odd"), ("first", "second")) if by_rows else (("first", "second"), ("even", "odd"))
    words = [*(f"{name}{number}" for number in range(fewer) for name in kept), *passing]
    words += ["following"] if aligned and not by_rows and size.columns > 1 else []
    for step in range(size.steps):
        for number in range(fewer):
            if by_rows:
                factors(step, number, (f"odd{number}", f"even{number}", f"odd{number}"), f"odd{number + 1}")
            else:
                data(step, number, f"first{number}", f"second{number}")
        for number in range(more):
            if by_rows:
                data(step, number, *passing)
            else:
                factors(step, number, ("following" if aligned and number % 2 else "odd", *passing), "following")
            for other in range(fewer):
                halves = [(mine, f"{own}{other}") for mine, own in zip(passing, kept, strict=True)]
                products(*((number, other) if by_rows else (other, number)), halves)
    sums = [f'[s{row}{column}] "+&r"(*s{row}{column})' for row in range(size.rows) for column in range(size.columns)]
    apart = [f'[x{row}] "i"({2 * row} * x_apart)' for row in range(1, size.rows)]
    return _block(words, steps, sums, apart, REGISTERS if aligned else _UNALIGNED)


_FORMS = (("dot_i16_i8_4", False), ("dot_aligned_i16_i8_4", True))
_TILES = [
    TileSize(steps, rows, columns)
    for steps in range(1, _MOST_STEPS + 1)
    for rows in range(1, 8)
    for columns in range(1, 8)
    if steps * rows * columns > 1 and rows * columns + 2 * min(rows, columns) + 3 <= _MOST_WORDS
]


def _window(taps: int, *, widened: bool) -> Instruction:
    """Products of the bytes of four lanes, those of lanes 0 and 2 and those of 1 and 3 in a word each."""
    words = ["x02", "x13", *(("w01", "w23") if widened else ("w02", "w13"))]
    steps: list[str] = []
    for tap in range(taps):
        steps.append(f"ldr %[x13], {address('x', 0, f'x{tap}' if tap else '')}")
        steps += ["sxtb16 %[x02], %[x13]", "sxtb16 %[x13], %[x13], ror #8"]
        if widened:
            steps.append(f"ldrd %[w01], %[w23], {address('w', 2 * _WORD * tap)}")
            products = (("bb", "x02", "w01"), ("bt", "x13", "w01"), ("tb", "x02", "w23"), ("tt", "x13", "w23"))
        else:
            steps.append(f"ldr %[w13], {address('w', _WORD * tap)}")
            steps += ["sxtb16 %[w02], %[w13]", "sxtb16 %[w13], %[w13], ror #8"]
            products = (("bb", "x02", "w02"), ("bb", "x13", "w13"), ("tt", "x02", "w02"), ("tt", "x13", "w13"))
        steps += [f"smla{n} %[s{lane}], %[{x}], %[{w}], %[s{lane}]" for lane, (n, x, w) in enumerate(products)]
    sums = [f'[s{lane}] "+&r"(*s{lane})' for lane in range(RESULTS_OF_LANES)]
    apart = [f'[x{tap}] "i"({f"{tap} * " if tap > 1 else ""}x_apart)' for tap in range(1, taps)]
    return _block(words, steps, sums, apart, _UNALIGNED)


def _block(
    words: Sequence[str], steps: Sequence[str], sums: Sequence[str], given: Sequence[str], also: str
) -> Instruction:
    """Steps of assembler on `words`, which add to sums and read from x and w."""
    written = [*sums, *(f'[{one}] "=&r"({one})' for one in words)]
    statement = reading_statement(steps, written, ['[x] "r"(x)', '[w] "r"(w)', *given])
    text = f"int32_t {', '.join(words)};\n    {statement}"
    return Instruction(_MACRO, text, count=float(len(steps) - _READ), also=also)


_LANES = {
    WindowSize(taps, f"lane_products_{own}"): _window(taps, widened=own == "i16")
    for taps in range(1, _MOST_TAPS + 1)
    for own in ("i8", "i16")
}
_FACTORS = (
    "const int32_t twice = (int32_t)((scale & ~31u) >> 1 | 1u << 31); /* 2 m - 2^32: x is added for 2^32 */",
    "const int32_t places = (int32_t)(1u >> (scale & 31u) | 1u << (-scale & 31u)); /* 2^(32 - right) */",
    "int32_t y;",
)
_FACTORS_OF_TABLE = ("const int32_t twice = scale[0], places = scale[1];", "int32_t y;")
_ROUNDED = "smmlar %0, %1, %2, %1\\n\\tadd %0, %0, %0, asr #31\\n\\t"
"""Halves upwards; then one less below 0, so that the next rounding moves ties away from it."""

_ROUNDED_LITTLE = "smmlar %0, %1, %2, %1\\n\\t"
_SCALE = (
    f'__asm__("{_ROUNDED}smmulr %0, %0, %3" : "=&r"(y) : "r"(x), "r"(twice), "r"(places));',
    "return y;",
)
_SCALED_BYTE = (
    f'__asm__("{_ROUNDED}smmlar %0, %0, %3, %4\\n\\t{{sign}}sat %0, #8, %0"',
    '    : "=&r"(y) : "r"(x), "r"(twice), "r"(places), "r"(zero));',
    "return ({value})y;",
)


_ONCE = (
    "const int32_t m = (int32_t)((scale >> 5 | 1u << 27) << 3), right = (int32_t)(scale & 31u);",
    "const int64_t sum = (2 * zero + 1) * (INT64_C(1) << (30 + right)) + (int64_t)x * m;",
    "int32_t y = (int32_t)(sum >> 32) >> (right - 1);",
    '__asm__("{sign}sat %0, #8, %0" : "+r"(y));',
    "return ({value})y;",
)
"""SMLAL adds the product to the zero point and a half, as far to the left as the product is."""

_LITTLE = tuple(line.replace(_ROUNDED, _ROUNDED_LITTLE) for line in _SCALE)
_BYTE_LITTLE = tuple(line.replace(_ROUNDED, _ROUNDED_LITTLE) for line in _SCALED_BYTE)


_ROUNDED_BYTE = (
    "float whole;",
    "int32_t y;",
    '__asm__("vcvtr.s32.f32 %1, %2\\n\\tvmov %0, %1\\n\\tqadd %0, %0, %3\\n\\t{sign}sat %0, #8, %0"',
    '    : "=&r"(y), "=&t"(whole) : "t"(x), "r"(zero));',
    "return ({value})y;",
)
"""VCVTR rounds as the floating-point environment says. Where numbers are beyond 32 bits, they stay at their limits."""


def _scaling(lines: Sequence[str], count: float) -> dict[int, tuple[Instruction, ...]]:
    return {1: (Instruction(_MACRO, "\n    ".join(lines), count=count),)}


COSTS = Costs(
    operation=2,
    operations_in_flight=1,
    instruction=1,
    load=1,
    place_of_load=0.01,
    widened_factors=3,
    iteration=2,
    addresses=2,
)
"""One instruction begins at a time; an operation is the two SMLAD of four products."""

DSP = VectorInstructions(
    tile_reach={"dot_aligned_i16_i8_4": TileReach(508), "dot_i16_i8_4": TileReach(2040)},
    dot_tiles={name: {size: _tile(size, aligned=aligned) for size in _TILES} for name, aligned in _FORMS},
    dot={name: {1: (_tile(TileSize(1, 1, 1), aligned=aligned),)} for name, aligned in _FORMS},
    widen_word={1: (Instruction(_MACRO, "\n    ".join(_WIDEN_WORD), count=7.0),)},
    scale_down=_scaling((*_FACTORS, *_SCALE), 7.0),
    scaled_byte=_scaling((*_FACTORS, *_SCALED_BYTE), 8.0),
    scaled_byte_once=_scaling(_ONCE, 5.0),
    rounded_byte={
        1: (
            Instruction(
                "__ARM_FP", "\n    ".join(_ROUNDED_BYTE), count=4.0, also=f"(__ARM_FP & 4) && defined({_MACRO})"
            ),
        )
    },
    scale_by=_scaling((*_FACTORS_OF_TABLE, *_SCALE), 4.0),
    scaled_byte_by=_scaling((*_FACTORS_OF_TABLE, *_SCALED_BYTE), 5.0),
    scale_little=_scaling((*_FACTORS_OF_TABLE, *_LITTLE), 3.0),
    scaled_byte_little=_scaling((*_FACTORS_OF_TABLE, *_BYTE_LITTLE), 4.0),
    lane_products=_LANES,
)
