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
from collections.abc import Callable, Iterator
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
    BundleManifest,
    identity,
    manifest_text,
)
from edgetune.bundle.plan import LEAST_ROOM, BundleFiles, Compiled, KernelData, output_bytes
from edgetune.codegen import CODEGEN_VERSION
from edgetune.errors import CompileFailed, KernelFailed, OutputRefused
from edgetune.events import Event
from edgetune.graph.program import Kernel, Program
from edgetune.pipeline.compile_input import Events
from edgetune.resources import templates_dir
from edgetune.schedule.gpu.candidate import gpu_candidate
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


@dataclass(frozen=True)
class TriedAlready:
    """What earlier rounds say of a kernel: the names of candidates that were tried, and the fastest traces."""

    names: frozenset[str] = frozenset()
    fastest: tuple[str, ...] = ()


@dataclass(frozen=True)
class BundleRequest:
    """What a bundle shall have: at most so many candidates of each kernel, `most` in all, and that many bytes.

    None is no limit. Candidates that are `known` are left out.
    """

    candidates: int
    seed: int
    known: Callable[[Kernel], TriedAlready] = lambda _: TriedAlready()
    most: int | None = None
    most_bytes: int | None = MOST_BYTES


def export_bundle(
    program: Program, target: GpuTarget, out: Path, request: BundleRequest, events: Events
) -> dict[str, object]:
    """Write a bundle to the folder `out`.

    Kernels with the fewest known candidates come first. Where one does not fit any more, it and the rest are left out,
    which a warning tells. Returns counts. Where nothing is left, nothing is written, and "candidates" is 0. Raises
    ToolchainMissing, KernelFailed, CompileFailed where nvcc refuses all candidates of a kernel, and OutputRefused where
    `out` exists.
    """
    if out.exists():
        raise OutputRefused(f"{out} exists already: choose another folder with -o")
    if not out.absolute().parent.is_dir():
        raise OutputRefused(f"the folder {out.absolute().parent} does not exist: create it first")
    toolchain = nvcc_id(target)
    with _written_whole(out) as folder:
        files = BundleFiles(folder, request.most_bytes)
        refused, left_out = _filled(files, program, target, request, events)
        counts = {"folder": out, "candidates": len(files.entries), "spilling": refused, "left_out": left_out}
        if not files.entries:
            return {**counts, "bytes": 0}
        manifest = BundleManifest(
            format="edgetune-bundle",
            version=VERSION,
            tool_version=__version__,
            codegen_version=CODEGEN_VERSION,
            target=target.name,
            target_fingerprint=gpu_fingerprint(target),
            toolchain=toolchain,
            seed=request.seed,
            caches=target.caches,
            plan_sha256="0" * 64,
            candidates=files.entries,
        )
        head = f"edgetune-bundle {VERSION} {identity(manifest)} capability {target.compute_capability}"
        head += f" toolkit {_toolkit(toolchain)} cold {int(target.caches == 'cold')}"
        text = "\n".join([f"{head} budget {MOST_LAUNCHES} timeout {TIMEOUT_S}", *files.plan, ""])
        (folder / PLAN).write_text(text, encoding="ascii")
        digest = hashlib.sha256(text.encode()).hexdigest()
        (folder / MANIFEST).write_text(manifest_text(manifest.model_copy(update={"plan_sha256": digest})), "ascii")
        shutil.copy(templates_dir() / "bundle/runner.c", folder / "runner.c")
        total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {**counts, "bytes": total}


def _filled(
    files: BundleFiles, program: Program, target: GpuTarget, request: BundleRequest, events: Events
) -> tuple[int, int]:
    """Add candidates; how many spilled and were left out, and how many kernels had no room."""
    kernels = list({kernel.workload: kernel for kernel in program.kernels}.values())
    tried = [request.known(kernel) for kernel in kernels]
    refused = left_out = 0
    order = sorted(range(len(kernels)), key=lambda number: len(tried[number].names))
    for place, number in enumerate(order):
        kernel = kernels[number]
        fault = _fault(kernel, request.most_bytes)
        if fault is not None:
            events(Event("warning", {"message": f"kernel {kernel.name} has {fault}: it keeps its default schedule"}))
            left_out += 1
            continue
        wanted = request.candidates
        if request.most is not None:
            wanted = min(wanted, request.most - len(files.entries))
        if wanted <= 0:
            break
        before, full, spilling = len(files.entries), not files.has_room(output_bytes(kernel)), list[Compiled]()
        if not full:
            seed = request.seed + number
            data = KernelData.of(kernel, seed)
            for one in _candidates(kernel, target, wanted, np.random.default_rng(seed), tried[number]):
                if one.spills:
                    spilling.append(one)
                elif full := not files.add(data, one):
                    break
            if spilling and len(files.entries) == before and not (tried[number].names or full):
                full = not files.add(data, spilling.pop(0))
        refused += len(spilling)
        events(Event("phase", {"name": f"candidates of {kernel.name}: {len(files.entries) - before}"}))
        if full:
            rest = len(order) - place - (len(files.entries) > before)
            left = f"{rest} of {len(order)} kernels are left to the next round of `edgetune tune --via bundle`"
            events(Event("warning", {"message": f"the bundle is full ({(request.most_bytes or 0) >> 20} MiB): {left}"}))
            return refused, left_out + rest
    return refused, left_out


def _fault(kernel: Kernel, most_bytes: int | None) -> str | None:
    """What keeps a kernel out of every bundle."""
    if len(kernel.params) > _MOST_BUFFERS:
        return f"{len(kernel.params)} tensors, and a bundle takes {_MOST_BUFFERS}"
    size = output_bytes(kernel) + LEAST_ROOM
    if most_bytes is not None and size > most_bytes:
        return (
            f"outputs of {size >> 20} MiB, and a bundle that is carried takes {most_bytes >> 20} (no such limit has "
            "`edgetune tune` on a GPU of this machine, or with --via USER@HOST on one behind SSH)"
        )
    return None


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
