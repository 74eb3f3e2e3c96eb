"""CUDA code emission: prints one scheduled function as CUDA kernels, with their launches as data."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod

from tvm import tirx

from edgetune.codegen.context import BufferStorage, Context
from edgetune.codegen.cuda.barriers import without_needless_barriers
from edgetune.codegen.cuda.half import cuda_type
from edgetune.codegen.cuda.lower import LoweredLaunch, LoweredLaunches, lower_launches
from edgetune.codegen.cuda.maths import RESERVED, in_device_code
from edgetune.codegen.cuda.names import buffer_name, variable_names
from edgetune.codegen.cuda.printer import CudaPrinter, shared_bytes
from edgetune.codegen.cuda.tidy import rebuilt, tidied
from edgetune.codegen.cuda.vector_access import VECTOR_BYTES
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.emit import drop_unused
from edgetune.codegen.kernel_source import CParam, KernelSource, Launch, LaunchOperand
from edgetune.codegen.line_breaks import break_line, prototype
from edgetune.codegen.lines import Declared, Line, LineKind, variable
from edgetune.codegen.lower import hoist_initialisation
from edgetune.codegen.memory import SCRATCH_ALIGNMENT, Survey, size_of, survey
from edgetune.codegen.names import Names
from edgetune.codegen.package_names import with_prefix
from edgetune.codegen.text import code
from edgetune.codegen.traverse import children
from edgetune.errors import KernelFailed
from edgetune.target.gpu import GpuTarget
from edgetune.tvm_types import IRModule, Stmt, TvmBuffer

_COLUMNS = 120
_PACKED = re.compile(r"(_global|_reindex(_pad)?)+$")


def emit_cuda_kernel(mod: IRModule, target: GpuTarget, symbol: str, unaligned: Collection[int] = ()) -> KernelSource:
    """CUDA text of the one function in `mod`, which is scheduled for a GPU: a kernel for each of its launches.

    `symbol` is the host function that launches them; kernels are called `symbol`, followed by a number if there are
    several. Tensors begin at multiples of 16 bytes, but parameters with the numbers `unaligned`. Equal input gives
    equal text. Raises KernelFailed, naming the construct, if something cannot be lowered or printed, and where a block
    needs more shared memory than `target` has.
    """
    lowered = lower_launches(mod, target.arch, target.most_shared_bytes)
    lowered = replace(lowered, launches=tuple(_written(launch) for launch in lowered.launches))
    found = [survey(launch.body) for launch in lowered.launches]
    params = _params(lowered, found)
    offsets, scratch_bytes = _between(lowered.between)
    texts: list[str] = []
    launches: list[Launch] = []
    preamble: set[str] = set()
    vectors: set[int] = set()
    for number, (launch, surveyed) in enumerate(zip(lowered.launches, found, strict=True)):
        name = f"{symbol}_{number}" if len(lowered.launches) > 1 else f"{symbol}_kernel"
        printed = _Kernel(lowered, launch, surveyed, params, offsets, name, unaligned)
        texts.append(printed.print(target))
        memory = (printed.dynamic_bytes, printed.shared_bytes)
        launches.append(Launch(name, launch.grid, launch.block, *memory, printed.operands))
        preamble |= printed.preamble
        vectors |= printed.vectors
    parts = [f"{'' if param.writable else 'const '}{param.c_type} *{param.name}" for param in params]
    scratch = ["unsigned char *scratch"] if scratch_bytes else []
    return KernelSource(
        symbol=symbol,
        prototype=prototype(f"cudaError_t {symbol}(", ["@launcher *launcher", *parts, *scratch]),
        definition="\n".join(texts),
        preamble=frozenset(preamble),
        params=tuple(replace(p, alignment=VECTOR_BYTES) if n in vectors else p for n, p in enumerate(params)),
        scratch_bytes=scratch_bytes,
        local_bytes=0,
        launches=tuple(launches),
        floats=any(one.floats for one in found),
    )


def _written(launch: LoweredLaunch) -> LoweredLaunch:
    """The launch as a person writes it: a sum begins before its loops, also inside a condition of some threads."""
    return replace(launch, body=_begun(tidied(without_needless_barriers(launch))))


def _begun(node: Stmt) -> Stmt:
    if isinstance(node, tirx.For):
        return hoist_initialisation(node)
    return rebuilt(node, [_begun(child) for child in children(node)])


def _params(lowered: LoweredLaunches, found: Sequence[Survey]) -> tuple[CParam, ...]:
    views = {view.buffer: view for view in lowered.views}
    written = {buffer for one in found for buffer in one.written}
    behind = survey_views(lowered)
    written |= {behind[buffer] for buffer in written if buffer in behind}
    names = Names(("stream", "launcher", "scratch", "arguments", "error", *RESERVED))
    params = []
    for buffer in lowered.function.params:
        if buffer in views or not hasattr(buffer.ty, "shape"):
            raise KernelFailed(f"parameter {buffer.name} of the kernel is not a tensor")
        of, _ = element_and_lanes(buffer.ty.dtype)
        name = names.unique(_PACKED.sub("", str(buffer.name)))
        shape = tuple(int(extent) for extent in buffer.ty.shape)
        params.append(CParam(name, cuda_type(of), shape, of.dtype, buffer in written, of.bytes))
    return tuple(params)


def survey_views(lowered: LoweredLaunches) -> dict[TvmBuffer, TvmBuffer]:
    """By flat view, the parameter that it views."""
    found = Survey()
    for view in lowered.views:
        found.alias |= survey(view).alias
    return {view.buffer: found.base(view.buffer) for view in lowered.views}


def _between(buffers: Sequence[TvmBuffer]) -> tuple[dict[TvmBuffer, int], int]:
    """Offsets in the scratch, in bytes, of buffers between launches, and the bytes of them all."""
    offsets: dict[TvmBuffer, int] = {}
    total = 0
    for buffer in buffers:
        offsets[buffer] = total
        total += -(-size_of(buffer) // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
    return offsets, total


class _Kernel:
    """One launch as the kernel `name`; what has no value at first is known once it is printed.

    `vectors` are numbers of parameters that are read or written as vectors.
    """

    def __init__(
        self,
        lowered: LoweredLaunches,
        launch: LoweredLaunch,
        found: Survey,
        params: Sequence[CParam],
        offsets: dict[TvmBuffer, int],
        name: str,
        unaligned: Collection[int],
    ) -> None:
        self._launch, self._found, self._name = launch, found, name
        self._param = dict(zip(lowered.function.params, zip(range(len(params)), params, strict=True), strict=True))
        self._views, self._offsets = survey_views(lowered), offsets
        self.operands: tuple[LaunchOperand, ...] = ()
        self.shared_bytes = self.dynamic_bytes = 0
        self.preamble: frozenset[str] = frozenset()
        self.vectors: frozenset[int] = frozenset()
        self._unaligned = {buffer for buffer, (number, _) in self._param.items() if number in unaligned}

    def print(self, target: GpuTarget) -> str:
        """The definition of the kernel."""
        names = Names((self._name, *RESERVED))
        context = Context(has_float16=False, lanes_limit=1, names=names, stems=variable_names(self._launch.body))
        context.counters = self._found.counters()
        parts, operands = [], []
        touched = [*self._found.accesses, *self._found.written, *self._found.reads]
        outside = [b for b in self._order() if b in touched or any(self._views.get(t) == b for t in touched)]
        for buffer in outside:
            number, param = self._param.get(buffer, (None, None))
            of, lanes = element_and_lanes(buffer.ty.dtype)
            writes = any(self._views.get(b, b) == buffer for b in self._found.written)
            name = context.names.unique(param.name if param else buffer_name(buffer))
            place = BufferStorage(name, of, lanes, written=writes)
            for one in (buffer, *(view for view, base in self._views.items() if base == buffer)):
                context.places[one] = place
            c_type = cuda_type(of)
            parts.append(f"{'' if writes else 'const '}{c_type} *__restrict__ {name}")
            operands.append(LaunchOperand(number, self._offsets.get(buffer, 0), c_type, writes))
        self.operands = tuple(operands)
        views = {view for view, base in self._views.items() if base in self._unaligned}
        needed = shared_bytes(self._launch.body, self._found)
        dynamic = needed > target.shared_bytes_per_block
        printer = CudaPrinter(context, self._found, self._unaligned | views, dynamic=dynamic)
        printer.launch(self._launch.body, self._launch.extents)
        if needed > target.most_shared_bytes:
            raise KernelFailed(
                f"a block needs {needed} bytes of shared memory, and {target.name} has {target.most_shared_bytes}"
            )
        self.shared_bytes, self.dynamic_bytes = (0, needed) if dynamic else (needed, 0)
        vectors = {self._views.get(buffer, buffer) for buffer in printer.vectors}
        self.vectors = frozenset(number for buffer, (number, _) in self._param.items() if buffer in vectors)
        kept = with_first_values(drop_unused(context.lines))
        prefix = self._name.partition("__k_")[0]  # before lines are broken: it makes them longer
        whole = (with_prefix(in_device_code(str(line)), prefix) for line in kept)
        lines = [part for line in whole for part in break_line(line, _COLUMNS)]
        self.preamble = frozenset(context.preamble)
        bounds = f"__global__ void __launch_bounds__({prod(self._launch.block)})"
        return "\n".join([bounds, prototype(f"{self._name}(", parts), "{", *lines, "}", ""])

    def _order(self) -> list[TvmBuffer]:
        return [*self._param, *self._offsets]


def with_first_values(lines: Sequence[Line]) -> list[Line]:
    """The lines of a kernel with `float acc = 0.0f;` for a declaration and a store, `= {}` for loops of zeroes."""
    found = list(lines)
    place = 0
    while place < len(found):
        declared = found[place].declared
        if declared is not None and declared.count is None and _assigned(found, place, declared):
            continue
        if declared is not None and declared.count is not None:
            _cleared(found, place, declared)
        place += 1
    return found


def _uses(lines: Sequence[Line], place: int, name: str) -> list[int]:
    return [number for number in range(place + 1, len(lines)) if name in lines[number].mentions]


def _assigned(lines: list[Line], place: int, declared: Declared) -> bool:
    """Move the declaration in line `place` to the store of its first value, if no use is outside of its braces."""
    uses = _uses(lines, place, declared.name)
    first = lines[uses[0]] if uses else None
    if first is None or first.target != declared.name or first.value is None:
        return False
    if declared.name in first.value.code.variables:
        return False
    if not all(line.depth >= first.depth for line in lines[uses[0] : uses[-1] + 1]):
        return False
    lines[uses[0]] = replace(variable(declared.c_type, declared.name, first.value), depth=first.depth)
    del lines[place]
    return True


def _cleared(lines: list[Line], place: int, declared: Declared) -> None:
    """Replace loops that clear the array that line `place` declares."""
    number = next(iter(_uses(lines, place, declared.name)), place)
    target, value = lines[number].target, lines[number].value
    if target is None or target.variable != declared.name or value is None or value.zero != "float":
        return
    extents: list[int] = []
    first = number
    while (count := lines[first - 1].counts) is not None:
        extents.append(count)
        first -= 2 if lines[first - 2].kind is LineKind.UNROLLS else 1
    end = number + 1 + len(extents)
    closed = all(line.kind is LineKind.CLOSES for line in lines[number + 1 : end])
    if extents and closed and prod(extents) == declared.count and lines[first].depth == lines[place].depth:
        del lines[first:end]
        text = code("{} {}[{}] = {{}};", declared.c_type, declared.name, declared.count)
        lines[place] = replace(lines[place], code=text)
