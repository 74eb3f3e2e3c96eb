"""What a run of a package and each of its layers execute, by classes of instructions, as an emulator's plugin counts.

The benchmark of an image reads its clock at the beginning and at the end of each run, then around each layer of further
runs, and last around a layer that does nothing. Each reading ends one record of the plugin and begins another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetune.package.counted_run import CountedRun
from edgetune.target.cycles import COUNTERS, CycleCosts

Counts = tuple[int, ...]
"""A number for each of `COUNTERS`."""


@dataclass(frozen=True)
class ClassCounts:
    """What one run and each of its `layers` execute; what the profiler of a package adds to a layer is in it."""

    run: Counts
    layers: tuple[Counts, ...]

    def named(self) -> dict[str, int]:
        """Those of a run by their names."""
        return dict(zip(COUNTERS, self.run, strict=True))

    def estimated(self, emulator: str, costs: CycleCosts | None, clock_mhz: float | None) -> CountedRun:
        """The instructions under `emulator`, a program, and by `costs` the cycles of a core with this clock."""
        emulator = Path(emulator).name
        layers = tuple(instructions for instructions, *_ in self.layers)
        if costs is None:
            return CountedRun(emulator, self.run[0], layers, clock_mhz=clock_mhz)
        of_layers = tuple(round(costs.estimate(layer)) for layer in self.layers)
        return CountedRun(emulator, self.run[0], layers, round(costs.estimate(self.run)), of_layers, clock_mhz)


def class_counts(records: Sequence[Counts], runs: int, layers: int) -> ClassCounts | None:
    """Return the counts of the last run, and of the layers of the first run that was profiled.

    `records` are those of a benchmark of so many `runs`, of a package of so many `layers`. None where they are of
    another form, as without a profiler.
    """
    profiled = 2 * runs
    if len(records) != profiled + runs * 2 * (layers + 1) - 1 or any(len(one) != len(COUNTERS) for one in records):
        return None
    clock = records[profiled + 2 * layers]
    found = (records[profiled + 2 * layer] for layer in range(layers))
    return ClassCounts(records[profiled - 2], tuple(_without(counts, clock) for counts in found))


def _without(counts: Counts, clock: Counts) -> Counts:
    return tuple(max(0, count - of_clock) for count, of_clock in zip(counts, clock, strict=True))
