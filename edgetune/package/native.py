"""Native execution: whether a package's programs run on this machine itself, for Python and for its Makefile."""

from __future__ import annotations

import platform
import struct

from edgetune.target.machines import BITS, MACHINES
from edgetune.target.target import Isa


def runs_here(isa: Isa) -> bool:
    """Return whether this machine's own compiler builds programs for `isa` and this machine runs them."""
    # The interpreter's width: a 64-bit kernel may have a 32-bit userland, and the compiler belongs to the userland.
    return platform.machine().lower() in MACHINES[isa] and struct.calcsize("P") * 8 == BITS[isa]


def make_words(isa: Isa) -> tuple[str, ...]:
    """Return the values of "`uname -m`-`getconf LONG_BIT`" on machines that build and run `isa` natively.

    Without getconf, nothing follows the dash; that suffices for a kernel that runs only one instruction set.
    """
    words = []
    for machine in sorted(MACHINES[isa]):
        words.append(f"{machine}-{BITS[isa]}")
        if not (BITS[isa] == 32 and any(machine in MACHINES[other] for other in MACHINES if BITS[other] == 64)):
            words.append(f"{machine}-")
    return tuple(words)
