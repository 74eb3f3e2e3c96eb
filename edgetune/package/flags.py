"""Compiler flags: splits the target's flags by the files that they may apply to."""

from __future__ import annotations

from dataclasses import dataclass

from edgetune.target.target import Target

_MACHINE_NOTE = (
    "Only the kernels get the -m flags, because the check of the CPU must run on CPUs that lack those instructions.",
)
# Flags that all objects of a program must share, or that firmware chooses for its own reasons.
_AGREED = ("-mabi", "-m32", "-m64", "-mx32", "-mcmodel", "-mfloat-abi", "-mbranch-protection", "-mlittle", "-mbig")
_UNSAFE = "-funsafe-math-optimizations"
_TAKEN_BACK = {"-fno-associative-math", "-fno-reciprocal-math", "-fsigned-zeros"}
_UNSAFE_NOTE = (
    f"{_UNSAFE}: NEON flushes denormals to zero, so GCC uses it only with this flag.",
    "Its effect, in the kernels alone: denormals become zero. NaN and infinity stay as they are.",
)
_UNRESTRAINED_NOTE = ("Sums may be reassociated, x / c may become x * (1 / c), and the sign of zero may be lost.",)


@dataclass(frozen=True)
class CompilerFlags:
    """`all`: for every file, may be overridden. `arch`: for every file, part of the ABI. `kernel`: for kernels only.

    `strict` comes last on the line of the kernels file, and of the self-test, whatever flags precede it. For the
    kernels file all of them together are `measured`, the flags that candidates are timed with.
    """

    all: tuple[str, ...]
    arch: tuple[str, ...]
    kernel: tuple[str, ...]
    strict: tuple[str, ...]
    measured: tuple[str, ...]
    notes: tuple[str, ...]


def split_flags(target: Target) -> CompilerFlags:
    """Split the flags of a target: machine flags go to the kernels alone, except where they are the ABI."""
    compiler = target.compiler
    shared = target.instruction_set.machine_flags_are_abi
    machine = tuple(flag for flag in compiler.cflags if flag.startswith("-m"))
    arch = tuple(flag for flag in machine if shared or flag.startswith(_AGREED))
    special = tuple(flag for flag in machine if flag not in arch)
    notes: tuple[str, ...] = _MACHINE_NOTE if special else ()
    if _UNSAFE in compiler.kernel_cflags:
        notes += _UNSAFE_NOTE
        if not set(compiler.kernel_cflags) >= _TAKEN_BACK:
            notes += _UNRESTRAINED_NOTE
    return CompilerFlags(
        all=tuple(flag for flag in compiler.cflags if not flag.startswith("-m")),
        arch=arch,
        kernel=(*special, *compiler.kernel_cflags),
        strict=compiler.strict_math,
        measured=compiler.kernel_line,
        notes=notes,
    )
