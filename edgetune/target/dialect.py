"""Dialect of C: the element types that the compilers of a kind of device can compute with."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Dialect:
    """A dialect of C. `lacks` are the C types that no kernel may use, such as double on a single-precision FPU."""

    name: str
    lacks: frozenset[str] = frozenset()

    def lacking(self, text: str) -> str | None:
        """Return the first type in the C of a kernel that this dialect lacks; None where it has all."""
        return next((name for name in sorted(self.lacks) if re.search(rf"\b{name}\b", text)), None)


C = Dialect("C")
