"""Export of a bundle: compiled candidates of every kernel, with inputs and references, in a folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from edgetune._version import __version__
from edgetune.bundle.kinds import kind_of
from edgetune.bundle.kinds.kind import RUNNER, CandidateKind, Compiled, PackageRules, TriedAlready
from edgetune.bundle.manifest import (
    MANIFEST,
    PLAN,
    VERSION,
    BundleManifest,
    identity,
    manifest_text,
)
from edgetune.bundle.plan import LEAST_ROOM, BundleFiles, KernelData, output_bytes
from edgetune.codegen import CODEGEN_VERSION
from edgetune.errors import OutputRefused
from edgetune.events import Event
from edgetune.graph.program import Kernel, Program
from edgetune.pipeline.compile_input import Events
from edgetune.resources import templates_dir
from edgetune.target.board_kind import BoardKind

MOST_BYTES = 60 << 20
TIMEOUT_S = 20
MOST_LAUNCHES = 4096
_MOST_BUFFERS = 63
"""What the runner has room for: parameters of a kernel besides its scratch."""


@dataclass(frozen=True)
class BundleRequest:
    """What a bundle shall have: at most so many candidates of each kernel, `most` in all, and that many bytes.

    None is no limit. Candidates that are `known`, or break the `rules` of the package, are left out.
    """

    candidates: int
    seed: int
    known: Callable[[Kernel], TriedAlready] = lambda _: TriedAlready()
    most: int | None = None
    most_bytes: int | None = MOST_BYTES
    rules: PackageRules = field(default_factory=PackageRules)


def export_bundle(
    program: Program, target: BoardKind, out: Path, request: BundleRequest, events: Events
) -> dict[str, object]:
    """Write a bundle to the folder `out`.

    Kernels with the fewest known candidates come first. Where one does not fit any more, it and the rest are left out,
    which a warning tells. Returns counts. Where nothing is left, nothing is written, and "candidates" is 0. Raises
    ToolchainMissing, KernelFailed, CompileFailed where the compiler refuses all candidates of a kernel, UsageError for
    a target whose candidates cannot travel, and OutputRefused where `out` exists.
    """
    if out.exists():
        raise OutputRefused(f"{out} exists already: choose another folder with -o")
    if not out.absolute().parent.is_dir():
        raise OutputRefused(f"the folder {out.absolute().parent} does not exist: create it first")
    kind = kind_of(target)
    fingerprint, toolchain = kind.identity(target)
    with _written_whole(out) as folder:
        files = BundleFiles(folder, kind.name, request.most_bytes)
        refused, left_out = _filled(files, program, (kind, target), request, events)
        counts = {"folder": out, "candidates": len(files.entries), "spilling": refused, "left_out": left_out}
        if not files.entries:
            return {**counts, "bytes": 0}
        manifest = BundleManifest(
            format="edgetune-bundle",
            version=VERSION,
            tool_version=__version__,
            codegen_version=CODEGEN_VERSION,
            target=target.name,
            target_fingerprint=fingerprint,
            toolchain=toolchain,
            seed=request.seed,
            kind=kind.name,
            caches=target.caches,
            emulated=target.emulated,
            plan_sha256="0" * 64,
            candidates=files.entries,
        )
        head = f"edgetune-bundle {VERSION} {identity(manifest)} cold {kind.cold_bytes(target)} budget {MOST_LAUNCHES}"
        text = "\n".join([f"{head} timeout {TIMEOUT_S} {kind.head(target)}", *files.plan, ""])
        (folder / PLAN).write_text(text, encoding="ascii")
        digest = hashlib.sha256(text.encode()).hexdigest()
        (folder / MANIFEST).write_text(manifest_text(manifest.model_copy(update={"plan_sha256": digest})), "ascii")
        for name in (*RUNNER, *kind.runner):
            shutil.copy(templates_dir() / name, folder)
        kind.build_runner(target, folder)
        total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {**counts, "bytes": total}


def _filled(
    files: BundleFiles,
    program: Program,
    where: tuple[CandidateKind, BoardKind],
    request: BundleRequest,
    events: Events,
) -> tuple[int, int]:
    """Add candidates; how many spilled and were left out, and how many kernels had no room."""
    kernels = list({kernel.workload: kernel for kernel in program.kernels}.values())
    tried = [request.known(kernel) for kernel in kernels]
    refused = left_out = 0
    kind, maker = where[0], where[0].maker(program, where[1], request.rules)
    order = sorted(range(len(kernels)), key=lambda number: len(tried[number].names))
    for place, number in enumerate(order):
        kernel = kernels[number]
        fault = _fault(kernel, kind, request.most_bytes)
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
            for one in maker.candidates(kernel, wanted, seed, tried[number]):
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


def _fault(kernel: Kernel, kind: CandidateKind, most_bytes: int | None) -> str | None:
    """What keeps a kernel out of every bundle."""
    if len(kernel.params) > _MOST_BUFFERS:
        return f"{len(kernel.params)} tensors, and a bundle takes {_MOST_BUFFERS}"
    size = output_bytes(kernel) + LEAST_ROOM
    if most_bytes is not None and size > most_bytes:
        return (
            f"outputs of {size >> 20} MiB, and a bundle that is carried takes {most_bytes >> 20} (no such limit has "
            f"`edgetune tune` {kind.elsewhere})"
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
