"""Tuning tasks: merges the kernels of a program that have equal work, and attaches the options for each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from edgetune.graph.program import Kernel
from edgetune.records import Record
from edgetune.schedule.algorithms.schedule_text import DIRECT
from edgetune.schedule.sketches.limits import UNLIMITED_SCRATCH
from edgetune.search.scheduler import TaskFacts


@dataclass(frozen=True)
class TuneTask:
    """One kernel to tune; `kernel.weight` sums all kernels of the same workload. `scratch_limit` is in bytes.

    `constants` are weights to measure with, by parameter index; the others are random. `forms` names the algorithms
    allowed for the kernel besides the direct one. `streamed`: the second cache keeps no weights from one run of the
    program to the next.
    """

    kernel: Kernel
    scratch_limit: int = UNLIMITED_SCRATCH
    forms: frozenset[str] = frozenset()
    constants: Mapping[int, np.ndarray] = field(default_factory=dict, repr=False, compare=False)
    streamed: bool = False

    @property
    def workload(self) -> str:
        """The hash that names the task in records."""
        return self.kernel.workload

    @property
    def name(self) -> str:
        """The kernel's name, for messages."""
        return self.kernel.name

    def allows(self, record: Record) -> bool:
        """Whether `record` may be chosen: its scratch is within the limit and its algorithm is allowed."""
        return record.scratch_bytes <= self.scratch_limit and (record.form == DIRECT or record.form in self.forms)

    @property
    def facts(self) -> TaskFacts:
        """What the scheduler may know."""
        return TaskFacts(float(self.kernel.weight), _flops(self.kernel), "_".join(self.kernel.sources))


def tasks_of(
    kernels: Iterable[Kernel],
    scratch_limits: Mapping[str, int],
    constants: Mapping[str, Mapping[int, np.ndarray]] | None = None,
    forms: Collection[str] = (),
    *,
    streamed: bool = False,
) -> list[TuneTask]:
    """One task per workload in order of first appearance, whatever algorithms are allowed for it.

    `scratch_limits` maps workloads to bytes, `constants` maps them to weights by parameter index; `streamed` as in
    TuneTask.
    """
    merged: dict[str, Kernel] = {}
    for kernel in kernels:
        seen = merged.get(kernel.workload)
        merged[kernel.workload] = replace(seen, weight=seen.weight + kernel.weight) if seen else kernel
    weights = constants or {}
    return [
        TuneTask(kernel, scratch_limits.get(name, UNLIMITED_SCRATCH), frozenset(forms), weights.get(name, {}), streamed)
        for name, kernel in merged.items()
    ]


def _flops(kernel: Kernel) -> float:
    """Operations of one call: two per multiply-add, or one per output element where there are none."""
    outputs = sum(prod(param.shape) for param in kernel.params if param.role == "output")
    return float(max(2 * kernel.macs, outputs))
