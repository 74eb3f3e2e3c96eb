"""Link: builds a package from a program and one schedule per kernel: replay, print, pack weights, plan memory, emit."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np

from edgetune.backends.printed import Printed, PrintedKernels
from edgetune.errors import MemoryLimitExceeded, UsageError
from edgetune.graph.memory.cache_model import Caches
from edgetune.graph.memory.core_affinity import with_core_affinity
from edgetune.graph.memory.plan import MemoryPlan, plan
from edgetune.graph.memory.regions import plan_in_regions
from edgetune.graph.places_of_tensors import layer_in_words, tensor_in_words
from edgetune.graph.program import Program
from edgetune.graph.states import with_states_overwritten
from edgetune.package.content import PackageContent
from edgetune.package.emit import Check, OnEvent, PackageSummary, emit_package
from edgetune.package.golden import GoldenCases
from edgetune.package.ident import package_prefix
from edgetune.package.inputs import CompiledModel, Device, PackageOptions
from edgetune.package.interface import workspace_bytes
from edgetune.package.provenance import KernelProvenance
from edgetune.pipeline.backends import backend_of
from edgetune.registry import require_members
from edgetune.target.board_kind import BoardKind
from edgetune.target.target import with_cpu

_LARGEST_SHOWN = 3


@dataclass(frozen=True)
class Choice:
    """The schedule of one kernel, as text that names algorithm and trace, and its provenance."""

    trace: str
    provenance: KernelProvenance


def print_kernels(
    program: Program, choices: Sequence[Choice], target: BoardKind, prefix: str, events: OnEvent, threads: int = 1
) -> PrintedKernels:
    """The text of every kernel of `program` under `choices`, in order; raises what the backend raises."""
    texts = [choice.trace for choice in choices]
    return backend_of(target).print_kernels(program, texts, target, prefix, events, threads)


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
    target, threads, backend = device.target, device.threads, backend_of(device.target)
    require_members(f"content of packages of the backend '{target.backend}'", backend.content, PackageContent)
    prefix = package_prefix(options.name or program.name)
    all_printed = print_kernels(program, choices, target, prefix, events, threads)
    printed = all_printed.kernels
    scratch = {i: p.source.scratch_bytes for i, p in enumerate(printed)}
    program, over = with_states_overwritten(program, all_printed.in_place)
    memory = plan_memory(program, scratch, over, device)
    packed = pack_constants(program, printed)
    check_limits(program, memory, packed, device)
    if threads > 1:
        workers = [p.source.workers for p in printed]
        caches = Caches(threads, with_cpu(target).l2_bytes)
        memory = with_core_affinity(memory, program, scratch, workers, caches)
    preamble = frozenset().union(*(p.source.preamble for p in printed))
    model = CompiledModel(
        program,
        [p.source for p in printed],
        [choice.provenance for choice in choices],
        memory,
        packed,
        backend.preamble(preamble, target, prefix),
        backend.program_image(prefix, target),
        backend.content,
    )
    return emit_package(model, golden, device, options, out, on_event=events, check=check)


def arena_bytes(program: Program, choices: Sequence[Choice], target: BoardKind, threads: int = 1) -> int:
    """Bytes of the arena of a package of `program` under `choices`, in one region; raises what the backend raises."""
    printed = print_kernels(program, choices, target, package_prefix(program.name), lambda _: None, threads)
    scratch = {i: p.source.scratch_bytes for i, p in enumerate(printed.kernels)}
    program, over = with_states_overwritten(program, printed.in_place)
    return min(plan(program, scratch, way).arena_bytes for way in _ways(over))


def plan_memory(program: Program, scratch: Mapping[int, int], over: Mapping[int, int], device: Device) -> MemoryPlan:
    """The plan of tensors and scratch, of which tensors `over` may be written over their operand.

    Raises MemoryLimitExceeded where they do not fit the regions of `device`, and UsageError for threads in them.
    """
    if not device.regions:
        return min((plan(program, scratch, way) for way in _ways(over)), key=lambda one: one.arena_bytes)
    if device.threads > 1:
        raise UsageError(
            f"target '{device.target.name}' names regions of RAM, in which a package runs on one thread: build it with "
            "`--threads 1`"
        )
    states = sum(state.nbytes for state in program.states)
    most = inf if device.ram is None else device.ram - states
    return plan_in_regions(program, scratch, device.regions, _ways(over), most)


def _ways(over: Mapping[int, int]) -> Sequence[Mapping[int, int]]:
    """What may be written in place. Placement is a heuristic: in rare cases, tensors that share memory need more."""
    return (over, {}) if over else ({},)


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
    states = sum(state.nbytes for state in program.states)
    if device.ram is not None and needed + states > device.ram:
        live = [program.buffers[i] for i in (*memory.offsets, *(state.buffer for state in program.states))]
        largest = sorted(live, key=lambda b: (-b.nbytes, b.id))[:_LARGEST_SHOWN]
        shown = ", ".join(f"{tensor_in_words(program, b.id)} of {b.nbytes} bytes" for b in largest)
        why = f"the largest tensors are {shown}" if live else "all of it is scratch memory of its kernels"
        arena = "an arena" if len(memory.arenas) <= 1 else f"{len(memory.arenas)} arenas"
        room = f"{arena} of {needed} bytes" if threads == 1 else f"{needed} bytes for its arena and {threads} threads"
        room += f" and {states} bytes for its states" if states else ""
        raise MemoryLimitExceeded(
            f"{program.name} needs {room}, and the limit is {device.ram} bytes, "
            f"{needed + states - device.ram} too few; {why}: {device.remedy('ram')}",
            ("ram", needed + states - device.ram),
        )
    weights = {
        (c, p): program.constants[place.buffer]
        for c, call in enumerate(program.calls)
        for p, place in call.places
        if place.buffer in program.constants
    }
    weights |= dict(packed)
    total = sum({hashlib.sha256(a.tobytes()).digest(): a.nbytes for a in weights.values()}.values())
    if device.flash is not None and total > device.flash:
        largest_weights = sorted(weights.items(), key=lambda item: -item[1].nbytes)[:_LARGEST_SHOWN]
        shown = ", ".join(
            f"parameter {p} of {layer_in_words(program, c)} with {a.nbytes} bytes" for (c, p), a in largest_weights
        )
        raise MemoryLimitExceeded(
            f"the weights of {program.name} take {total} bytes, and the limit is {device.flash} bytes, "
            f"{total - device.flash} too few; the largest are {shown}: {device.remedy('flash')}",
            ("flash", total - device.flash),
        )
