"""C of horizontal reductions: functions of the preamble that join the lanes of one vector, or of several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from edgetune.codegen.dtypes import by_short

FOUR = 4
"""Lanes that a shuffle of two vectors keeps together, and the fewest vectors that a function joins."""


def scalar_extreme(word: str) -> str:
    """The name of the function that joins two lanes: "max" or "min"."""
    return "max" if word == "largest" else "min"


def needed(word: str, rest: str) -> list[str]:
    """Snippets that `lanes_function` needs."""
    types = [f"type:{rest}", f"type:i{rest[1:]}"]
    if word == "sum":
        return types if _is_float(rest) else [*types, f"type:u{rest[1:]}"]
    return [*types, f"v{scalar_extreme(word)}:{rest}"]


def lanes_function(word: str, rest: str) -> str:
    """`float @lanes_sum_f32x16(const f32x16 *)`: the sum (maximum, minimum) of all lanes, by halves."""
    lanes, of = int(rest.partition("x")[2]), by_short(rest.partition("x")[0])
    text = f"/* The {word} of all lanes, by halves. */\n"
    text += f"static inline __attribute__((always_inline)) {of.value} @lanes_{word}_{rest}(const {rest} *v)\n{{\n"
    text += f"    {rest} a = *v, b;\n"
    half = lanes // 2
    while half:
        text += f"    b = ET_SHUFFLE_{rest}(a, {_listed(lane ^ half for lane in range(lanes))});\n"
        text += f"    {_step(word, rest, 'a', 'b')}\n"
        half //= 2
    return f"{_shuffle(rest)}{text}    return a[0];\n}}\n"


def each_needed(word: str, rest: str) -> list[str]:
    """Snippets that `lanes_each_function` needs."""
    vector, _, count = rest.rpartition("x")
    short = f"{vector.partition('x')[0]}x{count}"
    return [
        *needed(word, vector),
        f"type:{short}",
        *([f"type:{short}u"] if short != vector else []),
        f"shuffle_two:{vector}",
    ]


def lanes_each_function(word: str, rest: str) -> str:
    """`void @lanes_sum_each_f32x16x4(f32x4 *, const f32x16 *a, *b, *c, *d)`: the sum of the lanes of each of four.

    Elements with even places in two vectors are added to those with odd ones, which gives [a0 + a1, a2 + a3, b0 + b1,
    b2 + b3] in each four lanes; so twice. Then fours with even places are added to those with odd ones, or halves once
    there is only one vector.
    """
    vector, _, count = rest.rpartition("x")
    element, _, number = vector.partition("x")
    lanes, short, names = int(number), f"{element}x{count}", "abcdefgh"[: int(count)]
    parameters = [f"const {vector} *{name}" for name in names]
    inputs = ",\n    ".join(", ".join(parameters[place : place + FOUR]) for place in range(0, len(names), FOUR))
    left = [f"*{name}" for name in names]
    text = f"/* *to = the {word} of the lanes of each of {count} vectors. */\n"
    text += (
        f"static inline __attribute__((always_inline)) void @lanes_{word}_each_{rest}(\n    {short} *to, {inputs})\n"
    )
    text += f"{{\n    {vector} {', '.join(f'v{place}' for place in range(len(left) // 2))}, other;\n"

    rounds = lanes.bit_length() - FOUR.bit_length() if len(names) > FOUR else 0
    for size in (1, 1, *[FOUR] * rounds):
        even = [place for place in range(2 * lanes) if not place // size % 2]
        even = _in_fours(even, lanes) if size == 1 else even
        left = left if len(left) > 1 else left * 2
        pairs = [f"{one}, {two}" for one, two in zip(left[::2], left[1::2], strict=True)]
        left = [f"v{place}" for place in range(len(pairs))]
        for name, pair in zip(left, pairs, strict=True):
            text += f"    other = ET_JOIN_{vector}({pair}, {_listed(place + size for place in even)});\n"
            text += f"    {name} = ET_JOIN_{vector}({pair}, {_listed(even)});\n"
            text += f"    {_step(word, vector, name, 'other')}\n"
    half = lanes // 2 if len(names) == FOUR else 0
    while half >= FOUR:
        text += f"    other = ET_JOIN_{vector}(v0, v0, {_listed(lane ^ half for lane in range(lanes))});\n"
        text += f"    {_step(word, vector, 'v0', 'other')}\n"
        half //= 2
    return f"{text}    *to = {'v0' if vector == short else f'*(const {short}u *)&v0'};\n}}\n"


def _in_fours(places: Sequence[int], lanes: int) -> list[int]:
    """Places in two vectors in the order of shuffles within four lanes: two of the first, then two of the second."""
    half = len(places) // 2
    return [
        place for at in range(0, lanes // 2, 2) for place in (*places[at : at + 2], *places[half + at : half + at + 2])
    ]


def _step(word: str, rest: str, value: str, other: str) -> str:
    if word != "sum":
        return f"@v{scalar_extreme(word)}_{rest}(&{value}, &{other});"
    if _is_float(rest):
        return f"{value} += {other};"
    unsigned = f"u{rest[1:]}"  # sums of data wrap
    return f"{value} = ({rest})(({unsigned}){value} + ({unsigned}){other});"


def _is_float(rest: str) -> bool:
    return by_short(rest.partition("x")[0]).kind == "float"


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _shuffle(rest: str) -> str:
    ints = f"i{rest[1:]}"
    return (
        f"#ifndef ET_SHUFFLE_{rest}\n#if __has_builtin(__builtin_shufflevector)\n"
        f"#define ET_SHUFFLE_{rest}(a, ...) __builtin_shufflevector((a), (a), __VA_ARGS__)\n"
        f"#else\n#define ET_SHUFFLE_{rest}(a, ...) __builtin_shuffle((a), ({ints}){{__VA_ARGS__}})\n#endif\n#endif\n"
    )
