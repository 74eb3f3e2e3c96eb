"""CPU feature detection: the bits by which generated C checks, without a library, what the CPU has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from edgetune.errors import ConfigError


class CpuidBit(NamedTuple):
    """A feature of an x86 CPU: where CPUID shows it, and the bits of XCR0 that its registers need."""

    leaf: int
    subleaf: int
    register: str
    bit: int
    xcr0: int = 0


class HwcapBit(NamedTuple):
    """A feature that Linux shows in the auxiliary vector: bit `bit` of HWCAP (`word` 1) or HWCAP2 (`word` 2)."""

    bit: int
    word: int = 1


Features = Mapping[str, CpuidBit | HwcapBit]


@dataclass(frozen=True)
class CpuidCheck:
    """All bits of one CPUID register that must be set."""

    leaf: int
    subleaf: int
    register: str
    mask: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class CpuChecks:
    """What `init` verifies: CPUID registers with the XCR0 bits on x86, masks of HWCAP and HWCAP2 on ARM."""

    names: tuple[str, ...]
    cpuid: tuple[CpuidCheck, ...] = ()
    xcr0: int = 0
    hwcap: int = 0
    hwcap2: int = 0


def checks_of(isa: str, features: Features, names: Sequence[str]) -> CpuChecks:
    """Return the checks for `names`, of the `features` of `isa`; raises ConfigError for a name that is not in them."""
    for name in names:
        if name not in features:
            remedy = f"use {', '.join(features)}" if features else "leave cpu_checks out"
            raise ConfigError(f"cpu_checks: '{name}' is not a feature of {isa} that can be checked: {remedy}")
    groups: dict[tuple[int, int, str], list[tuple[str, CpuidBit]]] = {}
    masks = {1: 0, 2: 0}
    for name in names:
        match features[name]:
            case CpuidBit() as found:
                groups.setdefault((found.leaf, found.subleaf, found.register), []).append((name, found))
            case HwcapBit(bit, word):
                masks[word] |= 1 << bit
    xcr0 = 0
    cpuid = []
    for (leaf, subleaf, register), members in sorted(groups.items()):
        mask = 0
        for _, found in members:
            mask |= 1 << found.bit
            xcr0 |= found.xcr0
        cpuid.append(CpuidCheck(leaf, subleaf, register, mask, tuple(name for name, _ in members)))
    return CpuChecks(tuple(names), cpuid=tuple(cpuid), xcr0=xcr0, hwcap=masks[1], hwcap2=masks[2])
