"""Detects a missing C library from the errors of a compiler or linker, and names the Debian package to install."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from edgetune.target.isa import INSTRUCTION_SETS

# Of compilers that a user's own target file may name, beyond those of the instruction sets.
_OTHERS = {
    "powerpc-linux-gnu": "libc6-dev-powerpc-cross",
    "powerpc64-linux-gnu": "libc6-dev-ppc64-cross",
    "arm-none-eabi": "libnewlib-arm-none-eabi",
}
_NATIVE = "libc6-dev"
_HEADERS = (
    "assert|ctype|errno|features|inttypes|limits|locale|malloc|math|pthread|sched|setjmp|signal|stdint|stdio|stdlib"
)
_LACKS = re.compile(
    rf"\b(?:{_HEADERS}|string|time|unistd|(?:sys|bits|gnu|linux|asm)/[\w./-]+)\.h\b'?:? (?:No such file|file not found)"
    rf"|no include path in which to search for (?:{_HEADERS}|string|time|unistd)\.h"
    r"|cannot find (?:\S*/)?(?:S?crt1\.o|crt[in]\.o|-l(?:c|m|pthread)|lib(?:c|m|pthread)\.so\S*)(?:[:\s]|$)"
    r"|(?:cannot open|unable to find library) (?:\S*/)?(?:S?crt1\.o|crt[in]\.o|-l(?:c|m|pthread))\b"
)


def lacks_libc(output: str) -> bool:
    """Whether `output` of a compiler or linker reports a missing header or file of the C library."""
    return _LACKS.search(output) is not None


def libc_package(cc: str, flags: Sequence[str] = ()) -> str:
    """Return the Debian package of the C library for the target of `cc`; a ``--target`` in `flags` may name another."""
    words = [Path(cc).name, *(flag.partition("=")[2] for flag in flags if flag.startswith("--target="))]
    packages = dict(_OTHERS)
    for isa in INSTRUCTION_SETS.values():
        packages |= isa.libc_packages
    for triplet in sorted(packages, key=len, reverse=True):
        if any(word == triplet or word.startswith(f"{triplet}-") for word in words):
            return packages[triplet]
    return _NATIVE
