"""Linux's /proc/cpuinfo: what it says of the cores of a machine."""

from __future__ import annotations

import re


def listed_features(cpuinfo: str, field: str) -> frozenset[str]:
    """Return the words of the first line `field`, such as "flags" on x86; none where there is no such line."""
    match = re.search(rf"^{field}\s*:\s*(.*)$", cpuinfo, re.MULTILINE)
    return frozenset(match[1].split()) if match else frozenset()


def arm_parts(cpuinfo: str) -> str:
    """Return implementer and part of each listed kind of ARM core, such as ``0x41:0xd03+0x41:0xd08`` for big.LITTLE."""
    implementers = re.findall(r"^CPU implementer\s*:\s*(\S+)", cpuinfo, re.MULTILINE)
    parts = re.findall(r"^CPU part\s*:\s*(\S+)", cpuinfo, re.MULTILINE)
    return "+".join(sorted({f"{maker}:{part}" for maker, part in zip(implementers, parts, strict=False)}))
