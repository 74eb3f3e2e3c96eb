"""The `uname -m` values and the userland width of each instruction set; board checks compare with these."""

from __future__ import annotations

from edgetune.target.target import Isa

MACHINES: dict[Isa, frozenset[str]] = {
    "x86_64": frozenset({"x86_64", "amd64"}),
    "aarch64": frozenset({"aarch64", "arm64"}),
    "armv7": frozenset({"armv7l", "armv7", "armv8l", "aarch64", "arm64"}),
    "riscv64": frozenset({"riscv64"}),
}
"""Accepted values of `uname -m`; a 64-bit Arm kernel may have a 32-bit userland."""

BITS: dict[Isa, int] = {"x86_64": 64, "aarch64": 64, "armv7": 32, "riscv64": 64}
"""Width of the userland in bits."""
