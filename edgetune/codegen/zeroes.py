"""Registers that are cleared one after the other, cleared in one statement.

Integers are left alone: a chain through a narrow one would convert.
"""

from __future__ import annotations

import re

_CLEARED = re.compile(r"( *)(\w+) = (\(\w+\)\{0\}|0\.0f?);$")
_WIDTH = 100


def joined_zeroes(lines: list[str]) -> list[str]:
    """Lines of C in which neighbours `a = (f32x8){0};` and `b = (f32x8){0};` are `a = b = (f32x8){0};`."""
    found: list[str] = []
    run: list[str] = []
    indent = zero = ""
    for line in [*lines, ""]:
        cleared = _CLEARED.match(line)
        same = cleared is not None and (cleared[1], cleared[3]) == (indent, zero)
        if run and not same:
            found += _chains(run, indent, zero)
            run = []
        if cleared is None:
            found.append(line)
        else:
            indent, zero = cleared[1], cleared[3]
            run.append(cleared[2])
    return found[:-1]


def _chains(names: list[str], indent: str, zero: str) -> list[str]:
    found: list[str] = []
    chain: list[str] = []
    for name in names:
        if chain and len(indent) + len(" = ".join([*chain, name, zero])) >= _WIDTH:
            found.append(f"{indent}{' = '.join([*chain, zero])};")
            chain = []
        chain.append(name)
    return [*found, f"{indent}{' = '.join([*chain, zero])};"]
