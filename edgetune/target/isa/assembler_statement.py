"""Assembler statements of C that read memory: GCC's extended asm, with operands in lines of readable length."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

_COLUMNS = 100


def reading_statement(
    steps: Sequence[str], written: Sequence[str], read: Sequence[str], clobbered: Sequence[str] = ()
) -> str:
    """Return the statement of instructions that write the operands `written`, and read from memory at those of `read`.

    They may write registers that are `clobbered`, and to memory. The text is a template of `Instruction`. It is
    volatile: without that, GCC moves it out of a loop whose stores it reads, though it clobbers memory.
    """
    body = '\\n\\t"\n        "'.join(step.replace("{", "{{").replace("}", "}}") for step in steps)
    lists = "\n        : ".join("\n          ".join(_lines(operands)) for operands in (written, read))
    ended = ", ".join(f'"{one}"' for one in (*clobbered, "memory"))
    text = f'__asm__ volatile("{body}"\n        : {lists}\n        : {ended});'
    return text.replace(": \n", ":\n")


def _lines(operands: Sequence[str]) -> list[str]:
    unbroken = [one.replace(" ", "\0") for one in operands]
    return [line.replace("\0", " ") for line in textwrap.wrap(", ".join(unbroken), _COLUMNS, break_long_words=False)]


def address(place: str, offset: int, constant: str = "") -> str:
    """Return the address in the register of operand `place` plus `offset` bytes, and plus an operand `constant`."""
    parts = [f"%c[{constant}]"] if constant else []
    parts += [str(offset)] if offset else []
    return f"[%[{place}], #{' + '.join(parts)}]" if parts else f"[%[{place}]]"
