"""Package emission: renders all files of a package from plain data and renames the complete folder into place."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgetune._version import __version__
from edgetune.codegen.kernel_source import KernelSource
from edgetune.errors import KernelFailed, MemoryLimitExceeded
from edgetune.events import Event
from edgetune.graph.memory.live_ranges import ARENA_ALIGNMENT
from edgetune.graph.memory.plan import MemoryPlan
from edgetune.graph.program import Program
from edgetune.package.calls import arena_slots, ask_while_waiting, call_views, kernel_views
from edgetune.package.constants import Placement, place_weights
from edgetune.package.core_files import core_files
from edgetune.package.facts import PackageFacts, manifest_facts, template_context
from edgetune.package.flags import split_flags
from edgetune.package.golden import Golden, OutputTolerance
from edgetune.package.ident import package_prefix
from edgetune.package.interface import Interface, alignments, public_tensors, workspace_bytes
from edgetune.package.manifest import write_manifest
from edgetune.package.output_folder import staged
from edgetune.package.package_file import PackageFile, write_files
from edgetune.package.program_image import HOSTED, ProgramImage
from edgetune.package.provenance import KernelProvenance
from edgetune.package.size import STACK_LIMIT_BYTES, CodeSize, StaticSize, measure_code, static_size
from edgetune.package.vectors import place_vectors
from edgetune.target.target import Target

VERSION = (1, 0, 0)
OnEvent = Callable[[Event], None]
Check = Callable[[Path, Path], None]
"""Checks a package before it is in its place; gets its folder and a folder with objects compiled from it."""


@dataclass(frozen=True)
class PackageSummary:
    """The written package: folder, C prefix and sizes (bytes); `code` is None without a compiler."""

    folder: Path
    prefix: str
    size: StaticSize
    code: CodeSize | None
    warnings: tuple[str, ...]


def emit_package(
    program: Program,
    sources: Sequence[KernelSource],
    packed: Mapping[tuple[int, int], np.ndarray],
    plan: MemoryPlan,
    target: Target,
    out_dir: Path,
    *,
    name: str | None = None,
    goldens: Sequence[Golden],
    provenance: Sequence[KernelProvenance],
    reference: str = "",
    preamble: str = "",
    tolerances: Mapping[str, OutputTolerance] | None = None,
    model_file: str = "",
    weights: Placement | None = None,
    threads: int = 1,
    measure: bool = True,
    flash_limit: int | None = None,
    on_event: OnEvent | None = None,
    check: Check | None = None,
    image: ProgramImage = HOSTED,
) -> PackageSummary:
    """Write the package of `program` for `target` to `out_dir`, replacing an earlier package there.

    `sources` and `provenance` hold one entry per kernel of the program; every symbol is `kernel_symbol(prefix, kernel)`
    with `prefix = package_prefix(name or program.name)`. `packed` holds constants in the layout that their kernel
    reads, by (call index, parameter index); the others come from the program. `reference` names the evaluator that
    computed the goldens. `preamble` is C text for the top of the kernels file. `tolerances` are by output name,
    `OutputTolerance.default` for the rest. `model_file` is a name without a folder. With `weights` None, the size
    decides between text and binary. `threads` is the most that a run may use. `measure` compiles once for code size and
    stack; weights and code together may take `flash_limit` bytes. `image` says what test programs are linked with.
    `check` may reject the package by raising, before it
    replaces another.

    The bytes depend only on the arguments (and, with `measure`, on the compiler): not on time, folder or locale.
    Raises OutputRefused, DiskFull, KernelFailed, WrongResult (golden does not fit), CompileFailed and
    MemoryLimitExceeded, and what `check` raises; after any error, nothing is left behind.
    """
    prefix = package_prefix(name or program.name)
    _check(program, sources, provenance, plan, prefix)
    placed = place_weights(program, packed, weights)
    needed = alignments(program, sources)
    chosen = tolerances or {}
    api = Interface(
        prefix=prefix,
        inputs=public_tensors(program.inputs, program.input_buffers(), needed, "input", chosen),
        outputs=public_tensors(program.outputs, program.output_buffers(), needed, "output", chosen),
        workspace_bytes=workspace_bytes(plan.arena_bytes, threads),
        layers=len(program.calls),
        external_weights=placed.placement == "external",
        weights_bytes=placed.nbytes,
        threads=threads,
    )
    calls = call_views(program, sources, plan, placed, api, provenance)
    vectors = place_vectors(api, goldens)
    facts = PackageFacts(
        api=api,
        program=program,
        plan=plan,
        target=target,
        flags=split_flags(target),
        cpu=target.instruction_set.cpu_checks(target.cpu_checks),
        slots=arena_slots(program, plan, sources),
        calls=ask_while_waiting(calls, placed, target.l2_bytes),
        kernels=kernel_views(program, sources, provenance, Counter(call.kernel for call in program.calls)),
        weights=placed,
        vectors=vectors,
        goldens=len(goldens),
        reference=reference,
        preamble=preamble,
        model_file=Path(model_file).name,
        model_name=program.name,
        version=VERSION,
        generator=__version__,
        size=static_size(program, plan, placed),
        files=core_files(api, placed, vectors, image),
        image=image,
    )
    with staged(out_dir) as stage, tempfile.TemporaryDirectory(prefix="edgetune-size-") as objects:
        code = _write(stage, facts, Path(objects) if measure else None)
        _check_flash(facts, code, flash_limit)
        if check is not None:
            check(stage, Path(objects))
    warnings = _stack_warnings(code)
    for message in warnings:
        if on_event is not None:
            on_event(Event("warning", {"message": message}))
    return PackageSummary(out_dir, prefix, facts.size, code, warnings)


def _check(
    program: Program,
    sources: Sequence[KernelSource],
    provenance: Sequence[KernelProvenance],
    plan: MemoryPlan,
    prefix: str,
) -> None:
    if not len(program.kernels) == len(sources) == len(provenance):
        raise KernelFailed(
            f"the model has {len(program.kernels)} kernels, but {len(sources)} were printed "
            f"and {len(provenance)} explained"
        )
    for source in sources:
        if not source.symbol.startswith(f"{prefix}_"):
            raise KernelFailed(f"kernel symbol {source.symbol} does not start with the package's prefix {prefix}_")
    places = (*plan.offsets.values(), *plan.scratch_offsets.values())
    if any(offset % ARENA_ALIGNMENT for offset in places):
        raise KernelFailed(f"the memory plan has an offset that is no multiple of {ARENA_ALIGNMENT}")


def _write(stage: Path, facts: PackageFacts, objects: Path | None) -> CodeSize | None:
    """Write all files; with a folder `objects`, compile into it to measure the code size."""
    p = facts.api.prefix
    context = template_context(facts)
    build_files = (
        PackageFile("Makefile", "make/Makefile.j2"),
        PackageFile("CMakeLists.txt", "cmake/CMakeLists.txt.j2"),
        PackageFile(f"{p}.pc.in", "make/package.pc.in.j2"),
    )
    write_files(stage, (*facts.files, *build_files), context)
    code = None if objects is None else measure_code(stage, p, facts.target, objects, threads=facts.api.threads)
    write_files(stage, (PackageFile("REPORT.md", "core/REPORT.md.j2", {"code": code}),), context)
    write_manifest(stage, manifest_facts(facts, code))
    return code


def _check_flash(facts: PackageFacts, code: CodeSize | None, limit: int | None) -> None:
    if limit is None or code is None or facts.weights.nbytes + code.code_bytes <= limit:
        return
    total = facts.weights.nbytes + code.code_bytes
    raise MemoryLimitExceeded(
        f"{facts.model_name} needs {total} bytes of flash ({facts.weights.nbytes} of weights, {code.code_bytes} of "
        f"code by {code.compiler}), and the limit is {limit}: raise memory.flash or use a smaller model"
    )


def _stack_warnings(code: CodeSize | None) -> tuple[str, ...]:
    if code is None:
        return ()
    return tuple(
        f"{function.name} takes {function.stack_bytes:,} bytes of stack, more than {STACK_LIMIT_BYTES:,}"
        for function in code.functions
        if function.stack_bytes > STACK_LIMIT_BYTES
    )
