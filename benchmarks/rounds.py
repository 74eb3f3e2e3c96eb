"""Rounds in which every side is timed once, one at a time, in an order that rotates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.side import CannotLoad
from benchmarks.side_process import Sample


class Measurable(Protocol):
    """A side that is loaded."""

    @property
    def name(self) -> str:
        """Name of the side."""
        ...

    def measure(self, seconds: float) -> Sample:
        """Time the side for `seconds`; raises CannotLoad when it died."""
        ...


@dataclass
class Rounds:
    """Samples of each side, one per round; sides that died during the rounds with the reason, and no samples."""

    samples: dict[str, list[Sample]] = field(default_factory=dict)
    died: dict[str, str] = field(default_factory=dict)


def order(names: Sequence[str], index: int) -> list[str]:
    """Order of round `index`: two rounds begin with each side in turn, the second of them runs backwards.

    So in twice as many rounds as there are sides each is first twice and last twice, and follows either neighbour.
    """
    start = index // 2 % len(names) if names else 0
    turned = [*names[start:], *names[:start]]
    return turned[::-1] if index % 2 else turned


def measure_rounds(
    sides: Sequence[Measurable],
    rounds: int,
    seconds: float,
    turn: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Rounds:
    """Time all `sides` for `seconds` in each of `rounds` rounds; `turn` is held around a whole round."""
    by_name = {side.name: side for side in sides}
    found = Rounds({name: [] for name in by_name})
    for index in range(rounds):
        with turn():
            for name in order(tuple(by_name), index):
                if name in found.died:
                    continue
                try:
                    found.samples[name].append(by_name[name].measure(seconds))
                except CannotLoad as error:
                    found.died[name] = f"died while it was timed: {error}"
                    del found.samples[name]
    return found
