"""Candidates for GPUs as cubins: the formula's choices first, then random decisions that pass the decision test.

Where some are timed already, most change one decision of a fast one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgetune.bundle.kinds.kind import CandidateMaker, Compiled, PackageRules, RoundHost, TriedAlready
from edgetune.errors import CompileFailed, KernelFailed, UsageError
from edgetune.target.board_kind import BoardKind
from edgetune.target.cuda_toolkit import gpu_fingerprint, nvcc_id, require_nvcc
from edgetune.target.gpu import GpuTarget
from edgetune.target.ptxas import compile_text

if TYPE_CHECKING:
    from edgetune.config.settings import Settings
    from edgetune.graph.program import Kernel, Program
    from edgetune.pipeline.compile_input import Events
    from edgetune.records import RecordKey
    from edgetune.schedule.gpu.candidate import GpuCandidate

_MOST_ARGUMENTS, _MOST_STEPS = 64, 16
"""What the runner has room for: operands of a launch, launches."""

_NEAR = 3  # changes of fast candidates for each random one
_TRIES = 3  # proposals for each candidate of a round: some are known, or refused by nvcc


class Cubins:
    """See `CandidateKind`."""

    name = "cubins"
    runner: tuple[str, ...] = ("bundle/cuda.c",)
    elsewhere = "on a GPU of this machine, or with --via USER@HOST on one behind SSH"

    def fault(self, target: BoardKind) -> str:
        """Return nothing: a GPU is all that is asked for."""
        del target
        return ""

    def identity(self, target: BoardKind) -> tuple[str, str]:
        """Return the GPU's fingerprint and the version of nvcc."""
        return gpu_fingerprint(_gpu(target)), nvcc_id(_gpu(target))

    def head(self, target: BoardKind) -> str:
        """Return the capability, and the major version of CUDA, which the driver must know (0: nvcc does not tell)."""
        gpu = _gpu(target)
        found = re.match(r"nvcc-(\d+)\.", nvcc_id(gpu))
        return f"capability {gpu.compute_capability} toolkit {int(found[1]) if found else 0}"

    def build_runner(self, target: BoardKind, folder: Path) -> None:
        """Compile nothing: a GPU does not tell which CPU is beside it."""
        del target, folder

    def cold_bytes(self, target: BoardKind) -> int:
        """Return 1 for cold caches: the runner asks the driver for the size of L2."""
        return int(_gpu(target).caches == "cold")

    def record_key(self, kernel: Kernel, target: BoardKind) -> RecordKey:
        """Return the key of the backend's records."""
        from edgetune.backends.cuda import record_key

        return record_key(kernel, _gpu(target))

    def maker(self, program: Program, target: BoardKind, rules: PackageRules) -> CandidateMaker:
        """Return a maker that compiles with nvcc; there are no threads, and no other algorithms."""
        del program, rules
        return _Maker(_gpu(target))

    def check_via(self, settings: Settings, via: str | None) -> None:
        """See `gpu_host.check_via`."""
        from edgetune.bundle.gpu_host import check_via

        check_via(settings, via)

    def host(self, settings: Settings, via: str | None, events: Events) -> RoundHost | None:
        """See `gpu_host.gpu_host`."""
        from edgetune.bundle.gpu_host import gpu_host

        return gpu_host(settings, via, events)


CUBINS = Cubins()


class _Maker:
    """See `CandidateMaker`."""

    def __init__(self, target: GpuTarget) -> None:
        self._target = target

    def candidates(self, kernel: Kernel, most: int, seed: int, tried: TriedAlready) -> Iterator[Compiled]:
        """See `CandidateMaker`."""
        from edgetune.schedule.gpu.candidate import gpu_candidate

        nvcc, names, complaint, made = require_nvcc(self._target), set(tried.names), "", 0
        for text in islice(self._texts(kernel, np.random.default_rng(seed), tried), _TRIES * most):
            try:
                candidate = gpu_candidate(kernel, text, self._target)
            except KernelFailed as error:
                complaint = error.message
                continue
            launches = candidate.source.launches
            if len(launches) > _MOST_STEPS or any(len(launch.operands) > _MOST_ARGUMENTS for launch in launches):
                complaint = f"it has more than {_MOST_STEPS} launches, or one with more than {_MOST_ARGUMENTS} operands"
                continue
            if candidate.name in names:
                continue
            names.add(candidate.name)
            compiled = compile_text(candidate.unit, self._target, nvcc)
            if isinstance(compiled, str):
                complaint = compiled
                continue
            made += 1
            yield Compiled(
                candidate.name,
                candidate.trace,
                compiled.data,
                len(compiled.data),
                candidate.source.scratch_bytes,
                candidate.packing,
                tuple(_launches(kernel, candidate)),
                compiled.slow_bytes > 0,
            )
            if made == most:
                return
        if not made and not tried.names:
            raise CompileFailed(
                f"no candidate of kernel {kernel.name} can be compiled for {self._target.name}: {complaint}"
            )

    def _texts(self, kernel: Kernel, random: np.random.Generator, tried: TriedAlready) -> Iterator[str]:
        """Traces to try, without end where decisions are left."""
        from edgetune.schedule.gpu.neighbours import neighbours
        from edgetune.schedule.gpu.spaces import first_schedules, proposals
        from edgetune.schedule.gpu_defaults import default_gpu_schedule

        function, target = kernel.function, self._target
        if not tried.names:
            yield from [text for text, _ in first_schedules(function, target)] or [
                default_gpu_schedule(function, target)[0]
            ]
        near = neighbours(function, target, tried.fastest, random)
        for text, _ in proposals(function, target, random):
            yield from islice(near, _NEAR)  # in turns
            yield text


def _launches(kernel: Kernel, candidate: GpuCandidate) -> Iterator[str]:
    """The lines of the plan for the launches of a candidate."""
    for launch in candidate.source.launches:
        extents = " ".join(map(str, (*launch.grid, *launch.block)))
        scratch = len(kernel.params)
        places = [(scratch, o.offset) if o.param is None else (o.param, 0) for o in launch.operands]
        operands = "".join(f" {buffer}:{offset}" for buffer, offset in places)
        yield f"launch {launch.kernel} {extents} {launch.dynamic_bytes} {len(launch.operands)}{operands}"


def _gpu(target: BoardKind) -> GpuTarget:
    if not isinstance(target, GpuTarget):
        raise UsageError(f"board '{target.name}' has no GPU, and cubins are for GPUs: correct 'backend' in its file")
    return target
