"""The place where programs are timed in turns: a board under its lock, or this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgetune.boards.lock import TimingLock
from edgetune.farm.archive import BUILT, PACKAGE
from edgetune.farm.causes.board import Facts, facts_here
from edgetune.target.target import Target
from edgetune.verify import starts
from edgetune.verify.place import ExecutionPlace, OnBoard
from edgetune.verify.starts import Start


def no_restart() -> bool:
    """Restart nothing: this machine is no board of its own."""
    return False


@contextmanager
def turns(lock: TimingLock) -> Iterator[Callable[[], None]]:
    """Hold this machine's timing lock; the function that it gives lets another run have a turn. Raises BoardBusy."""

    def between() -> None:
        lock.release()
        lock.acquire()

    try:
        lock.acquire()
        yield between
    finally:
        lock.close()


@dataclass(frozen=True)
class Bench:
    """The place where two packages are timed in turns, and how: `between_turns` lets other runs have a turn.

    `restart` climbs the ladder of recovery from a restart of the board on; it returns False where the place is no board
    of its own, and raises BoardLost where no level is set up, or none helped.
    """

    place: ExecutionPlace
    target: Target
    cores: Sequence[int] = ()
    counts: bool = False
    between_turns: Callable[[], None] = lambda: None
    restart: Callable[[], bool] = no_restart

    @property
    def unit(self) -> str:
        """Unit of a start's cost there."""
        return "instructions" if self.counts else "ns"

    @property
    def judges(self) -> bool:
        """Whether costs there are compared at all: times under emulation say nothing about a real core."""
        return self.counts or not self.place.emulated

    def board_facts(self) -> Facts:
        """Facts that decide what a program costs there, as far as the place tells them.

        `cores` are those that it may run on, of how many; a count is the same on all.
        """
        if isinstance(self.place, OnBoard):
            return {**self.place.facts(), "cores": self._cores(self.cores)}
        emulated = self.place.emulated or self.counts
        here = facts_here(self.target.emulator if emulated else (), counts=self.counts)
        return here if self.counts else {**here, "cores": self._cores(sorted(os.sched_getaffinity(0)))}

    def _cores(self, allowed: Sequence[int]) -> str:
        return f"{','.join(map(str, allowed)) or 'any'} of {self.target.cores}"

    def build(self, folder: Path) -> None:
        """Build the package in `folder` for this place."""
        starts.build(folder / PACKAGE, self.target, self.place, folder / BUILT)

    def start(self, folder: Path) -> Start:
        """Start the benchmark of the package in `folder` once."""
        return starts.start(folder / PACKAGE, folder / BUILT, self.place, self.cores)
