"""Link: builds a package from a program and one schedule per kernel: replay, print, pack weights, plan memory, emit."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from edgetune.codegen.emit import emit_kernel
from edgetune.codegen.in_place import replaceable
from edgetune.codegen.kernel_source import KernelSource
from edgetune.codegen.lower import flat
from edgetune.codegen.package_names import with_prefix
from edgetune.codegen.parallel_kernel import Sharing, emit_shared_kernel
from edgetune.codegen.parallel_time import least_steps
from edgetune.codegen.preamble import render_preamble
from edgetune.errors import MemoryLimitExceeded, UnsupportedOperator
from edgetune.events import Event
from edgetune.graph.memory.cache_model import Caches
from edgetune.graph.memory.core_affinity import with_core_affinity
from edgetune.graph.memory.in_place import in_place_outputs
from edgetune.graph.memory.plan import MemoryPlan, plan, scratch_limits
from edgetune.graph.program import Program
from edgetune.package.emit import Check, OnEvent, PackageSummary, emit_package
from edgetune.package.golden import GoldenCases
from edgetune.package.ident import kernel_symbol, package_prefix
from edgetune.package.inputs import CompiledModel, Device, PackageOptions
from edgetune.package.interface import workspace_bytes
from edgetune.package.provenance import KernelProvenance
from edgetune.pipeline.backends import backend_of
from edgetune.schedule.algorithms.algorithm import ConstantTransform
from edgetune.schedule.algorithms.apply import Scheduled, apply_schedule
from edgetune.schedule.default_schedule import default_trace
from edgetune.schedule.sketches.limits import FREE_SCRATCH
from edgetune.target.dialect import Dialect
from edgetune.target.target import Target

_LARGEST_SHOWN = 3


@dataclass(frozen=True)
class Choice:
    """The schedule of one kernel, as text that names algorithm and trace, and its provenance."""

    trace: str
    provenance: KernelProvenance


@dataclass(frozen=True)
class Printed:
    """One kernel as C text, and the packing of its constants, by parameter index."""

    source: KernelSource
    packing: Mapping[int, ConstantTransform]


@dataclass(frozen=True)
class PrintedKernels:
    """All kernels of a program, in order, and the tensors that may be written `in_place` (see `in_place_outputs`)."""

    kernels: tuple[Printed, ...]
    in_place: Mapping[int, int]


def print_kernels(
    program: Program, choices: Sequence[Choice], target: Target, prefix: str, events: OnEvent, threads: int = 1
) -> PrintedKernels:
    """The C text of every kernel of `program` under `choices` for `threads` threads, in order.

    Raises KernelFailed, and UnsupportedOperator for a type that the backend's dialect of C lacks.
    A kernel stays on one thread, with a warning, when all threads together need more scratch than the memory plan has.
    """
    sharing = Sharing(prefix, threads, least_steps(target, threads))
    limits = scratch_limits(program, threads) if threads > 1 else {}
    dialect = backend_of(target).dialect
    printed = []
    schedules = [
        apply_schedule(kernel.function, choice.trace) for kernel, choice in zip(program.kernels, choices, strict=True)
    ]
    in_place = _in_place(program, schedules)
    shared = _shared(program, in_place)
    for number, (kernel, scheduled) in enumerate(zip(program.kernels, schedules, strict=True)):
        symbol = kernel_symbol(prefix, kernel.name)
        source = emit_shared_kernel(scheduled.module, target, symbol, sharing, shared.get(number, ()))
        limit = max(limits.get(number, 0), threads * FREE_SCRATCH)
        if source.workers > 1 and source.scratch_bytes > limit:
            message = (
                f"{kernel.name} stays on one thread: {threads} would need {source.scratch_bytes} bytes of scratch, "
                f"and the memory plan has {limit}"
            )
            events(Event("warning", {"message": message}))
            source = emit_kernel(scheduled.module, target, symbol, shared.get(number, ()))
        _require_types(dialect, source, kernel.name, target)
        named = replace(source, definition=with_prefix(source.definition, prefix))
        printed.append(Printed(named, scheduled.constants))
    return PrintedKernels(tuple(printed), in_place)


def _require_types(dialect: Dialect, source: KernelSource, kernel: str, target: Target) -> None:
    """Raises UnsupportedOperator where the kernel computes in a type that the target's dialect of C lacks."""
    if (lacking := dialect.lacking(source.definition)) is not None:
        raise UnsupportedOperator(
            f"kernel {kernel} computes in {lacking}, which board '{target.name}' lacks ({dialect.name}): export the "
            "model with a narrower type"
        )


def written_over_at_best(program: Program, target: Target) -> dict[int, int]:
    """Tensors that can be written in place (see `in_place_outputs`) where every kernel uses its direct algorithm."""
    texts = (default_trace(kernel.function, target)[0] for kernel in program.kernels)
    return _in_place(
        program, [apply_schedule(k.function, text) for k, text in zip(program.kernels, texts, strict=True)]
    )


def _in_place(program: Program, schedules: Sequence[Scheduled]) -> dict[int, int]:
    able = {
        number: replaceable(flat(scheduled.module))
        for number, (kernel, scheduled) in enumerate(zip(program.kernels, schedules, strict=True))
        if any(param.role == "input" and param.shape == kernel.params[-1].shape for param in kernel.params)
    }
    return in_place_outputs(program, able)


def _shared(program: Program, in_place: Mapping[int, int]) -> dict[int, set[int]]:
    """By kernel, numbers of parameters that alias in some call: an operand and the output that overwrites it."""
    found: dict[int, set[int]] = {}
    for call in program.calls:
        for number, output in enumerate(call.arguments):
            if in_place.get(output) in call.arguments:
                found.setdefault(call.kernel, set()).update((call.arguments.index(in_place[output]), number))
    return found


def assemble(
    program: Program,
    choices: Sequence[Choice],
    golden: GoldenCases,
    device: Device,
    options: PackageOptions,
    out: Path,
    events: OnEvent,
    check: Check | None = None,
) -> PackageSummary:
    """Writes the package of `program` for `device` to `out`.

    `check` tests the package before it replaces another. Raises what `emit_package` raises, KernelFailed, and
    MemoryLimitExceeded when the arena, the weights, or the weights and the code together (known after compilation) do
    not fit `device`; then nothing is written.
    """
    target, threads = device.target, device.threads
    prefix = package_prefix(options.name or program.name)
    all_printed = print_kernels(program, choices, target, prefix, events, threads)
    printed = all_printed.kernels
    scratch = {i: p.source.scratch_bytes for i, p in enumerate(printed)}
    # Placement is a heuristic: in rare cases, tensors that share memory need more of it.
    plans = (plan(program, scratch, in_place) for in_place in (all_printed.in_place, {}))
    memory = min(plans, key=lambda one: one.arena_bytes)
    packed = pack_constants(program, printed)
    check_limits(program, memory, packed, device)
    if threads > 1:
        workers = [p.source.workers for p in printed]
        memory = with_core_affinity(memory, program, scratch, workers, Caches(threads, target.l2_bytes))
    preamble = frozenset().union(*(p.source.preamble for p in printed))
    model = CompiledModel(
        program,
        [p.source for p in printed],
        [choice.provenance for choice in choices],
        memory,
        packed,
        render_preamble(preamble, target, prefix),
        backend_of(target).program_image(prefix, target),
    )
    return emit_package(model, golden, device, options, out, on_event=events, check=check)


def pack_constants(program: Program, printed: Sequence[Printed]) -> dict[tuple[int, int], np.ndarray]:
    """Constants in the layout that their kernel reads, by (call, parameter) index, where it is not the plain layout."""
    return {
        (i, parameter): layout.apply(program.constants[call.arguments[parameter]])
        for i, call in enumerate(program.calls)
        for parameter, layout in printed[call.kernel].packing.items()
    }


def check_limits(
    program: Program,
    memory: MemoryPlan,
    packed: Mapping[tuple[int, int], np.ndarray],
    device: Device,
) -> None:
    """Raises MemoryLimitExceeded, naming the largest tensors, when RAM or flash of `device` do not suffice."""
    threads = device.threads
    needed = memory.arena_bytes if threads == 1 else workspace_bytes(memory.arena_bytes, threads)
    if device.ram is not None and needed > device.ram:
        live = [program.buffers[i] for i in memory.offsets]
        largest = sorted(live, key=lambda b: (-b.nbytes, b.id))[:_LARGEST_SHOWN]
        shown = ", ".join(f"{b.name} {'x'.join(map(str, b.shape))} of {b.nbytes} bytes" for b in largest)
        why = f"the largest tensors are {shown}" if live else "all of it is scratch memory of its kernels"
        room = f"an arena of {needed} bytes" if threads == 1 else f"{needed} bytes for its arena and {threads} threads"
        raise MemoryLimitExceeded(
            f"{program.name} needs {room}, and the limit is {device.ram}; "
            f"{why}: raise memory.ram or use a smaller model"
        )
    weights = {
        (c, p): program.constants[a]
        for c, call in enumerate(program.calls)
        for p, a in enumerate(call.arguments)
        if a in program.constants
    }
    weights |= dict(packed)
    total = sum({hashlib.sha256(a.tobytes()).digest(): a.nbytes for a in weights.values()}.values())
    if device.flash is not None and total > device.flash:
        largest_weights = sorted(weights.items(), key=lambda item: -item[1].nbytes)[:_LARGEST_SHOWN]
        shown = ", ".join(
            f"parameter {p} of {program.calls[c].label} with {a.nbytes} bytes" for (c, p), a in largest_weights
        )
        raise MemoryLimitExceeded(
            f"the weights of {program.name} take {total} bytes, and the limit is {device.flash}; "
            f"the largest are {shown}: raise memory.flash or use a smaller model"
        )
