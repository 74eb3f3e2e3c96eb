"""Which CPU cores measure and which build: they must not be the same ones."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class CoreSplit:
    """Cores for timing and for everything else; `shared` when there is only one core, and nothing is pinned."""

    measuring: frozenset[int]
    building: frozenset[int]
    shared: bool


def split_cores(available: frozenset[int] | None = None) -> CoreSplit:
    """Give the highest numbered core this process may use to timing (the lowest ones serve interrupts)."""
    cores = frozenset(os.sched_getaffinity(0)) if available is None else available
    if len(cores) == 1:
        return CoreSplit(cores, cores, shared=True)
    measuring = max(cores)
    return CoreSplit(frozenset({measuring}), cores - {measuring}, shared=False)


def pin(cores: frozenset[int], process: int = 0) -> None:
    """Let `process` (0: the calling thread) run on `cores` only, and what it starts from now on."""
    os.sched_setaffinity(process, cores)


@contextlib.contextmanager
def confined(cores: frozenset[int]) -> Iterator[None]:
    """Keep all threads of this process on `cores`; on leaving, threads may use again what they could before."""
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
