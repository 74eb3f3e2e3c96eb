"""Faults of Cortex-M cores in words: which exception ended an image, where, and at which address.

Registers and their bits are those of the Armv7-M and Armv8-M Architecture Reference Manuals (CFSR, HFSR, MMFAR, BFAR,
SFSR). A core of Armv6-M has none of them: all are 0 there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_EXCEPTIONS = {
    2: "NMI",
    3: "HardFault",
    4: "MemManage",
    5: "BusFault",
    6: "UsageFault",
    7: "SecureFault",
    11: "SVCall",
    12: "DebugMonitor",
    14: "PendSV",
    15: "SysTick",
}
_CFSR = {
    0: "an instruction is fetched from memory that cannot be executed",
    1: "memory is accessed that is protected",
    3: "the stack of an exception's return is protected",
    4: "the stack of an exception's entry is protected",
    5: "the stack of the floating-point unit is protected",
    8: "an instruction is fetched from an invalid address",
    9: "an invalid address is accessed",
    10: "an invalid address was accessed some instructions earlier",
    11: "the stack of an exception's return is at an invalid address",
    12: "the stack of an exception's entry is at an invalid address",
    13: "the stack of the floating-point unit is at an invalid address",
    16: "an undefined instruction",
    17: "a jump to an address whose lowest bit is 0",
    18: "an invalid return from an exception",
    19: "an instruction of a coprocessor that is absent or switched off",
    20: "the stack overflows its limit",
    24: "an unaligned access",
    25: "a division by zero",
}
_SFSR = {
    0: "an entry into secure code is invalid",
    1: "an integrity signature is invalid",
    2: "an invalid return from an exception",
    3: "memory is accessed that is not for this security state",
    5: "the stack of the floating-point unit is not for this security state",
}
_MMFAR_VALID, _BFAR_VALID = 1 << 7, 1 << 15
_HFSR = {1: "a vector cannot be read", 31: "a breakpoint or another debug event"}


@dataclass(frozen=True)
class FaultRegisters:
    """What the core says of a fault: the number of its exception, the address of the instruction, fault registers."""

    exception: int
    pc: int
    cfsr: int
    hfsr: int
    mmfar: int
    bfar: int
    sfsr: int

    def describe(self) -> str:
        """Return which fault it was, why, where and at which address, as a sentence without a point."""
        name = _EXCEPTIONS.get(self.exception, f"exception {self.exception}")
        causes = [
            words
            for register, bits in ((self.cfsr, _CFSR), (self.sfsr, _SFSR), (self.hfsr, _HFSR))
            for bit, words in bits.items()
            if register >> bit & 1
        ]
        cause = f": {', '.join(causes)}" if causes else ""
        at = ""
        if self.cfsr & _BFAR_VALID:
            at = f", address {self.bfar:#010x}"
        elif self.cfsr & _MMFAR_VALID:
            at = f", address {self.mmfar:#010x}"
        return f"{name}{cause} (instruction at {self.pc:#010x}{at})"


_PRINTED = re.compile(r"FAIL: exception((?: [0-9a-f]{8}){6})")


def fault_of_program(line: str) -> str:
    """Return the fault in the line that start-up code of a package prints when its program ends so; "" in any other."""
    match = _PRINTED.fullmatch(line.strip())
    if match is None:
        return ""
    exception, pc, cfsr, hfsr, mmfar, bfar = (int(word, 16) for word in match[1].split())
    return FaultRegisters(exception, pc, cfsr, hfsr, mmfar, bfar, sfsr=0).describe()
