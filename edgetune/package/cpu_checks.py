"""CPU feature detection: how the generated C checks, without a library, that the CPU has what its kernels need."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from edgetune.errors import ConfigError

# Feature: (CPUID leaf, subleaf, register, bit, bits required in XCR0). 0x06: SSE and AVX state; 0xe6: also AVX-512's.
_AVX, _AVX512 = 0x06, 0xE6
_X86 = {
    "sse": (1, 0, "edx", 25, 0),
    "sse2": (1, 0, "edx", 26, 0),
    "sse3": (1, 0, "ecx", 0, 0),
    "pclmul": (1, 0, "ecx", 1, 0),
    "ssse3": (1, 0, "ecx", 9, 0),
    "fma": (1, 0, "ecx", 12, _AVX),
    "sse4.1": (1, 0, "ecx", 19, 0),
    "sse4.2": (1, 0, "ecx", 20, 0),
    "movbe": (1, 0, "ecx", 22, 0),
    "popcnt": (1, 0, "ecx", 23, 0),
    "avx": (1, 0, "ecx", 28, _AVX),
    "f16c": (1, 0, "ecx", 29, _AVX),
    "bmi": (7, 0, "ebx", 3, 0),
    "avx2": (7, 0, "ebx", 5, _AVX),
    "bmi2": (7, 0, "ebx", 8, 0),
    "avx512f": (7, 0, "ebx", 16, _AVX512),
    "avx512dq": (7, 0, "ebx", 17, _AVX512),
    "avx512ifma": (7, 0, "ebx", 21, _AVX512),
    "avx512cd": (7, 0, "ebx", 28, _AVX512),
    "avx512bw": (7, 0, "ebx", 30, _AVX512),
    "avx512vl": (7, 0, "ebx", 31, _AVX512),
    "avx512vbmi": (7, 0, "ecx", 1, _AVX512),
    "avx512vbmi2": (7, 0, "ecx", 6, _AVX512),
    "avx512vnni": (7, 0, "ecx", 11, _AVX512),
    "avx512bitalg": (7, 0, "ecx", 12, _AVX512),
    "avx512fp16": (7, 0, "edx", 23, _AVX512),
    "avxvnni": (7, 1, "eax", 4, _AVX),
    "avx512bf16": (7, 1, "eax", 5, _AVX512),
}
# HWCAP bit numbers of the Linux ABI; 100 and up are bits of HWCAP2.
_AARCH64 = {
    "fp": 0, "asimd": 1, "aes": 3, "pmull": 4, "sha1": 5, "sha2": 6, "crc32": 7, "atomics": 8, "fphp": 9, "asimdhp": 10,
    "asimdrdm": 12, "jscvt": 13, "fcma": 14, "lrcpc": 15, "asimddp": 20, "sve": 22, "asimdfhm": 23,
    "sve2": 101, "i8mm": 113, "bf16": 114,
}  # fmt: skip
_ARMV7 = {
    "half": 1, "thumb": 2, "vfp": 6, "edsp": 7, "neon": 12, "vfpv3": 13, "vfpv4": 16, "idiva": 17, "idivt": 18,
    "fphp": 22, "asimdhp": 23, "asimddp": 24, "asimdfhm": 25, "i8mm": 27,
}  # fmt: skip


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


def cpu_checks(isa: str, names: Sequence[str]) -> CpuChecks:
    """Return the checks for feature `names` on `isa`; raises ConfigError for a name that cannot be checked."""
    known: Collection[str] = {"x86_64": _X86.keys(), "aarch64": _AARCH64.keys(), "armv7": _ARMV7.keys()}.get(isa, ())
    for name in names:
        if name not in known:
            raise ConfigError(
                f"cpu_checks: '{name}' is no feature of {isa} that can be checked: use {', '.join(known)}"
            )
    if isa != "x86_64":
        bits = _AARCH64 if isa == "aarch64" else _ARMV7
        low = sum(1 << bits[name] for name in set(names) if bits[name] < 100)
        high = sum(1 << (bits[name] - 100) for name in set(names) if bits[name] >= 100)
        return CpuChecks(tuple(names), hwcap=low, hwcap2=high)
    groups: dict[tuple[int, int, str], list[str]] = {}
    for name in names:
        leaf, subleaf, register, _, _ = _X86[name]
        groups.setdefault((leaf, subleaf, register), []).append(name)
    cpuid = tuple(
        CpuidCheck(*key, sum(1 << _X86[name][3] for name in set(members)), tuple(members))
        for key, members in sorted(groups.items())
    )
    xcr0 = 0
    for name in names:
        xcr0 |= _X86[name][4]
    return CpuChecks(tuple(names), cpuid=cpuid, xcr0=xcr0)
