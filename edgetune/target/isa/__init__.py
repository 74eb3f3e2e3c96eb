"""Instruction sets: one file for each, with all that differs between them. A new one is a file and a line below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from edgetune.target.isa.aarch64 import AARCH64
from edgetune.target.isa.armv6m import ARMV6M
from edgetune.target.isa.armv7 import ARMV7
from edgetune.target.isa.armv7em import ARMV7EM
from edgetune.target.isa.armv7m import ARMV7M
from edgetune.target.isa.armv8_1m import ARMV8_1M
from edgetune.target.isa.armv8m import ARMV8M
from edgetune.target.isa.instruction_set import InstructionSet
from edgetune.target.isa.riscv64 import RISCV64
from edgetune.target.isa.x86_64 import X86_64

INSTRUCTION_SETS = {
    isa.name: isa for isa in (X86_64, AARCH64, ARMV7, ARMV6M, ARMV7M, ARMV7EM, ARMV8M, ARMV8_1M, RISCV64)
}
"""All instruction sets by their names, which are those of target files, records and manifests."""

if TYPE_CHECKING:
    Isa: TypeAlias = str
else:
    Isa = Literal[tuple(INSTRUCTION_SETS)]  # what reads a file refuses other names

__all__ = ["INSTRUCTION_SETS", "InstructionSet", "Isa"]
