"""Template views: calls, kernels and arena slots in the form that the templates print.

Also selects what threads prefetch while they wait for the others at the end of a loop: weights of the next shared call.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod
from operator import itemgetter

import numpy as np

from edgetune.codegen.kernel_source import KernelSource, Launch
from edgetune.errors import KernelFailed
from edgetune.graph.loops import loops_around, stage_of_each_call, stages, written_by
from edgetune.graph.memory.plan import MemoryPlan
from edgetune.graph.parts import BufferPart, Part
from edgetune.graph.program import BufferKind, Kernel, Param, Program
from edgetune.package import ctext
from edgetune.package.arguments import Arguments
from edgetune.package.constants import Weights
from edgetune.package.interface import Interface
from edgetune.package.provenance import KernelProvenance, amount

_SPANS: Mapping[BufferKind, str] = {"input": "up to {1}", "output": "from {0} on"}
"""The layers that a tensor of the interface is there for, from the first and the last layer that use it."""

_UNTYPED = ("ARENA(", "WEIGHT(", "(void *)", "(const void *)")
"""How an argument begins that is a `void *`."""


@dataclass(frozen=True)
class Slot:
    """A range of the arena: a tensor, or the scratch of a call; `first` and `last` are the calls that use it.

    `macro` is its offset's name without the prefix of the package. `over` is that of the operand that the call `first`
    overwrites with it. `public` is the name that the header has for the offset: of an input, which is there from the
    start, or of an output, which stays there to the end. `workspace` is the number of the one that it lies in.
    """

    macro: str
    offset: int
    nbytes: int
    first: int
    last: int
    label: str
    shape: tuple[int, ...]
    dtype: str
    over: str = ""
    public: str = ""
    kind: BufferKind = "intermediate"
    workspace: int = 0

    @property
    def span(self) -> str:
        """The layers that it is there for."""
        return _SPANS.get(self.kind, "{0} to {1}").format(self.first, self.last)


@dataclass(frozen=True)
class WrittenPlace:
    """Where a call writes an output: `nbytes` bytes from `offset` on, in the workspace or a tensor of the interface.

    `tensor` is the field of that tensor, empty for the workspace and for what an instance keeps (`in_state`). `nbytes`
    includes gaps that the call does not touch, except a gap at the end. With `row_bytes`,
    it writes only so many of them. `workspace` is the field of that workspace where there are several.
    """

    tensor: str
    offset: int
    nbytes: int
    in_state: bool = False
    row_bytes: int = 0
    workspace: str = ""

    def to_json(self) -> dict[str, object]:
        """Plain JSON values."""
        plain = {"tensor": self.tensor, "offset": self.offset, "bytes": self.nbytes}
        where = {"workspace": self.workspace} if self.workspace else {}
        row = {"row_bytes": self.row_bytes} if self.row_bytes else {}
        return {**plain, "in_state": True, **row} if self.in_state else plain | where


@dataclass(frozen=True)
class CallView:
    """One call: C symbol and argument expressions; `shape` is that of its first output, times are microseconds.

    A layer that is a loop is the call of its function: `steps` is how often it runs its `parts`, which are calls and
    how often each runs. `nbytes` counts all tensors that it reads or writes, including weights and
    scratch. `ahead` is pointer and size of the weights that threads prefetch while they wait at the ends of its loops;
    empty where they prefetch none. `types` are those of the parameters, `written` is where each output lies.
    """

    symbol: str
    arguments: tuple[str, ...]
    label: str
    kernel: str
    shape: tuple[int, ...]
    macs: int
    nbytes: int
    provenance: KernelProvenance
    workers: int
    ahead: str = ""
    types: tuple[str, ...] = ()
    written: tuple[WrittenPlace, ...] = ()
    steps: int = 1
    parts: tuple[tuple[CallView, int], ...] = ()

    @property
    def is_loop(self) -> bool:
        """What tells it from a loop within a loop, in a template."""
        return False

    def of_a_step(self) -> str:
        """What one step of a loop takes, as text; "-" where nothing was measured."""
        cost = self.provenance.cost
        return amount(self.provenance.clock, None if cost is None else cost / self.steps)

    @property
    def typed_arguments(self) -> tuple[str, ...]:
        """The arguments as C++ wants them: what is `void *` in C is cast to the parameter's type."""
        pairs = zip(self.types, self.arguments, strict=True)
        return tuple(f"({of}){text}" if text.startswith(_UNTYPED) else text for of, text in pairs)


@dataclass(frozen=True)
class KernelView:
    """One kernel function with the contents of the comment above it.

    `memory` has the bytes of its tensors and its scratch, `elements` those of one element of each tensor. `floats`
    tells whether it computes floats.
    """

    symbol: str
    name: str
    prototype: str
    definition: str
    sources: tuple[str, ...]
    tensors: str
    provenance: KernelProvenance
    time: str
    macs: int
    work: str
    calls: int
    workers: int
    floats: bool
    launches: tuple[Launch, ...] = ()
    parameters: tuple[str, ...] = ()
    memory: tuple[int, ...] = ()
    elements: tuple[int, ...] = ()
    scratch_bytes: int = 0

    @property
    def is_scalar(self) -> bool:
        """Whether each of its tensors is one element: it takes no time, whatever its schedule is."""
        return self.memory == self.elements

    @property
    def operators(self) -> list[str]:
        """The operators as lines for a comment; equal ones in a row appear once, with their number."""
        runs = [(name, len(list(run))) for name, run in groupby(self.sources)]
        text = ", ".join(f"{name} ({count} times)" if count > 1 else name for name, count in runs)
        return textwrap.wrap(ctext.comment(text, None), 100, break_long_words=False, break_on_hyphens=False)


def layer_labels(program: Program) -> tuple[str, ...]:
    """Return the labels of the calls: sanitised, not truncated, not empty, and all different."""
    return distinct([call.label for call in program.calls])


def distinct(texts: Sequence[str]) -> tuple[str, ...]:
    """Return labels like `texts`: sanitised, not truncated, not empty, and all different."""
    wanted = [ctext.comment(text, None) or "layer" for text in texts]
    taken = set(wanted)
    seen: set[str] = set()
    labels = []
    for want in wanted:
        label, number = want, 1
        while label in seen or (number > 1 and label in taken):
            number += 1
            label = f"{want} #{number}"
        seen.add(label)
        labels.append(label)
    return tuple(labels)


def arena_slots(
    program: Program, plan: MemoryPlan, sources: Sequence[KernelSource], api: Interface
) -> tuple[Slot, ...]:
    """Return the slots of each workspace in the order in which a run first uses them."""
    buffers = {buffer.id: buffer for buffer in program.buffers}
    public = {tensor.buffer: f"INPUT_{tensor.macro}_OFFSET" for tensor in api.inputs}
    public |= {tensor.buffer: f"OUTPUT_{tensor.macro}_OFFSET" for tensor in api.outputs}
    labels = layer_labels(program)
    layer = stage_of_each_call(program)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, call in enumerate(program.calls):
        for buffer in call.buffers:
            first.setdefault(buffer, number)
            last[buffer] = number
    slots = [
        Slot(
            macro=f"AT_{buffer}",
            offset=offset,
            nbytes=buffers[buffer].nbytes,
            first=layer[first.get(buffer, 0)],
            last=layer[last.get(buffer, 0)],
            label=_slot_label(program, labels, buffer, first.get(buffer, 0)),
            shape=buffers[buffer].shape,
            dtype=buffers[buffer].dtype,
            over=f"AT_{plan.in_place[buffer]}" if buffer in plan.in_place else "",
            public=public.get(buffer, ""),
            kind=buffers[buffer].kind,
            workspace=plan.regions.get(buffer, 0),
        )
        for buffer, offset in plan.offsets.items()
    ]
    for number, offset in plan.scratch_offsets.items():
        nbytes = sources[program.calls[number].kernel].scratch_bytes
        label, at, region = f"scratch of {labels[number]}", layer[number], plan.scratch_regions.get(number, 0)
        slots.append(Slot(f"SCRATCH_{number}", offset, nbytes, at, at, label, (nbytes,), "bytes", workspace=region))
    return tuple(sorted(slots, key=lambda slot: (slot.workspace, slot.first, slot.offset, slot.macro)))


def _slot_label(program: Program, labels: Sequence[str], buffer: int, writer: int) -> str:
    kind = program.buffers[buffer].kind
    if kind != "intermediate":
        return ctext.comment(f"{kind} {program.buffers[buffer].name}", None)
    call = program.calls[writer]
    numbers = [n for n, p in enumerate(program.kernels[call.kernel].params) if p.role == "output"]
    whole = any(call.arguments[n] == buffer and n not in call.parts for n in numbers)
    if buffer in program.moving() and not whole:
        return ctext.comment(program.buffers[buffer].name, None) or "slices of a loop"
    if buffer in program.written_in_parts():
        return f"{ctext.comment(program.buffers[buffer].name, None) or 'concatenation'}, in parts"
    outputs = [call.arguments[number] for number in numbers]
    part = f" output {outputs.index(buffer)}" if len(outputs) > 1 and buffer in outputs else ""
    return f"{labels[writer]}{part}"


def call_views(
    program: Program,
    sources: Sequence[KernelSource],
    plan: MemoryPlan,
    weights: Weights,
    api: Interface,
    provenance: Sequence[KernelProvenance],
) -> tuple[CallView, ...]:
    """Return the calls of a run; raises KernelFailed where kernel, call and plan are inconsistent."""
    shapes = {buffer.id: buffer.shape for buffer in program.buffers}
    labels = layer_labels(program)
    known = Arguments(plan, weights, api)
    views = []
    for number, call in enumerate(program.calls):
        source = sources[call.kernel]
        kernel = program.kernels[call.kernel]
        if len(source.params) != len(call.arguments):
            raise KernelFailed(
                f"kernel {kernel.name} has {len(source.params)} parameters in C "
                f"but call {number} passes {len(call.arguments)}: report this model"
            )
        arguments = [
            known.text(number, position, BufferPart(buffer, call.parts.get(position, Part(0, ()))), param)
            for position, (buffer, param) in enumerate(zip(call.arguments, source.params, strict=True))
        ]
        if source.scratch_bytes:
            if number not in plan.scratch_offsets:
                raise KernelFailed(f"the memory plan has no scratch for call {number} (kernel {kernel.name})")
            arguments.append(api.arena(plan.scratch_regions.get(number, 0), f"SCRATCH_{number}"))
        if source.workers > 1:
            arguments.append("s->pool")
        outputs = [
            call.parts[number].shape if number in call.parts else shapes[buffer]
            for number, (buffer, param) in enumerate(zip(call.arguments, kernel.params, strict=True))
            if param.role == "output"
        ]
        touched = [
            prod(call.parts[number].shape if number in call.parts else param.shape) * param.element_bytes
            for number, param in enumerate(source.params)
        ]
        views.append(
            CallView(
                symbol=source.symbol,
                arguments=tuple(arguments),
                label=labels[number],
                kernel=kernel.name,
                shape=outputs[0] if outputs else (),
                macs=kernel.macs,
                nbytes=source.scratch_bytes + sum(touched),
                provenance=provenance[call.kernel],
                workers=source.workers,
                types=(
                    *(f"{'' if param.writable else 'const '}{param.c_type} *" for param in source.params),
                    *(["unsigned char *"] if source.scratch_bytes else []),
                ),
            )
        )
    return tuple(views)


def written_places(program: Program, plan: MemoryPlan, api: Interface) -> list[tuple[WrittenPlace, ...]]:
    """Where each layer writes what is read after it."""
    fields = {tensor.buffer: tensor.field for tensor in api.outputs if tensor.offset is None}
    starts = dict.fromkeys(fields, 0) | {one.buffer: one.offset for one in api.states}
    states = {one.buffer for one in api.states}
    places = []
    for stage in stages(program):
        found = []
        for one in written_by(program, stage):
            start = starts[one.buffer] if one.buffer in starts else plan.offsets[one.buffer]
            first = start + one.first * np.dtype(one.dtype).itemsize
            row = one.some * np.dtype(one.dtype).itemsize
            inside = one.buffer not in starts and api.regions
            region = api.regions[plan.regions[one.buffer]].field if inside else ""
            found.append(WrittenPlace(fields.get(one.buffer, ""), first, one.nbytes, one.buffer in states, row, region))
        places.append(tuple(found))
    return places


def kernel_views(
    program: Program, sources: Sequence[KernelSource], provenance: Sequence[KernelProvenance], calls: Mapping[int, int]
) -> tuple[KernelView, ...]:
    """Return the kernels that are called; `calls` counts the calls of each kernel index."""
    views = []
    for index, (kernel, source, origin) in enumerate(zip(program.kernels, sources, provenance, strict=True)):
        if not calls.get(index):
            continue
        tensors = ", ".join(
            f"{p.name} {ctext.shape(p.shape)} {p.dtype}{_gaps(q)}"
            for p, q in zip(source.params, kernel.params, strict=True)
        )
        if shared := [p.name for p in source.params if p.shared and not p.writable]:
            tensors += f" (may be the memory of {' or '.join(shared)})"
        views.append(
            KernelView(
                symbol=source.symbol,
                name=kernel.name,
                prototype=source.prototype.strip().rstrip(";"),
                definition=source.definition.strip("\n"),
                sources=kernel.sources,
                tensors=tensors,
                provenance=origin,
                time=_time_line(origin),
                macs=kernel.macs,
                work=_work(kernel),
                calls=calls[index],
                workers=source.workers,
                floats=source.floats,
                launches=source.launches,
                elements=tuple(param.element_bytes for param in source.params),
                parameters=tuple(param.name for param in source.params),
                memory=(
                    *(prod(param.shape) * param.element_bytes for param in source.params),
                    *([source.scratch_bytes] if source.scratch_bytes else []),
                ),
                scratch_bytes=source.scratch_bytes,
            )
        )
    return tuple(views)


def _work(kernel: Kernel) -> str:
    """What one call computes: the products that it adds up, or else its operations, or else the elements it writes."""
    from edgetune.codegen.operations import operations  # imports TVM

    if kernel.macs:
        return f"{kernel.macs:,} multiply-accumulates"
    count, elements = operations(kernel.function), sum(prod(p.shape) for p in kernel.params if p.role == "output")
    number, unit = (count, "operation") if count else (elements, "element")
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def _gaps(param: Param) -> str:
    """The part of a tensor with gaps that belongs to the kernel, as text."""
    return "" if param.rows is None else f" ({param.rows})"


def _time_line(origin: KernelProvenance) -> str:
    if origin.origin == "fixed" or origin.cost is None:
        return "not measured (default schedule)"
    if origin.clock == "instructions":
        return f"{origin.amount()} instructions, {origin.measured_by()}"
    interval = ""
    if origin.low_us is not None and origin.high_us is not None:
        interval = f" ({origin.low_us:.2f} to {origin.high_us:.2f})"
    return f"{origin.amount()} us{interval}, {origin.measured_by()}"


def prefetch_while_waiting(
    program: Program, calls: Sequence[CallView], weights: Weights, cached_bytes: int
) -> tuple[CallView, ...]:
    """Return `calls` with the weights that threads prefetch while they wait at the ends of loops of each shared call.

    These are the largest constant of the next shared call, up to half the second cache of a core (`cached_bytes`);
    the other half is for the tensors in use. In a layer whose rows are shared, each core reads all weights, from
    a cache or memory common to all cores, so a prefetch during the wait costs nothing. Nothing is prefetched where all
    weights stay in the second cache from run to run.
    """
    if weights.nbytes <= cached_bytes:
        return tuple(calls)
    shared = [number for number, call in enumerate(calls) if call.workers > 1]
    found = list(calls)
    for number in shared:
        following = _following(program, number, shared)
        # A constant of which each iteration has its slice is an expression of the loop's variable.
        constants = {
            calls[call].arguments[position]: weights.items[index].array.nbytes
            for (call, position), index in weights.uses.items()
            if call == following
            and not (position in program.calls[call].parts and program.calls[call].parts[position].movements)
        }
        largest, nbytes = max(constants.items(), key=itemgetter(1), default=("NULL", 0))
        found[number] = replace(calls[number], ahead=f"{largest}, {min(nbytes, cached_bytes // 2)}u")
    return tuple(found)


def _following(program: Program, number: int, shared: Sequence[int]) -> int | None:
    """The shared call that comes next, behind the last one of a loop mostly its first one; None behind all."""
    after = [other for other in shared if other > number]
    for around in reversed(loops_around(program, number)):
        loop = program.loops[around]
        if not after or after[0] >= loop.stop:
            return next(other for other in shared if other >= loop.start)
    return after[0] if after else None
