"""Package emission: renders all files of a package from plain data and renames the complete folder into place."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetune._version import __version__
from edgetune.errors import KernelFailed, MemoryLimitExceeded
from edgetune.events import Event
from edgetune.graph.float_products import products_of
from edgetune.graph.loops import stages, times_called
from edgetune.graph.memory.live_ranges import ARENA_ALIGNMENT
from edgetune.graph.program import Call, Program
from edgetune.package.calls import arena_slots, call_views, kernel_views, prefetch_while_waiting, written_places
from edgetune.package.constants import place_weights
from edgetune.package.counted_run import CountedRun
from edgetune.package.facts import PackageFacts, manifest_facts, template_context
from edgetune.package.flavour import REPORT, Flavour, flavour_files
from edgetune.package.golden import GoldenCases
from edgetune.package.ident import package_prefix
from edgetune.package.inputs import CompiledModel, Device, PackageOptions
from edgetune.package.interface import Interface, alignments, public_tensors
from edgetune.package.loop_views import layer_views, loop_views
from edgetune.package.manifest import write_manifest
from edgetune.package.output_folder import staged
from edgetune.package.package_file import PackageFile, write_files
from edgetune.package.size import CodeSize, StaticSize, static_size
from edgetune.package.slow_kernels import slow_warnings
from edgetune.package.states import kept_states
from edgetune.package.vectors import place_vectors
from edgetune.package.workspaces import workspaces_of
from edgetune.target.target import STACK_LIMIT_BYTES, Target, with_cpu

OnEvent = Callable[[Event], None]
Check = Callable[[Path, Path], CountedRun | None]
"""Checks a package before it is in its place; gets its folder and a folder with objects compiled from it.

Returns what an emulator counts of a run, None where nothing does.
"""

_README = "README.md"
_REPORT = PackageFile(REPORT, "core/REPORT.md.j2")


@dataclass(frozen=True)
class PackageSummary:
    """The written package: folder, C prefix and sizes (bytes); `code` is None without a compiler."""

    folder: Path
    prefix: str
    size: StaticSize
    code: CodeSize | None
    warnings: tuple[str, ...]


def emit_package(
    model: CompiledModel,
    golden: GoldenCases,
    device: Device,
    options: PackageOptions,
    out_dir: Path,
    *,
    on_event: OnEvent | None = None,
    check: Check | None = None,
) -> PackageSummary:
    """Write the package of `model` for `device` to `out_dir`, replacing an earlier package there.

    `check` may reject the package by raising, before it replaces another.

    The bytes depend only on the arguments, and, with `measure`, on the compiler: not on time, folder or locale. What
    `check` returns is in the README, the report and the manifest, so there they depend on whether an emulator is there.
    Raises OutputRefused, DiskFull, KernelFailed, WrongResult (golden does not fit), CompileFailed and
    MemoryLimitExceeded, and what `check` raises; after any error, nothing is left behind.
    """
    facts = _facts(model, golden, device, options)
    with staged(out_dir) as stage, tempfile.TemporaryDirectory(prefix="edgetune-size-") as objects:
        code = _write(stage, facts, options.flavours, Path(objects) if options.measure else None)
        _check_flash(facts, code, device)
        if check is not None and (counted := check(stage, Path(objects))) is not None:
            _write_counts(stage, facts, options.flavours, code, counted)
    tuned_by = facts.content.tuned_by(facts.target)
    warnings = (
        *_float_warnings(facts),
        *_stack_warnings(code),
        *_spill_warnings(code),
        *slow_warnings(facts.kernels, tuned_by),
    )
    for message in warnings:
        if on_event is not None:
            on_event(Event("warning", {"message": message}))
    return PackageSummary(out_dir, facts.api.prefix, facts.size, code, warnings)


def _facts(model: CompiledModel, golden: GoldenCases, device: Device, options: PackageOptions) -> PackageFacts:
    program, sources, plan, target = model.program, model.sources, model.plan, device.target
    prefix = package_prefix(options.name or program.name)
    _check(model, prefix)
    content = model.content
    weights = place_weights(program, model.packed, content.placement(options.weights))
    needed = alignments(program, sources)
    workspace_bytes = content.workspace_bytes(program, plan, weights, device.threads)
    api = Interface(
        prefix=prefix,
        inputs=public_tensors(program.inputs, program.input_buffers(), needed, "input", golden.tolerances, plan),
        outputs=public_tensors(program.outputs, program.output_buffers(), needed, "output", golden.tolerances, plan),
        workspace_bytes=workspace_bytes,
        layers=len(stages(program)),
        external_weights=weights.placement == "external",
        weights_bytes=weights.nbytes,
        threads=device.threads,
        states=kept_states(program),
        stream=options.stream,
        io=program.io,
        workspaces=workspaces_of(
            plan, workspace_bytes, prefix, target.memory_map if isinstance(target, Target) else None
        ),
    )
    calls = call_views(program, sources, plan, weights, api, model.provenance)
    if device.threads > 1:
        calls = prefetch_while_waiting(program, calls, weights, with_cpu(target).l2_bytes)
    vectors = place_vectors(api, golden.cases)
    return PackageFacts(
        api=api,
        program=program,
        plan=plan,
        target=target,
        content=content,
        flags=content.flags(target),
        cpu=content.cpu(target),
        slots=arena_slots(program, plan, sources, api),
        calls=layer_views(program, calls, written_places(program, plan, api), api),
        loops=loop_views(program, calls, prefix),
        kernels=kernel_views(program, sources, model.provenance, _times_called(program)),
        weights=weights,
        vectors=vectors,
        goldens=len(golden.cases),
        resets=tuple(number for number, case in enumerate(golden.cases) if not case.goes_on),
        reference=golden.reference,
        preamble=model.preamble,
        model_file=Path(options.model_file).name,
        model_name=program.name,
        version=options.version,
        generator=__version__,
        size=static_size(program, plan, weights),
        files=content.files(api, weights, vectors, model.image),
        image=model.image,
    )


def _times_called(program: Program) -> Counter[int]:
    """How often each kernel, by its number, runs."""
    times: Counter[int] = Counter()
    for number, call in enumerate(program.calls):
        times[call.kernel] += times_called(program, number)
    return times


def _check(model: CompiledModel, prefix: str) -> None:
    kernels, printed, explained = len(model.program.kernels), len(model.sources), len(model.provenance)
    if not kernels == printed == explained:
        raise KernelFailed(f"the model has {kernels} kernels, but {printed} were printed and {explained} explained")
    program = model.program
    written = {place.buffer for call in program.calls for n, place in call.places if _writes(program, call, n)}
    for spec, buffer in zip(program.outputs, program.output_buffers(), strict=True):
        if buffer.id not in written:
            raise KernelFailed(f"no layer writes the output '{spec.name}': report this, with the model")
    for source in model.sources:
        if not source.symbol.startswith(f"{prefix}_"):
            raise KernelFailed(f"kernel symbol {source.symbol} does not start with the package's prefix {prefix}_")
    places = (*model.plan.offsets.values(), *model.plan.scratch_offsets.values())
    if any(offset % ARENA_ALIGNMENT for offset in places):
        raise KernelFailed(f"the memory plan has an offset that is not a multiple of {ARENA_ALIGNMENT}")


def _writes(program: Program, call: Call, parameter: int) -> bool:
    return program.kernels[call.kernel].params[parameter].role == "output"


def _write(stage: Path, facts: PackageFacts, flavours: Sequence[Flavour], objects: Path | None) -> CodeSize | None:
    """Write all files; with a folder `objects`, compile into it to measure the code size and the stack.

    Templates of the report and of what test programs are linked with get the result as `code`.
    """
    context = _context(facts, flavours)
    write_files(stage, (file for file in _files(facts, flavours) if file not in facts.image.files), context)
    code = None
    if objects is not None:
        code = facts.content.code_size(stage, facts.api.prefix, facts.target, objects, facts.code_sources())
    write_files(stage, (*facts.image.files, _REPORT), {**context, "code": code})
    write_manifest(stage, manifest_facts(facts, code))
    return code


def _write_counts(
    stage: Path, facts: PackageFacts, flavours: Sequence[Flavour], code: CodeSize | None, counted: CountedRun
) -> None:
    """Write again what says how long a run takes: the README, the report and the manifest."""
    context = {**_context(facts, flavours), "code": code, "counted": counted}
    write_files(stage, (*(file for file in facts.files if file.path == _README), _REPORT), context)
    write_manifest(stage, manifest_facts(facts, code) | {"counted": counted.to_json()})


def _files(facts: PackageFacts, flavours: Sequence[Flavour]) -> tuple[PackageFile, ...]:
    return (*facts.files, *flavour_files(flavours, facts))


def _context(facts: PackageFacts, flavours: Sequence[Flavour]) -> dict[str, object]:
    paths = frozenset(file.path for file in _files(facts, flavours))
    return {**template_context(facts), "paths": paths, "counted": None}


def _check_flash(facts: PackageFacts, code: CodeSize | None, device: Device) -> None:
    limit = device.flash
    if limit is None or code is None or facts.weights.nbytes + code.code_bytes <= limit:
        return
    total = facts.weights.nbytes + code.code_bytes
    raise MemoryLimitExceeded(
        f"{facts.model_name} needs {total} bytes of flash ({facts.weights.nbytes} of weights, {code.code_bytes} of "
        f"code by {code.compiler}), and the limit is {limit} bytes, {total - limit} too few: {device.remedy('flash')}",
        ("flash", total - limit),
    )


def _float_warnings(facts: PackageFacts) -> tuple[str, ...]:
    """Products of floats on a core without FPU take dozens of instructions each."""
    if facts.target.has_fpu or not products_of(facts.program).floats:
        return ()
    message = (
        f"{facts.target.name} has no FPU, so functions of the compiler's library multiply and add the floats of "
        f"{facts.model_name}: the model quantised to int8 takes far fewer instructions"
    )
    return (message,)


def _stack_warnings(code: CodeSize | None) -> tuple[str, ...]:
    if code is None:
        return ()
    return tuple(
        f"{function.name} takes {function.stack_bytes:,} bytes of stack, more than {STACK_LIMIT_BYTES:,}"
        for function in code.functions
        if function.stack_bytes > STACK_LIMIT_BYTES
    )


def _spill_warnings(code: CodeSize | None) -> tuple[str, ...]:
    if code is None:
        return ()
    return tuple(
        f"{kernel.name} keeps {kernel.slow_bytes:,} bytes of each thread in device memory ({code.compiler}): no "
        "schedule that was tried fits its registers, and `edgetune tune --via bundle` may find one that does"
        for kernel in code.kernels
        if kernel.slow_bytes
    )
