"""Declarations of a kernel's registers: each has its first value, where one is stored without a condition."""

from __future__ import annotations

import re
from math import prod

_VARIABLE = re.compile(r"( *)(\w+) (\w+);$")
_ARRAY = re.compile(r"( *)(\w+) (\w+)\[(\d+)\];$")
_LOOP = re.compile(r" *for \(int32_t (\w+) = 0; \1 < (\d+); \1\+\+\) \{$")
_UNROLL = "#pragma unroll"


def with_first_values(lines: list[str]) -> list[str]:
    """The lines of a kernel with `float acc = 0.0f;` for a declaration and a store, `= {}` for loops of zeroes."""
    found = list(lines)
    place = 0
    while place < len(found):
        if (match := _VARIABLE.match(found[place])) is not None and _assigned(found, place, match[2], match[3]):
            continue
        if (match := _ARRAY.match(found[place])) is not None:
            _cleared(found, place, match[1], match[3], int(match[4]))
        place += 1
    return found


def _uses(lines: list[str], place: int, name: str) -> list[int]:
    word = re.compile(rf"\b{name}\b")
    return [number for number in range(place + 1, len(lines)) if word.search(lines[number])]


def _assigned(lines: list[str], place: int, c_type: str, name: str) -> bool:
    """Move the declaration in line `place` to the store of its first value, if no use is outside of its braces."""
    uses = _uses(lines, place, name)
    if not uses or re.match(rf" *{name} = (?!.*\b{name}\b)", lines[uses[0]]) is None:
        return False
    first = lines[uses[0]]
    indent = first[: len(first) - len(first.lstrip())]
    if not all(line.startswith(indent) for line in lines[uses[0] : uses[-1] + 1]):
        return False
    lines[uses[0]] = f"{indent}{c_type} {first.lstrip()}"
    del lines[place]
    return True


def _cleared(lines: list[str], place: int, indent: str, name: str, count: int) -> None:
    """Replace loops that clear the array that line `place` declares."""
    number = next(iter(_uses(lines, place, name)), place)
    if not re.match(rf" *{name}\[.*\] = 0\.0f;$", lines[number]):
        return
    extents: list[int] = []
    first = number
    while (match := _LOOP.match(lines[first - 1])) is not None:
        extents.append(int(match[2]))
        first -= 2 if lines[first - 2].strip() == _UNROLL else 1
    end = number + 1 + len(extents)
    closed = all(line.strip() == "}" for line in lines[number + 1 : end])
    if extents and closed and prod(extents) == count and lines[first].startswith(f"{indent}{lines[first].lstrip()}"):
        del lines[first:end]
        lines[place] = lines[place].removesuffix(";") + " = {};"
