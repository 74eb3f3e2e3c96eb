"""Which machines run the programs of an instruction set: what boards are held against, whoever asks them."""

from __future__ import annotations

from edgetune.config.target import Isa

MACHINES: dict[Isa, frozenset[str]] = {
    "x86_64": frozenset({"x86_64", "amd64"}),
    "aarch64": frozenset({"aarch64", "arm64"}),
    "armv7": frozenset({"armv7l", "armv7", "armv8l", "aarch64", "arm64"}),
    "riscv64": frozenset({"riscv64"}),
}
"""What `uname -m` says there; a 64-bit Arm kernel may have a 32-bit userland."""

BITS: dict[Isa, int] = {"x86_64": 64, "aarch64": 64, "armv7": 32, "riscv64": 64}
"""Width of the userland."""
