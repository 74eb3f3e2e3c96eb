"""Export of a bundle: candidates of every kernel as cubins, with inputs and references, in a folder.

The first candidate of a kernel is the formula's choice, the others are random decisions that pass the decision test.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
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
from edgetune.codegen.cuda.emit import emit_cuda_kernel
from edgetune.codegen.cuda.maths import render_device_preamble
from edgetune.codegen.kernel_source import KernelSource
from edgetune.codegen.package_names import with_prefix
from edgetune.codegen.packing import PackedLayout, split_packing
from edgetune.errors import KernelFailed, OutputRefused, ToolchainMissing
from edgetune.events import Event
from edgetune.graph.accuracy import Tolerance
from edgetune.graph.evaluate import ReferenceFunction
from edgetune.graph.program import Kernel, Program
from edgetune.measure.reference import random_input
from edgetune.pipeline.compile_input import Events
from edgetune.resources import templates_dir
from edgetune.schedule.algorithms.apply import replay_plainly
from edgetune.schedule.gpu.spaces import proposals
from edgetune.schedule.gpu_defaults import default_gpu_schedule
from edgetune.target.cuda_toolkit import gpu_fingerprint, nvcc_id, require_nvcc
from edgetune.target.gpu import GpuTarget
from edgetune.target.tool_process import run_tool

MOST_BYTES = 60 << 20
TIMEOUT_S = 20
MOST_LAUNCHES = 4096
_PREFIX = "edgetune"
_NVCC_S = 300


@dataclass(frozen=True)
class Compiled:
    """A candidate and what the runner needs for it."""

    entry: BundledCandidate
    source: KernelSource
    packing: dict[int, PackedLayout]
    cubin: bytes
    spills: bool


def export_bundle(
    program: Program, target: GpuTarget, out: Path, *, candidates: int, seed: int, events: Events
) -> dict[str, object]:
    """Write a bundle of at most that many candidates of each kernel to the folder `out`; returns counts.

    Raises ToolchainMissing, KernelFailed, and OutputRefused where `out` exists or the bundle is too large.
    """
    if out.exists():
        raise OutputRefused(f"{out} exists already: choose another folder with -o")
    if not out.absolute().parent.is_dir():
        raise OutputRefused(f"the folder {out.absolute().parent} does not exist: create it first")
    nvcc, toolchain = require_nvcc(target), nvcc_id(target)
    kernels = {kernel.workload: kernel for kernel in program.kernels}
    with _written_whole(out) as folder:
        for name in ("cubins", "data"):
            (folder / name).mkdir()
        plan: list[str] = []
        entries: list[BundledCandidate] = []
        refused = 0
        for number, kernel in enumerate(kernels.values()):
            found = list(_candidates(kernel, target, nvcc, candidates, seed + number))
            chosen = [one for one in found if not one.spills] or found[:1]
            refused += len(found) - len(chosen)
            plan += _planned(kernel, chosen, folder, seed + number)
            entries += [one.entry for one in chosen]
            events(Event("phase", {"name": f"{len(chosen)} candidates of {kernel.name}"}))
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
    """A folder beside `out` that gets its name once it is whole; nothing is left after an error."""
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.absolute().parent))
    try:
        yield folder
        folder.chmod(0o755)
        os.rename(folder, out)  # noqa: PTH104  Path.rename replaces an empty folder silently as well
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _candidates(kernel: Kernel, target: GpuTarget, nvcc: Path, most: int, seed: int) -> Iterator[Compiled]:
    """Different candidates of a kernel that compile within the target, the default schedule first."""
    first, _ = default_gpu_schedule(kernel.function, target)
    others = (text for text, _ in proposals(kernel.function, target, np.random.default_rng(seed)))
    known: set[str] = set()
    for text in islice(chain([first], others), 2 * most):
        try:
            module, packing = split_packing(replay_plainly(kernel.function, text))
            source = emit_cuda_kernel(module, target, f"{_PREFIX}__k_{kernel.name}")
        except KernelFailed:
            continue
        unit = _unit(source)
        name = hashlib.sha256(unit.encode()).hexdigest()
        if name in known or (compiled := _compile(unit, target, nvcc)) is None:
            continue
        known.add(name)
        cubin, spills = compiled
        entry = BundledCandidate(
            workload=kernel.workload,
            workload_name=kernel.name,
            candidate=name,
            trace=text,
            scratch_bytes=source.scratch_bytes,
            code_bytes=len(cubin),
        )
        yield Compiled(entry, source, packing, cubin, spills)
        if len(known) == most:
            return


def _unit(source: KernelSource) -> str:
    """The text of a candidate; its kernels keep their names, by which the runner finds them."""
    preamble = render_device_preamble(source.preamble, _PREFIX)
    text = with_prefix(source.definition, _PREFIX)
    return f'#include <math.h>\n#include <stdint.h>\n{preamble}\nextern "C" {{\n{text}\n}}\n'


def _compile(unit: str, target: GpuTarget, nvcc: Path) -> tuple[bytes, bool] | None:
    """The cubin of a text, and whether ptxas spills registers; None where it exceeds the target."""
    with tempfile.TemporaryDirectory(prefix="edgetune-") as folder:
        (Path(folder) / "kernel.cu").write_text(unit, encoding="utf-8")
        flags = [f"-arch={target.arch}", "-cubin", *target.compiler.nvccflags, "-Xptxas", "-v"]
        command = [str(nvcc), *flags, "kernel.cu", "-o", "kernel.cubin"]
        try:
            done = run_tool(command, timeout_s=_NVCC_S, folder=Path(folder))
        except (OSError, subprocess.SubprocessError) as error:
            raise ToolchainMissing(f"{nvcc} does not run ({error}): install CUDA again") from None
        if done.returncode:
            return None
        spilled = re.findall(r"(\d+) bytes (?:stack frame|spill)", done.stdout + done.stderr)
        return (Path(folder) / "kernel.cubin").read_bytes(), any(int(count) for count in spilled)


def _planned(kernel: Kernel, chosen: list[Compiled], folder: Path, seed: int) -> Iterator[str]:
    """The lines of the plan for the candidates of a kernel; writes their cubins and data."""
    generator = np.random.default_rng(seed)
    given = [
        random_input(param, tuple(o for o in kernel.params if o is not param), generator, positive=False)
        for param in kernel.params
        if param.role != "output"
    ]
    wanted = [(param.shape, param.dtype) for param in kernel.params if param.role == "output"]
    outputs = ReferenceFunction(kernel.function).run(given, wanted)
    tolerance = max(Tolerance.default(dtype).relative for _, dtype in wanted)
    for one in chosen:
        yield f"candidate {one.entry.candidate} {_stored(folder / 'cubins', one.cubin)} {tolerance:g}"
        arrays = [one.packing[n].apply(array) if n in one.packing else array for n, array in enumerate(given)]
        for role, array in [*(("i", array) for array in arrays), *(("o", array) for array in outputs)]:
            yield f"buffer {role} {array.nbytes} {_stored(folder / 'data', np.ascontiguousarray(array).tobytes())}"
        if one.source.scratch_bytes:
            yield f"buffer s {one.source.scratch_bytes} -"
        for launch in one.source.launches:
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
