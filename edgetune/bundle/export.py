"""Export of a bundle: candidates of every kernel as cubins, with inputs and references, in a folder.

The first candidates of a kernel are the formula's choices, the others are random decisions that pass the decision test;
where some are timed already (`TriedAlready`), most change one decision of a fast one.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from edgetune._version import __version__
from edgetune.bundle.manifest import (
    MANIFEST,
    PLAN,
    VERSION,
    BundledCandidate,
    BundleManifest,
    identity,
    manifest_text,
)
from edgetune.codegen import CODEGEN_VERSION
from edgetune.errors import CompileFailed, KernelFailed, OutputRefused
from edgetune.events import Event
from edgetune.graph.accuracy import Tolerance
from edgetune.graph.evaluate import ReferenceFunction
from edgetune.graph.program import Kernel, Program
from edgetune.measure.reference import random_input
from edgetune.pipeline.compile_input import Events
from edgetune.resources import templates_dir
from edgetune.schedule.gpu.candidate import GpuCandidate, gpu_candidate
from edgetune.schedule.gpu.neighbours import neighbours
from edgetune.schedule.gpu.spaces import first_schedules, proposals
from edgetune.schedule.gpu_defaults import default_gpu_schedule
from edgetune.target.cuda_toolkit import gpu_fingerprint, nvcc_id, require_nvcc
from edgetune.target.gpu import GpuTarget
from edgetune.target.ptxas import compile_text

MOST_BYTES = 60 << 20
TIMEOUT_S = 20
MOST_LAUNCHES = 4096
_MOST_BUFFERS, _MOST_ARGUMENTS, _MOST_STEPS = 63, 64, 16
"""What the runner has room for: parameters of a kernel besides its scratch, operands of a launch, launches."""

_ROLES = {
    "float32": "o",
    "float64": "d",
    "float16": "h",
    "bfloat16": "b",
}  # of outputs; all others are compared exactly


@dataclass(frozen=True)
class Compiled:
    """A candidate and what the runner needs for it."""

    candidate: GpuCandidate
    cubin: bytes
    spills: bool


@dataclass(frozen=True)
class TriedAlready:
    """What earlier rounds say of a kernel: the names of candidates that were tried, and the fastest traces."""

    names: frozenset[str] = frozenset()
    fastest: tuple[str, ...] = ()


def export_bundle(
    program: Program,
    target: GpuTarget,
    out: Path,
    *,
    candidates: int,
    seed: int,
    events: Events,
    known: Callable[[Kernel], TriedAlready] = lambda _: TriedAlready(),
    most: int | None = None,
) -> dict[str, object]:
    """Write a bundle of at most that many candidates of each kernel, `most` in all, to the folder `out`.

    Returns counts. Candidates that are `known` are left out. Where nothing is left, nothing is written, and
    "candidates" is 0. Raises ToolchainMissing, KernelFailed, CompileFailed where nvcc refuses all candidates of a
    kernel, and OutputRefused where `out` exists or the bundle is too large.
    """
    if out.exists():
        raise OutputRefused(f"{out} exists already: choose another folder with -o")
    if not out.absolute().parent.is_dir():
        raise OutputRefused(f"the folder {out.absolute().parent} does not exist: create it first")
    toolchain = nvcc_id(target)
    kernels = {kernel.workload: kernel for kernel in program.kernels}
    with _written_whole(out) as folder:
        for name in ("cubins", "data"):
            (folder / name).mkdir()
        plan: list[str] = []
        entries: list[BundledCandidate] = []
        refused = 0
        for number, kernel in enumerate(kernels.values()):
            if len(kernel.params) > _MOST_BUFFERS:
                many = f"kernel {kernel.name} has {len(kernel.params)} tensors, and a bundle takes {_MOST_BUFFERS}"
                events(Event("warning", {"message": f"{many}: it keeps its default schedule"}))
                continue
            wanted = candidates if most is None else min(candidates, most - len(entries))
            if wanted <= 0:
                break
            earlier = known(kernel)
            found = list(_candidates(kernel, target, wanted, np.random.default_rng(seed + number), earlier))
            chosen = [one for one in found if not one.spills] or ([] if earlier.names else found[:1])
            refused += len(found) - len(chosen)
            plan += _planned(kernel, chosen, folder, seed + number)
            entries += [_entry(kernel, one) for one in chosen]
            events(Event("phase", {"name": f"candidates of {kernel.name}: {len(chosen)}"}))
        if not entries:
            return {"folder": out, "candidates": 0, "spilling": refused, "bytes": 0}
        manifest = BundleManifest(
            format="edgetune-bundle",
            version=VERSION,
            tool_version=__version__,
            codegen_version=CODEGEN_VERSION,
            target=target.name,
            target_fingerprint=gpu_fingerprint(target),
            toolchain=toolchain,
            seed=seed,
            plan_sha256="0" * 64,
            candidates=entries,
        )
        head = f"edgetune-bundle {VERSION} {identity(manifest)} capability {target.compute_capability}"
        head += f" toolkit {_toolkit(toolchain)}"
        text = "\n".join([f"{head} budget {MOST_LAUNCHES} timeout {TIMEOUT_S}", *plan, ""])
        (folder / PLAN).write_text(text, encoding="ascii")
        digest = hashlib.sha256(text.encode()).hexdigest()
        (folder / MANIFEST).write_text(manifest_text(manifest.model_copy(update={"plan_sha256": digest})), "ascii")
        shutil.copy(templates_dir() / "bundle/runner.c", folder / "runner.c")
        total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if total > MOST_BYTES:
            raise OutputRefused(
                f"the bundle would have {total >> 20} MiB, more than {MOST_BYTES >> 20}: ask for fewer --candidates"
            )
    return {"folder": out, "candidates": len(entries), "spilling": refused, "bytes": total}


@contextmanager
def _written_whole(out: Path) -> Iterator[Path]:
    """A folder beside `out` that gets its name once it has a manifest; nothing else is left, also after an error."""
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.absolute().parent))
    try:
        yield folder
        if (folder / MANIFEST).exists():
            folder.chmod(0o755)
            os.rename(folder, out)  # noqa: PTH104  Path.rename replaces an empty folder silently as well
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _toolkit(toolchain: str) -> int:
    """The major version of CUDA, which the driver must know; 0 where nvcc did not tell its own."""
    found = re.match(r"nvcc-(\d+)\.", toolchain)
    return int(found[1]) if found else 0


def _texts(kernel: Kernel, target: GpuTarget, random: np.random.Generator, known: TriedAlready) -> Iterator[str]:
    """Traces to try, without end where decisions are left."""
    if not known.names:
        yield from [text for text, _ in first_schedules(kernel.function, target)] or [
            default_gpu_schedule(kernel.function, target)[0]
        ]
    near = neighbours(kernel.function, target, known.fastest, random)
    for text, _ in proposals(kernel.function, target, random):
        yield from islice(near, _NEAR)  # in turns
        yield text


_NEAR = 3  # changes of fast candidates for each random one


def _candidates(
    kernel: Kernel, target: GpuTarget, most: int, random: np.random.Generator, known: TriedAlready
) -> Iterator[Compiled]:
    """Different candidates of a kernel that compile within the target."""
    nvcc, names, complaint, made = require_nvcc(target), set(known.names), "", 0
    for text in islice(_texts(kernel, target, random, known), _TRIES * most):
        try:
            candidate = gpu_candidate(kernel, text, target)
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
        compiled = compile_text(candidate.unit, target, nvcc)
        if isinstance(compiled, str):
            complaint = compiled
            continue
        made += 1
        yield Compiled(candidate, compiled.data, compiled.slow_bytes > 0)
        if made == most:
            return
    if not made and not known.names:
        raise CompileFailed(f"no candidate of kernel {kernel.name} can be compiled for {target.name}: {complaint}")


_TRIES = 3  # proposals for each candidate of a round: some are known, or refused by nvcc


def _entry(kernel: Kernel, one: Compiled) -> BundledCandidate:
    return BundledCandidate(
        workload=kernel.workload,
        workload_name=kernel.name,
        candidate=one.candidate.name,
        trace=one.candidate.trace,
        scratch_bytes=one.candidate.source.scratch_bytes,
        code_bytes=len(one.cubin),
    )


def _planned(kernel: Kernel, chosen: Sequence[Compiled], folder: Path, seed: int) -> Iterator[str]:
    """The lines of the plan for the candidates of a kernel; writes their cubins and data."""
    generator = np.random.default_rng(seed)
    given = [
        random_input(param, tuple(o for o in kernel.params if o is not param), generator, positive=False)
        for param in kernel.params
        if param.role != "output"
    ]
    wanted = [(param.shape, param.dtype) for param in kernel.params if param.role == "output"]
    roles = [_ROLES.get(dtype, "e") for _, dtype in wanted]
    outputs = ReferenceFunction(kernel.function).run(given, wanted) if chosen else []
    tolerance = max(Tolerance.default(dtype).relative for _, dtype in wanted)
    for one in chosen:
        source, packing = one.candidate.source, one.candidate.packing
        yield f"candidate {one.candidate.name} {_stored(folder / 'cubins', one.cubin)} {tolerance:g}"
        arrays = [packing[n].apply(array) if n in packing else array for n, array in enumerate(given)]
        for role, array in [*(("i", array) for array in arrays), *zip(roles, outputs, strict=True)]:
            yield f"buffer {role} {array.nbytes} {_stored(folder / 'data', np.ascontiguousarray(array).tobytes())}"
        if source.scratch_bytes:
            yield f"buffer s {source.scratch_bytes} -"
        for launch in source.launches:
            extents = " ".join(map(str, (*launch.grid, *launch.block)))
            scratch = len(kernel.params)
            places = [(scratch, o.offset) if o.param is None else (o.param, 0) for o in launch.operands]
            operands = "".join(f" {buffer}:{offset}" for buffer, offset in places)
            yield f"launch {launch.kernel} {extents} {launch.dynamic_bytes} {len(launch.operands)}{operands}"
        yield "end"


def _stored(folder: Path, data: bytes) -> str:
    """The name of a file with these bytes, which is their hash."""
    name = hashlib.sha256(data).hexdigest()
    if not (folder / name).exists():
        (folder / name).write_bytes(data)
    return name
