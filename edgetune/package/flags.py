"""The target's compiler flags, split by what they may be put on."""

from __future__ import annotations

from dataclasses import dataclass

from edgetune.config.target import Target

_X86_NOTE = ("The -m flags are on the kernels alone: the code that checks the CPU must run on one that lacks them.",)
_UNSAFE_NOTE = (
    "-funsafe-math-optimizations: NEON flushes denormals to zero, so without this flag GCC makes scalar code of it.",
    "Effect, in the kernels alone: denormals become zero, sums may be reassociated, x / c may become x * (1 / c), and",
    "the sign of zero may be lost. NaN and infinity stay as they are.",
)


@dataclass(frozen=True)
class Flags:
    """`all` is for every file and free to override, `arch` for every file and part of the ABI, `kernel` for kernels.

    Together on the kernels file they are the flags that candidates are timed with, `measured`.
    """

    all: tuple[str, ...]
    arch: tuple[str, ...]
    kernel: tuple[str, ...]
    measured: tuple[str, ...]
    notes: tuple[str, ...]


def split_flags(target: Target) -> Flags:
    """Split the flags of a target: on x86 machine flags go to the kernels, elsewhere they are part of the ABI."""
    compiler = target.compiler
    machine = tuple(flag for flag in compiler.cflags if flag.startswith("-m"))
    rest = tuple(flag for flag in compiler.cflags if not flag.startswith("-m"))
    x86 = target.isa == "x86_64"
    notes: tuple[str, ...] = ()
    if x86 and machine:
        notes += _X86_NOTE
    if "-funsafe-math-optimizations" in compiler.kernel_cflags:
        notes += _UNSAFE_NOTE
    return Flags(
        all=rest,
        arch=() if x86 else machine,
        kernel=(*machine, *compiler.kernel_cflags) if x86 else compiler.kernel_cflags,
        measured=(*compiler.cflags, *compiler.kernel_cflags),
        notes=notes,
    )
