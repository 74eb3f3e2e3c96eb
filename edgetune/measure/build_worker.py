"""Build worker process: reads jobs from a pipe until end of file, builds candidate libraries and kernels' test vectors.

It reports each phase before the phase begins, so that the pool knows in which phase a worker died. It also reports the
compiler that it runs, so that the pool can stop the compiler too.
"""

from __future__ import annotations

import errno
import hashlib
import importlib
import os
import pickle
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgetune.boards import cores
from edgetune.errors import DiskFull, EdgetuneError
from edgetune.ipc import frames
from edgetune.ipc.child_process import claim_pipes, die_with_parent
from edgetune.measure.compiler import CompilerCommand, builder_of
from edgetune.measure.jobs import BuildJob, BuildStatus, CandidateBuild, Case, ReferenceJob, ReferenceResult
from edgetune.schedule.kernel_spec import KernelSpec
from edgetune.schedule.source import CandidateSource
from edgetune.target.target import Target

SourceStep = Callable[[KernelSpec, str, Target], CandidateSource]
ReferenceStep = Callable[[KernelSpec, Path, ReferenceJob], Case]
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES})


@dataclass(frozen=True)
class BuildPolicy:
    """How candidates are built: `source_step` and `reference_step` name functions as `module:name`.

    `compile_timeout_s` limits the wall time of one call of the compiler, and twice that of a whole job.
    """

    source_step: str = "edgetune.schedule.source:make_source"
    reference_step: str = "edgetune.measure.reference:make_case"
    compile_timeout_s: float = 30.0


@dataclass(frozen=True)
class WorkerSetup:
    """First message to a worker, which works in `folder` and on `cores` (None: on any)."""

    folder: Path
    target: Target
    toolchain: CompilerCommand
    policy: BuildPolicy
    cores: frozenset[int] | None


@dataclass(frozen=True)
class Ready:
    """A worker has finished its imports, in `seconds`."""

    seconds: float


@dataclass(frozen=True)
class Progress:
    """The progress of the current job: a phase, and the process group of the compiler while one runs (else 0)."""

    phase: str
    compiler: int = 0


@dataclass(frozen=True)
class OutOfSpace:
    """The folder for candidates is full, so nothing can be built."""

    message: str


@dataclass(frozen=True)
class Known:
    """Candidates of a kernel that need no build, because they were built before."""

    kernel_key: str
    candidates: frozenset[str]


class BuildWorker:
    """Does the jobs of one worker process; `tell` sends a message to the pool."""

    def __init__(self, setup: WorkerSetup, tell: Callable[[object], None]) -> None:
        self._setup = setup
        self._tell = tell
        self._count = 0
        self._known: dict[str, set[str]] = {}
        self._specs: dict[str, KernelSpec] = {}
        self._builder = builder_of(setup.target)
        self._source_step: SourceStep = load_step(setup.policy.source_step)
        warm_up = getattr(importlib.import_module(setup.policy.source_step.partition(":")[0]), "warm_up", None)
        if warm_up is not None:
            warm_up()

    def handle(self, message: object) -> None:
        """Do one job and send its result."""
        try:
            if isinstance(message, Known):
                self._known.setdefault(message.kernel_key, set()).update(message.candidates)
            elif isinstance(message, BuildJob):
                self._tell(self._build(message))
            elif isinstance(message, ReferenceJob):
                self._tell(self._refer(message))
            else:
                raise TypeError(f"a build worker does not know {type(message).__name__}")
        except DiskFull as error:
            self._tell(OutOfSpace(error.message))
        except OSError as error:
            if error.errno not in _FULL:
                raise
            self._tell(OutOfSpace(f"cannot write candidates to {self._setup.folder}: {error.strerror}; set TMPDIR"))

    def _build(self, job: BuildJob) -> CandidateBuild:
        self._tell(Progress("lower"))
        spec = self._spec(job.kernel_key)
        try:
            source = self._source_step(spec, job.trace, self._setup.target)
        except EdgetuneError as error:
            return CandidateBuild(job.job_id, job.kernel_key, "lower_failed", error.message)
        except (RuntimeError, ValueError, TypeError, LookupError, AttributeError) as error:
            # TVM's own errors are of all these classes; an error makes the schedule fail, with its reason.
            return CandidateBuild(job.job_id, job.kernel_key, "lower_failed", _describe(error))
        candidate = hashlib.sha256(source.unit.encode()).hexdigest()
        built = CandidateBuild(
            job.job_id,
            job.kernel_key,
            "built",
            candidate_id=candidate,
            scratch_bytes=source.scratch_bytes,
            seconds=dict(source.seconds),
            least_cycles=source.least_cycles,
        )
        known = self._known.setdefault(job.kernel_key, set())
        if candidate in known and not job.again:
            return replace(built, status="duplicate")
        if source.scratch_bytes > spec.scratch_limit:
            known.add(candidate)
            reason = f"needs {source.scratch_bytes} bytes of scratch, and the limit is {spec.scratch_limit}"
            return replace(built, status="over_scratch", reason=reason)
        return self._compile(built, source)

    def _compile(self, built: CandidateBuild, source: CandidateSource) -> CandidateBuild:
        self._count += 1
        folder = self._setup.folder / "candidates" / f"{os.getpid()}-{self._count}"
        folder.mkdir(parents=True)
        started = time.perf_counter()
        self._tell(Progress("pack"))
        packed: dict[int, Path] = {}
        for index, layout in sorted(source.packing.items()):
            packed[index] = folder / f"packed_{index}.npy"
            weight = np.load(self._setup.folder / "cases" / built.kernel_key / f"array_{index}.npy")
            np.save(packed[index], np.ascontiguousarray(layout.apply(weight)))
        ready = time.perf_counter()
        unit, shim, library = folder / "kernel.c", folder / "shim.c", folder / "candidate.so"
        unit.write_text(source.unit)
        shim.write_text(source.shim)
        compiled = self._builder.build_candidate(
            self._setup.toolchain, unit, shim, library, lambda group: self._tell(Progress("compile", group))
        )
        seconds = {**built.seconds, "pack": ready - started, "compile": time.perf_counter() - ready}
        if built.candidate_id is not None:
            self._known[built.kernel_key].add(built.candidate_id)
        if compiled.reason:
            shutil.rmtree(folder, ignore_errors=True)
            status: BuildStatus = "timeout" if compiled.timed_out else "build_failed"
            return replace(built, status=status, reason=compiled.reason, seconds=seconds)
        return replace(built, library=library, packed=packed, code_bytes=compiled.code_bytes, seconds=seconds)

    def _refer(self, job: ReferenceJob) -> ReferenceResult:
        self._tell(Progress("reference"))
        step: ReferenceStep = load_step(self._setup.policy.reference_step)
        started = time.perf_counter()
        try:
            case = step(self._spec(job.kernel_key), self._setup.folder / "cases" / job.kernel_key, job)
        except EdgetuneError as error:
            return ReferenceResult(job.kernel_key, None, error.message, time.perf_counter() - started)
        except (RuntimeError, ValueError, TypeError, LookupError, AttributeError) as error:
            return ReferenceResult(job.kernel_key, None, _describe(error), time.perf_counter() - started)
        return ReferenceResult(job.kernel_key, case, "", time.perf_counter() - started)

    def _spec(self, key: str) -> KernelSpec:
        if key not in self._specs:
            self._specs[key] = pickle.loads(spec_path(self._setup.folder, key).read_bytes())  # noqa: S301  our own
        return self._specs[key]


def spec_path(folder: Path, key: str) -> Path:
    """Return the file in which the pool stores the description of a kernel for its workers."""
    return folder / "kernels" / f"{key}.pickle"


def load_step(name: str) -> Any:
    """Return the function called `module:name`."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def _describe(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"[:1000]


def main() -> None:
    """Run the process: the first argument is the id of its parent."""
    die_with_parent(int(sys.argv[1]))
    incoming, outgoing = claim_pipes()
    started = time.perf_counter()
    setup = frames.receive(incoming)
    if not isinstance(setup, WorkerSetup):
        raise TypeError("the first message must be the setup")
    if setup.cores is not None:
        cores.pin(setup.cores)
    worker = BuildWorker(setup, lambda message: frames.send(outgoing, message))
    frames.send(outgoing, Ready(time.perf_counter() - started))
    while True:
        try:
            message = frames.receive(incoming)
        except EOFError:
            return
        worker.handle(message)
