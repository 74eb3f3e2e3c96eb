"""Innermost loops in disassembled kernels: what `objdump` prints enters, loops of instructions leave.

What counts as a multiply-add: fused and on vectors for floats; on vectors, widening or not, for integers. What counts
as a stack access: an operand addressed from the stack pointer or from a frame pointer made of it, a push or pop, and on
x86 a call, which writes its return address. Arrays on the stack that a pointer of their own walks are data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from benchmarks.natural_loops import innermost_loops

_FUNCTION = re.compile(r"^[0-9a-f]+ <(\S+)>:$")
_INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\S.*)$")
_TARGET = re.compile(r"\b(?:0x)?([0-9a-f]+) <")
_ARM_CONDITIONS = "eq|ne|cs|cc|hs|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le"


@dataclass(frozen=True)
class InstructionSet:
    """Patterns for the text of an instruction. `frame` is one that makes a frame pointer, whose group is its name."""

    conditional: re.Pattern[str]
    jump: re.Pattern[str]
    leave: re.Pattern[str]
    multiply_add: re.Pattern[str]
    integer: re.Pattern[str]  # those of multiply-adds that sum integers
    load: re.Pattern[str]
    stack: re.Pattern[str]
    frame: re.Pattern[str]
    through: str  # of an operand in memory, with {} for the name of the frame pointer


INSTRUCTION_SETS = {
    "x86_64": InstructionSet(
        conditional=re.compile(r"j(?!mp)[a-z]+\s"),
        jump=re.compile(r"jmp[ql]?\s"),
        leave=re.compile(r"(?:repz |bnd |notrack )?(?:ret|ud2|jmp[ql]?\s+\*)"),
        multiply_add=re.compile(r"vfn?m(?:add|sub)\w*p[sdh]\s|(?:\{vex\} )?vpdp|v?pmadd"),
        integer=re.compile(r"(?:\{vex\} )?vpdp(?!bf)|v?pmadd"),
        # AT&T order: the destination comes last, and only comparisons read it.
        load=re.compile(r"(?!lea|nop|prefetch|call)(?:\S+\s+[^(]*\([^)]*\)[^,(]*,|v?u?cmp\w*\s.*\(|test\w*\s.*\(|pop)"),
        stack=re.compile(r"^(?:(?!lea).*\(%[er]sp\b|(?:push|pop|call)[ql]?\s)"),
        frame=re.compile(r"mov[ql]?\s+%rsp,%(rbp)\b"),
        through=r"^(?!lea).*\(%{}\b",
    ),
    "aarch64": InstructionSet(
        conditional=re.compile(rf"(?:b\.(?:{_ARM_CONDITIONS}|any|none|first|last)|cbn?z|tbn?z)\s"),
        jump=re.compile(r"b\s"),
        leave=re.compile(r"ret\b|br\s|udf\b|brk\b"),
        multiply_add=re.compile(r"(?:fml[as]l?2?|[us]?ml[as]l?2?|[us]q?dml[as]l2?|[us]+dot|[us]+mmla)\s+[vz]\d+\."),
        integer=re.compile(r"[us]|ml[as]"),
        load=re.compile(r"ld"),
        stack=re.compile(r"\[sp\b"),
        frame=re.compile(r"(?:mov|add)\s+(x29), sp\b"),
        through=r"\[{}\b",
    ),
    "armv7": InstructionSet(
        conditional=re.compile(rf"(?:b(?:{_ARM_CONDITIONS})(?:\.[nw])?|cbn?z)\s"),
        jump=re.compile(r"b(?:\.[nw])?\s"),
        leave=re.compile(r"bx\s|udf\b|(?:pop|ldmia)(?:\.w)?\s.*\bpc\}|ldr(?:\.w)?\s+pc,"),
        multiply_add=re.compile(r"vfn?m[as]\.f\d+\s+[qd]|vml[as]l?\.(?:[sui]\d+\s|f\d+\s+[qd])"),
        integer=re.compile(r"vml[as]l?\.[sui]"),
        load=re.compile(r"ldr|ldm|vld|pop|vpop"),
        stack=re.compile(r"\[sp\b|\bsp!|v?(?:push|pop)\b"),
        frame=re.compile(r"(?:mov|add)s?(?:\.w)?\s+(r7|fp|r11), sp\b"),
        through=r"\[{}\b",
    ),
}


@dataclass(frozen=True)
class Loop:
    """One innermost loop: its function, where its first instruction is (bytes into the function), and the text of all.

    `multiply_adds` counts instructions, `integer` those of them that sum integers, `loads` those that read memory;
    `stack` are those that touch the stack.
    """

    function: str
    offset: int
    instructions: tuple[str, ...]
    multiply_adds: int
    loads: int
    stack: tuple[str, ...]
    integer: int = 0


def loops_of(listing: str, isa: str) -> dict[str, tuple[Loop, ...]]:
    """Innermost loops of each function, of what `objdump --disassemble --no-show-raw-insn` prints for an `isa`.

    Raises KeyError for an instruction set that INSTRUCTION_SETS lacks.
    """
    known = INSTRUCTION_SETS[isa]
    return {name: tuple(_loops(name, body, known)) for name, body in _functions(listing.splitlines())}


Body = list[tuple[int, str]]


def _loops(name: str, body: Body, known: InstructionSet) -> Iterator[Loop]:
    blocks = _blocks(body, known)
    frame = next((made[1] for _, text in body if (made := known.frame.match(text))), None)
    through = re.compile(known.through.format(frame)) if frame else None
    for loop in innermost_loops([targets for _, targets in blocks]):
        inside = [item for number in sorted(loop) for item in blocks[number][0]]
        texts = tuple(text for _, text in inside)
        yield Loop(
            name,
            inside[0][0] - body[0][0],
            texts,
            sum(known.multiply_add.match(text) is not None for text in texts),
            sum(known.load.match(text) is not None for text in texts),
            tuple(text for text in texts if known.stack.search(text) or (through and through.search(text))),
            sum((known.multiply_add.match(text) and known.integer.match(text)) is not None for text in texts),
        )


def _functions(lines: Iterable[str]) -> Iterator[tuple[str, Body]]:
    name, body = "", Body()
    for line in lines:
        if heading := _FUNCTION.match(line):
            if body:
                yield name, body
            name, body = heading[1], []
        elif instruction := _INSTRUCTION.match(line):
            body.append((int(instruction[1], 16), instruction[2]))
    if body:
        yield name, body


def _blocks(body: Body, known: InstructionSet) -> list[tuple[Body, list[int]]]:
    """Blocks of instructions that run one after the other, each with the numbers of those that may follow."""
    places = {address: place for place, (address, _) in enumerate(body)}
    starts = {0}
    for place, (_, text) in enumerate(body):
        target = _target(text, known)
        if target is not None and target in places:
            starts.add(places[target])
        if place + 1 < len(body) and (target is not None or not _goes_on(text, known)):
            starts.add(place + 1)
    order = sorted(starts)
    number = {place: n for n, place in enumerate(order)}
    found = []
    for n, first in enumerate(order):
        end = order[n + 1] if n + 1 < len(order) else len(body)
        text = body[end - 1][1]
        target = _target(text, known)
        follow = [number[places[target]]] if target is not None and target in places else []
        if end < len(body) and _goes_on(text, known):
            follow.append(number[end])
        found.append((body[first:end], follow))
    return found


def _target(text: str, known: InstructionSet) -> int | None:
    """Where a jump goes; None for other instructions, and for jumps by a register."""
    if not known.conditional.match(text) and not known.jump.match(text):
        return None
    target = _TARGET.search(text)
    return int(target[1], 16) if target else None


def _goes_on(text: str, known: InstructionSet) -> bool:
    """Whether the next instruction may be the one behind it."""
    return not known.jump.match(text) and not known.leave.match(text)
