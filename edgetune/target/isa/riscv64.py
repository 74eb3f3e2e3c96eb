"""RISC-V with 64 bits (RV64GC), without vectors."""

from __future__ import annotations

from edgetune.target.isa.instruction_set import InstructionSet

RISCV64 = InstructionSet(
    name="riscv64",
    machines=("riscv64",),
    bits=64,
    libc_packages={"riscv64-linux-gnu": "libc6-dev-riscv64-cross"},
)
