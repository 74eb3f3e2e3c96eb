"""RISC-V with 64 bits (RV64GC), without vectors."""

from __future__ import annotations

from edgetune.target.isa.instruction_set import InstructionSet
from edgetune.target.isa.vector_instructions import VectorInstructions

RISCV64 = InstructionSet(
    name="riscv64",
    machines=("riscv64",),
    bits=64,
    libc_packages={"riscv64-linux-gnu": "libc6-dev-riscv64-cross"},
    vectors=VectorInstructions(float_registers={4: (("defined(__riscv_flen)", "f"), ("defined(__riscv)", "r"))}),
)
