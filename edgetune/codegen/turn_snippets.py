"""Functions of the preamble that store vectors whose elements take turns in memory (see `interleaved_rows.py`)."""

from __future__ import annotations

from edgetune.codegen.dtypes import by_short
from edgetune.codegen.vector_snippets import lanes_of, shuffled

_HEAD = "static inline __attribute__((always_inline)) void "
_WORD = 32
"""Bits of the elements that are shuffled; bytes of a row are put into one of them."""


def take_turns(rest: str) -> str:
    """`void @take_turns_f32x16x3(float *p, const f32x16 *x, ..)`: x[0], y[0], z[0], x[1], .. go to p.

    Each of three vectors is permuted once, so that its lanes are where all three results want them.
    """
    vector, _, count = rest.rpartition("x")
    lanes = lanes_of(vector)
    if by_short(vector.partition("x")[0]).bits < _WORD:
        return _take_turns_in_words(vector, lanes, int(count))
    if count == "2":
        return _take_turns_of_two(vector, lanes)
    if count == "4":
        return _take_turns_of_four(vector, lanes)
    text = ""
    for number, name in enumerate("xyz"):
        places = [0] * lanes
        for at in range(number, 3 * lanes, 3):
            places[at % lanes] = at // 3
        text += shuffled(f"const {vector} {'abc'[number]}", vector, f"*{name}, *{name}", places)
    for part in range(3):
        turns = [(part * lanes + lane) % 3 for lane in range(lanes)]
        two = [lane + lanes * (turn == 1) for lane, turn in enumerate(turns)]
        three = [lane + lanes * (turn == 2) for lane, turn in enumerate(turns)]
        text += shuffled(f"const {vector} t{part}", vector, "a, b", two)
        where = f"*({vector}u *)(p + {part * lanes})" if part else f"*({vector}u *)p"
        text += shuffled(where, vector, f"t{part}, c", three)
    operands = ", ".join(f"const {vector} *{name}" for name in "xyz")
    comment = "/* p[0] = x[0], p[1] = y[0], p[2] = z[0], p[3] = x[1], .. */\n"
    return f"{comment}{_HEAD}@take_turns_{rest}(float *p, {operands})\n{{\n{text}}}\n"


def turns_need(rest: str) -> list[str]:
    """The snippets that `take_turns` mentions."""
    vector = rest.rpartition("x")[0]
    lanes, bits = lanes_of(vector), by_short(vector.partition("x")[0]).bits
    if bits == _WORD:
        return [f"shuffle_two:{vector}", f"type:{vector}u"]
    widths = [f"type:u{of}x{lanes}{loose}" for of in (16, 32) for loose in ("", "u")]
    return [f"widen:u8x{lanes}", f"type:{vector}", f"type:i32x{lanes}", f"type:u64x{lanes // 2}", *widths]


def _take_turns_in_words(vector: str, lanes: int, count: int) -> str:
    """The bytes of a row are one number of 32 bits, of which the lowest bits lie first.

    Two rows of three bytes are one number of 64 bits, whose last two bytes the next one overwrites.
    """
    of = by_short(vector.partition("x")[0])
    names, words = "xyzw"[:count], f"u32x{lanes}"
    text, parts = "", []
    for n, name in enumerate(names):
        text += f"    i32x{lanes} {name}_wide;\n    @widen_u8x{lanes}({name}, &{name}_wide);\n"
        parts.append(f"({words}){name}_wide" + (f" << {of.bits * n}" if n else ""))
    rows = " | ".join(parts)
    if of.bits * count == _WORD:
        text += f"    *({words}u *)p = {rows};\n"
    elif of.bits * count == _WORD // 2:
        text += f"    *(u16x{lanes}u *)p = __builtin_convertvector({rows}, u16x{lanes});\n"
    else:
        pairs = lanes // 2
        text += f"    const {words} rows = {rows};\n"
        text += f"    const u64x{pairs} pairs = ((u64x{pairs})rows & 0xffffff) | (u64x{pairs})rows >> 32 << 24;\n"
        text += f"    uint64_t six[{pairs}];\n    __builtin_memcpy(six, &pairs, sizeof(six));\n"
        for n in range(pairs):
            text += f"    __builtin_memcpy(p + {6 * n}, &six[{n}], {8 if n < pairs - 1 else 6});\n"
    operands = ", ".join(f"const {vector} *{name}" for name in names)
    places = ", ".join(f"p[{n}] = {name}[0]" for n, name in enumerate(names))
    comment = f"/* {places}, p[{count}] = x[1], .. */\n"
    return f"{comment}{_HEAD}@take_turns_{vector}x{count}({of.value} *p, {operands})\n{{\n{text}}}\n"


def _take_turns_of_two(vector: str, lanes: int) -> str:
    """Shuffles within halves of eight lanes come first, as those across halves take longer."""
    turns = [place for lane in range(lanes) for place in (lane, lanes + lane)]
    text, names = "", "*x, *y"
    if lanes == 8:
        text += shuffled(f"const {vector} low", vector, names, [0, 8, 1, 9, 4, 12, 5, 13])
        text += shuffled(f"const {vector} high", vector, names, [2, 10, 3, 11, 6, 14, 7, 15])
        names, turns = "low, high", [0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15]
    text += shuffled(f"*({vector}u *)p", vector, names, turns[:lanes])
    text += shuffled(f"*({vector}u *)(p + {lanes})", vector, names, turns[lanes:])
    comment = "/* p[0] = x[0], p[1] = y[0], p[2] = x[1], p[3] = y[1], .. */\n"
    return f"{comment}{_HEAD}@take_turns_{vector}x2(float *p, const {vector} *x, const {vector} *y)\n{{\n{text}}}\n"


def _take_turns_of_four(vector: str, lanes: int) -> str:
    """Vectors of eight lanes are shuffled within each four first; those of 16 lanes take turns by twos, and again."""
    text = ""
    if lanes == 8:
        for name, pair, first in (("a", "x, *y", 0), ("b", "x, *y", 2), ("c", "z, *w", 0), ("d", "z, *w", 2)):
            places = [at + first + step + other for at in (0, 4) for step in (0, 1) for other in (0, 8)]
            text += shuffled(f"const {vector} {name}", vector, f"*{pair}", places)
        for name, pair, first in (("e", "a, c", 0), ("f", "a, c", 2), ("g", "b, d", 0), ("h", "b, d", 2)):
            places = [at + first + step + other for at in (0, 4) for other in (0, 8) for step in (0, 1)]
            text += shuffled(f"const {vector} {name}", vector, pair, places)
        pairs_of_rows = [
            (pair, [at + lane for at in fours for lane in range(4)])
            for fours in ((0, 8), (4, 12))
            for pair in ("e, f", "g, h")
        ]
    else:
        low = [at for lane in range(lanes // 2) for at in (lane, lanes + lane)]
        high = [at + lanes // 2 for at in low]
        for name, pair, places in (
            ("a", "x, *z", low),
            ("b", "x, *z", high),
            ("c", "y, *w", low),
            ("d", "y, *w", high),
        ):
            text += shuffled(f"const {vector} {name}", vector, f"*{pair}", places)
        pairs_of_rows = [(pair, places) for pair in ("a, c", "b, d") for places in (low, high)]
    for part, (pair, places) in enumerate(pairs_of_rows):
        where = f"*({vector}u *)(p + {part * lanes})" if part else f"*({vector}u *)p"
        text += shuffled(where, vector, pair, places)
    operands = ", ".join(f"const {vector} *{name}" for name in "xyzw")
    comment = "/* p[0] = x[0], p[1] = y[0], p[2] = z[0], p[3] = w[0], p[4] = x[1], .. */\n"
    return f"{comment}{_HEAD}@take_turns_{vector}x4(float *p, {operands})\n{{\n{text}}}\n"
