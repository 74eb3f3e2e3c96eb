"""Default schedules that fit the registers of a GPU: ptxas reads them, and another one is taken where it spills.

All kernels of a program are compiled in one run of nvcc; those that spill go on with the next schedule of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from edgetune.errors import KernelFailed
from edgetune.graph.program import Kernel
from edgetune.schedule.gpu.candidate import GpuCandidate, gpu_candidate, joined_unit
from edgetune.schedule.gpu_defaults import gpu_schedules
from edgetune.target.gpu import GpuTarget
from edgetune.target.ptxas import compile_text

MOST_TRIED = 6
"""Schedules of a kernel that are compiled in search of one that does not spill."""


@dataclass(frozen=True)
class _Tried:
    """A schedule of a kernel, its name for people, and the bytes of a thread that ptxas puts into device memory.

    `first`: it is the formula's choice.
    """

    candidate: GpuCandidate
    name: str
    first: bool
    slow_bytes: int = 0


class _Search:
    """The schedules of a kernel that are left, the best of those that compile, and what is wrong with the first."""

    def __init__(self, kernel: Kernel, target: GpuTarget) -> None:
        self._kernel, self._target = kernel, target
        self._left = islice(gpu_schedules(kernel.function, target), MOST_TRIED)
        self._best: _Tried | None = None
        self._fault = ""

    def draw(self) -> _Tried | None:
        """The next schedule that can be printed; None where there is none."""
        for text, name in self._left:
            try:
                return _Tried(gpu_candidate(self._kernel, text, self._target), name, not self._fault)
            except KernelFailed:
                self._refuse(name, "cannot be printed as CUDA")
        return None

    def judge(self, drawn: _Tried, compiled: _Tried | None) -> bool:
        """Keep what was `drawn` if it is the best so far; whether others have to be tried."""
        if compiled is None:
            self._refuse(drawn.name, "does not compile")
            return True
        if self._best is None or compiled.slow_bytes < self._best.slow_bytes:
            self._best = compiled
        if compiled.slow_bytes:
            self._refuse(drawn.name, "spills registers")
        return bool(compiled.slow_bytes)

    def found(self) -> tuple[str, str]:
        """The best one, and a note for people, which says why it is not the first. Raises KernelFailed."""
        if self._best is None:
            fault = f": {self._fault}" if self._fault else ""
            raise KernelFailed(
                f"no default schedule of kernel {self._kernel.name} compiles for {self._target.name}{fault}"
            )
        because = "" if self._best.first else f", because {self._fault}"
        return self._best.candidate.trace, f"{self._best.name}{because}"

    def _refuse(self, name: str, why: str) -> None:
        self._fault = self._fault or f"{name} {why}"


def fitting_defaults(kernels: Sequence[Kernel], target: GpuTarget, nvcc: Path) -> list[tuple[str, str]]:
    """A default schedule of each kernel, and a note for people.

    It is the most promising one that compiles and does not spill; where all spill, the one that spills least. Raises
    KernelFailed where none compiles, and ToolchainMissing.
    """
    searches = {kernel.workload: _Search(kernel, target) for kernel in kernels}
    left = list(searches)
    while left:
        drawn = {name: tried for name in left if (tried := searches[name].draw()) is not None}
        compiled = _compiled(drawn, target, nvcc)
        left = [name for name, tried in drawn.items() if searches[name].judge(tried, compiled.get(name))]
    return [searches[kernel.workload].found() for kernel in kernels]


def printed_defaults(kernels: Sequence[Kernel], target: GpuTarget) -> list[tuple[str, str]]:
    """The same where no compiler is: the most promising one that can be printed. Raises KernelFailed."""
    searches = {kernel.workload: _Search(kernel, target) for kernel in kernels}
    for search in searches.values():
        if (tried := search.draw()) is not None:
            search.judge(tried, tried)
    return [searches[kernel.workload].found() for kernel in kernels]


def spills(candidate: GpuCandidate, target: GpuTarget, nvcc: Path) -> bool:
    """Whether a candidate spills on the target's own architecture, or cannot be compiled for it."""
    found = compile_text(candidate.unit, target, nvcc)
    return isinstance(found, str) or found.slow_bytes > 0


def _compiled(drawn: Mapping[str, _Tried], target: GpuTarget, nvcc: Path) -> dict[str, _Tried]:
    """Those that compile, with their bytes: all in one file, or one by one where that has an error."""
    if not drawn:
        return {}
    found = compile_text(joined_unit([tried.candidate.source for tried in drawn.values()]), target, nvcc)
    if isinstance(found, str):
        if len(drawn) == 1:
            return {}
        alone = (_compiled({name: tried}, target, nvcc) for name, tried in drawn.items())
        return {name: tried for one in alone for name, tried in one.items()}
    bytes_of = {usage.name: usage.slow_bytes for usage in found.kernels}
    return {
        name: replace(tried, slow_bytes=sum(bytes_of[launch.kernel] for launch in tried.candidate.source.launches))
        for name, tried in drawn.items()
    }
