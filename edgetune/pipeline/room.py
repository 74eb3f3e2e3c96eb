"""Room: how much RAM and flash the kernels of a package may take, and the next smaller room where they do not fit.

Of all that fits, the fastest is chosen for each kernel: scratch memory counts beside the tensors that live at its
calls, so that kernels share nothing but the limit. Weights add up: there, the forms of kernels are left out for all,
those first that take most flash for what they save.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from edgetune.errors import MemoryLimitExceeded
from edgetune.schedule.algorithms.schedule_text import sets_by_flash

_PLACEMENTS = 3
"""Times that the arena gets less, because tensors and scratch leave gaps between them."""


@dataclass(frozen=True)
class Room:
    """Only kernels of `forms` are chosen, whose scratch and tensors take at most `arena` bytes (None: not stated)."""

    forms: frozenset[str]
    arena: int | None = None

    def smaller(self, error: MemoryLimitExceeded, tried: int) -> Room | None:
        """The room to try after an error, `tried` others before; None where nothing takes less."""
        memory, excess = error.excess or ("", 0)
        if memory == "ram" and self.arena is not None and tried < _PLACEMENTS and self.arena > excess:
            return replace(self, arena=self.arena - excess)
        if memory == "flash":
            forms = next(_less_flash(self.forms), None)
            return None if forms is None else replace(self, forms=forms)
        return None


def _less_flash(forms: frozenset[str]) -> Iterator[frozenset[str]]:
    """The forms that are left, most of them first."""
    for one in sets_by_flash():
        if forms & one < forms:
            yield forms & one
