"""Line breaks: a long line of C is broken at its outermost commas and operators."""

from __future__ import annotations

import re
from collections.abc import Sequence

from edgetune.codegen.text import INDENT

COLUMNS = 120
"""Of the C that is printed."""

# Where a line may end, the best first: after these ...
_AFTER = (", ", "; ")
# ... or before these, which begin the next line.
_BEFORE = (" ? ", " : ", " || ", " && ", " | ", " & ", " + ", " - ", " * ", " / ")
_LAST = " = "
_BREAK = re.compile("|".join(re.escape(mark) for mark in (*_AFTER, *_BEFORE, _LAST)))


def break_line(line: str, columns: int) -> list[str]:
    """`line` in lines of at most `columns` columns where it can be broken; all but the first are indented further.

    A line of the preprocessor, or one with a string, is left whole.
    """
    if line.startswith("#") or '"' in line:
        return [line]
    indent = line[: len(line) - len(line.lstrip(" "))]
    deeper = indent + (2 * INDENT if line.endswith("{") else INDENT)
    found: list[str] = []
    while len(line) > columns:
        place = _best(line, len(line) - len(line.lstrip(" ")), columns)
        if place is None:
            break
        found.append(line[:place].rstrip(" "))
        line = deeper + line[place:].lstrip(" ")
    return [*found, line]


def _best(line: str, start: int, columns: int) -> int | None:
    """Where to break `line`: the last of the places with the fewest brackets around them and the weakest operator."""
    best: tuple[tuple[int, int, int], int] | None = None
    depths = _depths(line[: columns + 1])
    for match in _BREAK.finditer(line, start):
        mark = match[0]
        place = match.start() + (len(mark) if mark in _AFTER or mark == _LAST else 0)
        if place > columns:
            break
        if place <= start + len(INDENT):
            continue
        rank = (depths[match.start()], (*_AFTER, *_BEFORE, _LAST).index(mark), -place)
        if best is None or rank < best[0]:
            best = (rank, place)
    return None if best is None else best[1]


def _depths(line: str) -> list[int]:
    """How many brackets are open at each column."""
    depth, found = 0, []
    for letter in line:
        depth += (letter in "([{") - (letter in ")]}")
        found.append(depth)
    return found


def prototype(head: str, parts: Sequence[str]) -> str:
    """`head`, which ends in an opening parenthesis, with its parameters, broken into lines of readable length."""
    lines = [head]
    for part in parts:
        more = f"{part}{')' if part is parts[-1] else ','}"
        if lines[-1] != head and len(lines[-1]) + len(more) >= COLUMNS:
            lines.append(" " * (len(head) - 1))
        lines[-1] += more if lines[-1] == head else f" {more}"
    return "\n".join(lines)
