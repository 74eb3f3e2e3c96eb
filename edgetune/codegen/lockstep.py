"""Lockstep: functions of several vectors are computed by one call. What a later call needs moves before the first one.

Each step of a polynomial waits for the one before it, and a core looks ahead over two or three polynomials at most. In
turns, the steps of several vectors fill that time. Instructions that narrow numbers make one vector of two, so that
four vectors of 32 bits become one of bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from edgetune.codegen.dot_products import PAIR
from edgetune.codegen.intrinsics import POLYNOMIALS
from edgetune.codegen.lane_products import STEM
from edgetune.codegen.lines import JoinableCall, Line, LineKind, call
from edgetune.codegen.text import Lvalue

MOST = {"exp": 5}
"""Vectors of one call: more of them find too few registers."""

_MOST = 4
AHEAD = 64
"""Statements after a call in which others are looked for."""

_MOVED, _MOVED_BY = 12, {"narrowed": 40}
"""Statements that one call may take along, and by functions: what is narrowed frees the registers of its sums."""


def in_lockstep(lines: Sequence[Line], need: Callable[[str], str]) -> list[Line]:
    """Lines in which calls of one function that need not wait for each other are one.

    `need` requests the snippet of a call and returns its name.
    """
    if any(line.kind is LineKind.ALIASES for line in lines):  # two names of one place in memory
        return list(lines)
    constants = {line.constant for line in lines}
    found: list[Line] = []
    for run in _runs(lines):
        if sum(_joins(line) is not None for line in run) < 2:
            found += run
            continue
        left = [replace(line, writes=line.writes - constants) if not line.constant else line for line in run]
        while left:
            group, before, after = _group(left)
            if len(group) < 2:
                found.append(left[0])
                left = left[1:]
                continue
            found += before
            found.append(replace(_joint(group, need), depth=left[0].depth))
            left = after
    return found


def unused_functions(lines: Sequence[Line], snippets: Collection[str]) -> set[str]:
    """The snippets of functions of one vector, or of one product, that no line calls any more."""
    called = {line.call.snippet for line in lines if line.call is not None}
    of_vectors = (one for one in snippets if one.partition(":")[0] in _JOINED and "x" in one.partition(":")[2])
    of_products = (one for one in snippets if one.startswith(_OF_PRODUCTS) and one.endswith(":i32"))
    return {one for one in (*of_vectors, *of_products) if one not in called}


_OF_PRODUCTS = ("dot_", STEM)
_JOINED = {*POLYNOMIALS, "narrowed", PAIR}


def _runs(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """The lines in runs of statements at one depth, and of other lines."""
    for _, run in groupby(lines, lambda line: (line.kind is LineKind.STATEMENT, line.depth)):
        yield [*run]


def _joins(line: Line) -> JoinableCall | None:
    """The call that a line is, if calls of other vectors may be one with it."""
    return None if line.single or line.call is None or line.call.sources else line.call


def _waits_for(line: Line, earlier: Line) -> bool:
    """Whether a line must stay after an earlier one."""
    return bool(line.mentions & earlier.writes or line.writes & earlier.mentions)


def _group(statements: Sequence[Line]) -> tuple[list[JoinableCall], list[Line], list[Line]]:
    """Calls that may be one with the first statement, what must come before them, and what is left."""
    first = _joins(statements[0])
    if first is None:
        return [], [], []
    group, taken = [first], {0}
    before: list[Line] = []
    for place in range(1, min(len(statements), AHEAD)):
        if len(group) == MOST.get(first.function, _MOST):
            break
        one = _joins(statements[place])
        if one is None or not one.joins(first):
            continue
        needed = _needed(statements, place, taken, _MOVED_BY.get(first.function, _MOVED))
        if needed is None:
            continue
        group.append(one)
        before += [statements[number] for number in needed]
        taken |= {place, *needed}
    return group, before, [one for number, one in enumerate(statements) if number not in taken]


def _needed(statements: Sequence[Line], place: int, taken: Collection[int], most: int) -> list[int] | None:
    """The statements that the one at `place` waits for, `most` at most, which move with it; None if they may not.

    They may not wait for a call of the group, which comes after them, nor write to memory.
    """
    moving = [place]
    for number in range(place - 1, -1, -1):
        other = statements[number]
        if number in taken and _joins(other) is None:
            continue  # before the group, as they will be
        if not any(_waits_for(statements[one], other) for one in moving):
            continue
        if number in taken or other.in_memory or _joins(other) is not None or len(moving) > most:
            return None
        moving.append(number)
    return sorted(moving)[:-1]


def _joint(group: Sequence[JoinableCall], need: Callable[[str], str]) -> Line:
    first = group[0]
    name = need(f"{first.function}_each:{first.kind}x{len(group)}")
    return call(name, *first.numbers, *(Lvalue.of(variable).address for one in group for variable in one.variables))
