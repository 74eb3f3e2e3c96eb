"""Lockstep: exponentials of several vectors side by side are computed by one call, step by step in turns.

Each step of a polynomial waits for the one before it, and a core looks ahead over two or three polynomials at most. In
turns, the steps of five vectors fill that time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence

MOST = 5
"""Vectors of one call: more of them find too few registers."""

_DECLARED = re.compile(r"( *)(f32x\d+) (\w+) = (.*);$")
_CALLED = re.compile(r" *@exp_(f32x\d+)\(&(\w+)\);$")
_STORED = re.compile(r" *(.*?) (?:\+=|=) (\w+);$")
_WORD = re.compile(r"[A-Za-z_]\w*")
_LOCALS = ("v", "x", "y", "c", "t", "k", "r", "p", "half")


def in_lockstep(lines: Sequence[str], need: Callable[[str], str]) -> list[str]:
    """Lines of C in which adjacent `f32x8 e = ..; @exp_f32x8(&e); a = e;` have one call.

    `need` requests the snippet of a call and returns its name.
    """
    found: list[str] = []
    at = 0
    while at < len(lines):
        group = list(_group(lines, at))
        if len(group) < 2:
            found.append(lines[at])
            at += 1
            continue
        names = [declared[3] for declared, _ in group]
        call = need(f"exp_each:{group[0][0][2]}x{len(group)}")
        found += [lines[at + 3 * number] for number in range(len(group))]
        found.append(f"{group[0][0][1]}{call}({', '.join(f'&{name}' for name in names)});")
        found += [lines[at + 3 * number + 2] for number in range(len(group))]
        at += 3 * len(group)
    return found


def unused_exponentials(lines: Sequence[str], snippets: Collection[str]) -> set[str]:
    """The snippets of exponentials of one vector that no line calls any more."""
    called = {match[1] for line in lines for match in re.finditer(r"@exp_(\w+)\(", line)}
    return {one for one in snippets if one.startswith("exp:") and one.partition(":")[2] not in called}


def _group(lines: Sequence[str], at: int) -> Iterator[tuple[re.Match[str], str]]:
    """The triples of lines from `at` on that may be one call: no value is what an earlier one stores."""
    stored: set[str] = set()
    kind = ""
    for place in range(at, min(len(lines) - 2, at + 3 * MOST), 3):
        declared, called, kept = (
            pattern.match(line)
            for pattern, line in zip((_DECLARED, _CALLED, _STORED), lines[place : place + 3], strict=True)
        )
        if declared is None or called is None or kept is None or not declared[3] == called[2] == kept[2]:
            return
        if (kind and called[1] != kind) or stored & set(_WORD.findall(declared[4])):
            return
        kind = called[1]
        stored |= set(_WORD.findall(kept[1].partition("[")[0])) - {f"{kind}u"}
        yield declared, kept[1]
