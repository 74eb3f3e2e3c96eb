"""Native execution: whether a package's programs run on this machine itself, for Python and for its Makefile."""

from __future__ import annotations

import platform
import struct

from edgetune.target.isa import INSTRUCTION_SETS, Isa


def runs_here(isa: Isa) -> bool:
    """Return whether this machine's own compiler builds programs for `isa` and this machine runs them."""
    # The interpreter's width: a 64-bit kernel may have a 32-bit userland, and the compiler belongs to the userland.
    known = INSTRUCTION_SETS[isa]
    return platform.machine().lower() in known.all_machines and struct.calcsize("P") * 8 == known.bits


def make_words(isa: Isa) -> tuple[str, ...]:
    """Return the values of "`uname -m`-`getconf LONG_BIT`" on machines that build and run `isa` natively.

    Without getconf, nothing follows the dash; that suffices for a kernel that runs only one instruction set.
    """
    known = INSTRUCTION_SETS[isa]
    words = []
    for machine in sorted(known.all_machines):
        words.append(f"{machine}-{known.bits}")
        if machine not in known.wider_machines:
            words.append(f"{machine}-")
    return tuple(words)
