"""Default schedules that fit the registers of a GPU: ptxas reads them, and another one is taken where it spills.

All kernels of a program are compiled in one run of nvcc; those that spill go on with the next schedule of theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    """A schedule of a kernel, a note for people, and the bytes of a thread that ptxas puts into device memory."""

    candidate: GpuCandidate
    note: str
    slow_bytes: int = 0


def fitting_defaults(kernels: Sequence[Kernel], target: GpuTarget, nvcc: Path) -> list[tuple[str, str]]:
    """A default schedule of each kernel, and a note for people.

    It is the most promising one that compiles and does not spill; where all spill, the one that spills least. Raises
    KernelFailed where none compiles, and ToolchainMissing.
    """
    different = {kernel.workload: kernel for kernel in kernels}
    left = {name: _schedules(kernel, target) for name, kernel in different.items()}
    best: dict[str, _Tried] = {}
    while left:
        drawn = {name: tried for name, schedules in left.items() if (tried := next(schedules, None))}
        for name, tried in _compiled(drawn, target, nvcc).items():
            if name not in best or tried.slow_bytes < best[name].slow_bytes:
                best[name] = tried
        left = {name: left[name] for name in drawn if name not in best or best[name].slow_bytes}
    for name, kernel in different.items():
        if name not in best:
            raise KernelFailed(f"no default schedule of kernel {kernel.name} compiles for {target.name}")
    return [(best[kernel.workload].candidate.trace, best[kernel.workload].note) for kernel in kernels]


def spills(candidate: GpuCandidate, target: GpuTarget, nvcc: Path) -> bool:
    """Whether a candidate spills on the target's own architecture, or cannot be compiled for it."""
    found = compile_text(candidate.unit, target, nvcc)
    return isinstance(found, str) or found.slow_bytes > 0


def _schedules(kernel: Kernel, target: GpuTarget) -> Iterator[_Tried]:
    """Schedules that can be printed; the note of each but the first says that the formula prefers another."""
    first = ""
    for text, name in islice(gpu_schedules(kernel.function, target), MOST_TRIED):
        note = f"{name}, because {first} spills registers" if first else name
        first = first or name
        try:
            yield _Tried(gpu_candidate(kernel, text, target), note)
        except KernelFailed:
            continue


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
        name: _Tried(
            tried.candidate, tried.note, sum(bytes_of[launch.kernel] for launch in tried.candidate.source.launches)
        )
        for name, tried in drawn.items()
    }
