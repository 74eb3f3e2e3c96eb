"""ARMv7-M (Cortex-M3): no operating system, no FPU."""

from __future__ import annotations

from edgetune.target.isa.instruction_set import InstructionSet

ARMV7M = InstructionSet(name="armv7m", machines=(), bits=32, machine_flags_are_abi=True, prefetches=False)
