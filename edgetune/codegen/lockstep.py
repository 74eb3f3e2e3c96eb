"""Lockstep: polynomials of several vectors are computed by one call, step by step in turns.

Each step of a polynomial waits for the one before it, and a core looks ahead over two or three polynomials at most. In
turns, the steps of several vectors fill that time. What a later call needs moves before the first one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from edgetune.codegen.intrinsics import POLYNOMIALS
from edgetune.codegen.text import INDENT

MOST = {"exp": 5}
"""Vectors of one call: more of them find too few registers."""

_MOST = 4
AHEAD = 64
"""Statements after a call in which others are looked for."""

_MOVED = 12
"""Statements that one call may take along."""

_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")  # no part of a number such as 0x1.8p+3f
_ADDRESS = re.compile(r"&(\w+)")
_CONSTANT = re.compile(r" *const \w+ (\w+) = ")
_STATEMENT = re.compile(r' *(?!return|break|for|if|\(void\)|__)[\w*(@][^{}"]*(\{[^{}]*\}[^{}"]*)*;$')
_IN_BRACKETS = re.compile(r"\([^()]*\)|\[[^][]*\]|\{[^{}]*\}")


class FunctionCall(str):
    """The line of a call in place, `@log_f32x8(&logarithm);`: its function, the type and the name of its variable."""

    __slots__ = ("function", "kind", "variable")

    function: str
    kind: str
    variable: str

    @classmethod
    def at(cls, depth: int, function: str, kind: str, variable: str) -> FunctionCall:
        """The call at a depth of indentation."""
        line = cls(f"{INDENT * depth}@{function}_{kind}(&{variable});")
        line.function, line.kind, line.variable = function, kind, variable
        return line


@dataclass(frozen=True)
class _Statement:
    """A line without control flow: all names in it, the one that it writes, and whether that may be in memory."""

    line: str
    words: frozenset[str]
    written: frozenset[str]
    in_memory: bool

    def waits_for(self, earlier: _Statement) -> bool:
        """Whether it must stay after an earlier statement."""
        return bool(self.words & earlier.written or self.written & earlier.words)


def in_lockstep(lines: Sequence[str], need: Callable[[str], str]) -> list[str]:
    """Lines of C in which calls of one polynomial that need not wait for each other are one.

    `need` requests the snippet of a call and returns its name.
    """
    if any("@alias_" in line for line in lines):  # two names of one place in memory
        return list(lines)
    constants = {match[1] for line in lines if (match := _CONSTANT.match(line))}
    found: list[str] = []
    for run in _runs(lines):
        if sum(isinstance(line, FunctionCall) for line in run) < 2:
            found += run
            continue
        statements = [_statement(line, constants) for line in run]
        while statements:
            first = statements[0]
            group, before, after = _group(statements)
            if len(group) < 2:
                found.append(first.line)
                statements = statements[1:]
                continue
            found += [one.line for one in before]
            found.append(_joint(group, need))
            statements = after
    return found


def unused_polynomials(lines: Sequence[str], snippets: Collection[str]) -> set[str]:
    """The snippets of polynomials of one vector that no line calls any more."""
    text = "\n".join(lines)
    calls = {one: f"@{one.replace(':', '_')}(" for one in snippets if one.partition(":")[0] in POLYNOMIALS}
    return {one for one, call in calls.items() if ":f32x" in one and call not in text}


def _runs(lines: Sequence[str]) -> Iterator[list[str]]:
    """The lines in runs of statements at one depth, and of other lines."""
    run: list[str] = []
    before: tuple[bool, int] | None = None
    for line in lines:
        kind = (_is_statement(line), len(line) - len(line.lstrip(" ")))
        if run and kind != before:
            yield run
            run = []
        before = kind
        run.append(line)
    if run:
        yield run


def _is_statement(line: str) -> bool:
    """Whether a line is one statement without control flow, and declares no second variable."""
    if _STATEMENT.match(line) is None:
        return False
    outside = line
    while (shorter := _IN_BRACKETS.sub("", outside)) != outside:
        outside = shorter
    return "," not in outside


def _statement(line: str, constants: Collection[str]) -> _Statement:
    words = frozenset(_WORD.findall(line))
    left, assigned, _ = line.partition(" = ")
    if " += " in left or not assigned:
        left, assigned, _ = line.partition(" += ")
    target = left.partition("[")[0]
    if assigned:
        written = frozenset(_WORD.findall(target)[-1:])
    else:
        written = frozenset(_ADDRESS.findall(line) or _WORD.findall(line)[-1:]) - frozenset(constants)
    return _Statement(line, words, written, in_memory="[" in left)


def _group(statements: Sequence[_Statement]) -> tuple[list[FunctionCall], list[_Statement], list[_Statement]]:
    """Calls that may be one with the first statement, what must come before them, and what is left."""
    first = statements[0].line
    if not isinstance(first, FunctionCall):
        return [], [], []
    group, taken = [first], {0}
    before: list[_Statement] = []
    for place in range(1, min(len(statements), AHEAD)):
        if len(group) == MOST.get(first.function, _MOST):
            break
        call = statements[place].line
        if not isinstance(call, FunctionCall) or (call.function, call.kind) != (first.function, first.kind):
            continue
        needed = _needed(statements, place, taken)
        if needed is None:
            continue
        group.append(call)
        before += [statements[one] for one in needed]
        taken |= {place, *needed}
    return group, before, [one for number, one in enumerate(statements) if number not in taken]


def _needed(statements: Sequence[_Statement], place: int, taken: Collection[int]) -> list[int] | None:
    """The statements that the one at `place` waits for, which move with it; None if they may not.

    They may not wait for a call of the group, which comes after them, nor write to memory.
    """
    moving = [place]
    for number in range(place - 1, -1, -1):
        other = statements[number]
        if number in taken and not isinstance(other.line, FunctionCall):
            continue  # before the group, as they will be
        if not any(statements[one].waits_for(other) for one in moving):
            continue
        if number in taken or other.in_memory or isinstance(other.line, FunctionCall) or len(moving) > _MOVED:
            return None
        moving.append(number)
    return sorted(moving)[:-1]


def _joint(group: Sequence[FunctionCall], need: Callable[[str], str]) -> str:
    first = group[0]
    name = need(f"{first.function}_each:{first.kind}x{len(group)}")
    indent = first[: len(first) - len(first.lstrip(" "))]
    return f"{indent}{name}({', '.join(f'&{one.variable}' for one in group)});"
