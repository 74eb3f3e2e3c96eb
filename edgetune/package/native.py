"""Whether a package's programs run on the machine at hand, asked from Python and from its Makefile."""

from __future__ import annotations

import platform
import struct

from edgetune.config.machines import BITS, MACHINES
from edgetune.config.target import Isa


def runs_here(isa: Isa) -> bool:
    """Tell whether this machine's own compiler makes programs of `isa` and runs them."""
    # The interpreter's width: a 64-bit kernel may have a 32-bit userland, and the compiler is of the userland.
    return platform.machine().lower() in MACHINES[isa] and struct.calcsize("P") * 8 == BITS[isa]


def make_words(isa: Isa) -> tuple[str, ...]:
    """Return what "`uname -m`-`getconf LONG_BIT`" may be on a machine that builds and runs `isa` itself.

    Where there is no getconf, nothing follows the dash: a kernel that runs one instruction set only needs no more.
    """
    words = []
    for machine in sorted(MACHINES[isa]):
        words.append(f"{machine}-{BITS[isa]}")
        if not (BITS[isa] == 32 and any(machine in MACHINES[other] for other in MACHINES if BITS[other] == 64)):
            words.append(f"{machine}-")
    return tuple(words)
