"""CPU affinity: divides the cores of this machine between timing and building, so that builds do not disturb times."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class CoreSplit:
    """Cores for timing and cores for everything else; `shared` when there is only one core, which is used for both."""

    measuring: frozenset[int]
    building: frozenset[int]
    shared: bool


def split_cores(available: frozenset[int] | None = None) -> CoreSplit:
    """Reserve the highest numbered core of this process for timing (the lowest ones serve interrupts)."""
    cores = frozenset(os.sched_getaffinity(0)) if available is None else available
    if len(cores) == 1:
        return CoreSplit(cores, cores, shared=True)
    measuring = max(cores)
    return CoreSplit(frozenset({measuring}), cores - {measuring}, shared=False)


def pin(cores: frozenset[int]) -> None:
    """Restrict the calling thread, and what it starts from now on, to `cores`."""
    os.sched_setaffinity(0, cores)


@contextlib.contextmanager
def confined(cores: frozenset[int]) -> Iterator[None]:
    """Keep all threads of this process on `cores` during a block; afterwards, restore the affinity of threads."""
    before: dict[int, set[int]] = {}
    for thread in _threads():
        with contextlib.suppress(ProcessLookupError):
            before[thread] = os.sched_getaffinity(thread)
            os.sched_setaffinity(thread, cores)
    try:
        yield
    finally:
        everything = set().union(*before.values())
        for thread in _threads():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(thread, before.get(thread, everything))


def _threads() -> list[int]:
    return [int(entry.name) for entry in Path("/proc/self/task").iterdir()]
