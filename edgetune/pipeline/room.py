"""Room: how much RAM and flash the kernels of a package may take, and the next smaller room where they do not fit.

Of all that fits, the fastest is chosen for each kernel: scratch memory counts beside the tensors that live at its
calls, so that kernels share nothing but the limit. Weights add up: there, the forms of kernels are left out for all,
those first that take most flash for what they save.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from edgetune.errors import MemoryLimitExceeded
from edgetune.schedule.algorithms.schedule_text import DIRECT, sets_by_flash

Result = TypeVar("Result")

_PLACEMENTS = 8
"""Times that the arena gets less, because tensors and scratch leave gaps between them; then no kernel has scratch."""


@dataclass(frozen=True)
class Room:
    """Only kernels of `forms` are chosen, whose scratch and tensors take at most `arena` bytes (None: as is usual).

    `tried` arenas were too large before; `too_large` is the first sentence that said so of weights and code.
    """

    forms: frozenset[str]
    arena: int | None = None
    tried: int = 0
    too_large: str = ""

    def smaller(self, error: MemoryLimitExceeded, ram: int | None) -> Room | None:
        """The room to try after an error where there are `ram` bytes of RAM; None where nothing takes less.

        What is too large by a few bytes may be so because of one kernel that most of the arena is not for, so each
        step takes twice as much off as the one before.
        """
        memory, excess = error.excess or ("flash", 0)
        if memory == "flash":
            forms = next(_less_flash(self.forms), None)
            return None if forms is None else replace(self, forms=forms, too_large=self.too_large or error.message)
        if self.arena is None:
            return None if ram is None else replace(self, arena=ram)
        if self.arena > 0:
            left = self.arena - (excess << self.tried) if self.tried < _PLACEMENTS else 0
            return replace(self, arena=max(0, left), tried=self.tried + 1)
        direct = frozenset({DIRECT})
        return None if self.forms == direct else replace(self, forms=direct)


def fitting(room: Room, ram: int | None, attempt: Callable[[Room], Result]) -> tuple[Result, Room]:
    """What the first `attempt` gives that fits, from `room` on, and its room; raises the error of the last one."""
    while True:
        try:
            return attempt(room), room
        except MemoryLimitExceeded as error:
            smaller = room.smaller(error, ram)
            if smaller is None:
                raise
            room = smaller


def _less_flash(forms: frozenset[str]) -> Iterator[frozenset[str]]:
    """The forms that are left, most of them first."""
    for one in sets_by_flash():
        if forms & one < forms:
            yield forms & one
