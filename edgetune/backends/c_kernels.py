"""Kernels in C: prints all kernels of a program, on one thread or several, and says which may work in place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from edgetune.backends.printed import Printed, PrintedKernels
from edgetune.codegen.emit import emit_kernel
from edgetune.codegen.in_place import replaceable
from edgetune.codegen.kernel_source import KernelSource
from edgetune.codegen.lower import flat
from edgetune.codegen.package_names import with_prefix
from edgetune.codegen.parallel_kernel import Sharing, emit_shared_kernel
from edgetune.codegen.parallel_time import least_steps
from edgetune.errors import UnsupportedOperator
from edgetune.events import Event
from edgetune.graph.memory.in_place import in_place_outputs, with_lower_peak
from edgetune.graph.memory.plan import scratch_limits
from edgetune.graph.program import Program
from edgetune.graph.states import states_in_place
from edgetune.graph.tvm_errors import kernel_named
from edgetune.package.ident import kernel_symbol
from edgetune.schedule.algorithms.apply import Scheduled, apply_schedule
from edgetune.schedule.default_schedule import default_trace
from edgetune.schedule.sketches.limits import FREE_SCRATCH
from edgetune.target.dialect import Dialect
from edgetune.target.target import Target

OnEvent = Callable[[Event], None]


def print_c_kernels(
    program: Program, texts: Sequence[str], target: Target, prefix: str, events: OnEvent, threads: int, dialect: Dialect
) -> PrintedKernels:
    """The C text of every kernel of `program` under the schedules `texts` for `threads` threads, in order.

    Raises KernelFailed, and UnsupportedOperator for a type that the backend's dialect of C lacks.
    A kernel stays on one thread, with a warning, when all threads together need more scratch than the memory plan has.
    """
    sharing = Sharing(prefix, threads, least_steps(target, threads))
    limits = scratch_limits(program, threads) if threads > 1 else {}
    printed = []
    schedules = _applied(program, texts)
    in_place = _in_place(program, schedules)
    shared = _shared(program, in_place)
    for number, (kernel, scheduled) in enumerate(zip(program.kernels, schedules, strict=True)):
        symbol = kernel_symbol(prefix, kernel.name)
        with kernel_named(program, number):
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
        printed.append(Printed(named, scheduled.constants_of(named)))
    return PrintedKernels(tuple(printed), in_place)


def _applied(program: Program, texts: Iterable[str]) -> list[Scheduled]:
    schedules = []
    for number, (kernel, text) in enumerate(zip(program.kernels, texts, strict=True)):
        with kernel_named(program, number):
            schedules.append(apply_schedule(kernel.function, text))
    return schedules


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
    return _in_place(program, _applied(program, texts))


def _in_place(program: Program, schedules: Sequence[Scheduled]) -> dict[int, int]:
    """Elements are overwritten wherever that is possible, also those of states; rows where it lowers the memory's peak.

    A kernel that may overwrite rows has no `restrict`, so its loads stay behind its stores.
    """
    elements, rows = {}, {}
    for number, (kernel, scheduled) in enumerate(zip(program.kernels, schedules, strict=True)):
        if any(param.role == "input" and param.shape == kernel.params[-1].shape for param in kernel.params):
            with kernel_named(program, number):
                function = flat(scheduled.module)
                elements[number] = replaceable(function, by_rows=False)
                rows[number] = replaceable(function)
    chosen = with_lower_peak(program, in_place_outputs(program, elements), in_place_outputs(program, rows))
    return {**chosen, **states_in_place(program, elements)}


def _shared(program: Program, in_place: Mapping[int, int]) -> dict[int, set[int]]:
    """By kernel, numbers of parameters that alias in some call: an operand and the output that overwrites it."""
    found: dict[int, set[int]] = {}
    for call in program.calls:
        params = program.kernels[call.kernel].params
        for number, output in enumerate(call.arguments):
            if params[number].role == "output" and in_place.get(output) in call.arguments:
                found.setdefault(call.kernel, set()).update((call.arguments.index(in_place[output]), number))
    return found
