"""CUDA code emission: prints one scheduled function as CUDA kernels, with their launches as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from edgetune.codegen.context import BufferStorage, Context
from edgetune.codegen.cuda.barriers import without_needless_barriers
from edgetune.codegen.cuda.lower import LoweredLaunch, LoweredLaunches, lower_launches
from edgetune.codegen.cuda.maths import RESERVED, in_device_code
from edgetune.codegen.cuda.printer import CudaPrinter, buffer_name, without_additions
from edgetune.codegen.dtypes import element_and_lanes, storage_type
from edgetune.codegen.emit import drop_unused, prototype
from edgetune.codegen.kernel_source import CParam, KernelSource, Launch, LaunchOperand
from edgetune.codegen.line_breaks import break_line
from edgetune.codegen.memory import SCRATCH_ALIGNMENT, Survey, size_of, survey
from edgetune.codegen.names import Names
from edgetune.codegen.package_names import with_prefix
from edgetune.codegen.subexpression_names import stems
from edgetune.errors import KernelFailed
from edgetune.graph.tvm_types import IRModule, Stmt, TvmBuffer, Var
from edgetune.target.gpu import GpuTarget

_COLUMNS = 120


def emit_cuda_kernel(mod: IRModule, target: GpuTarget, symbol: str) -> KernelSource:
    """CUDA text of the one function in `mod`, which is scheduled for a GPU: a kernel for each of its launches.

    `symbol` is the host function that launches them; kernels are called `symbol`, followed by a number if there are
    several. Equal input gives equal text. Raises KernelFailed, naming the construct, if something cannot be lowered or
    printed, and where a block needs more shared memory than `target` has.
    """
    lowered = lower_launches(mod, target.arch, target.shared_bytes_per_block)
    ordered = (replace(launch, body=without_needless_barriers(launch)) for launch in lowered.launches)
    lowered = replace(lowered, launches=tuple(ordered))
    found = [survey(launch.body) for launch in lowered.launches]
    params = _params(lowered, found)
    offsets, scratch_bytes = _between(lowered.between)
    texts: list[str] = []
    launches: list[Launch] = []
    preamble: set[str] = set()
    for number, (launch, surveyed) in enumerate(zip(lowered.launches, found, strict=True)):
        name = f"{symbol}_{number}" if len(lowered.launches) > 1 else f"{symbol}_kernel"
        printed = _Kernel(lowered, launch, surveyed, params, offsets, name)
        texts.append(printed.print(target))
        launches.append(Launch(name, launch.grid, launch.block, 0, printed.shared_bytes, printed.operands))
        preamble |= printed.preamble
    parts = [f"{'' if param.writable else 'const '}{param.c_type} *{param.name}" for param in params]
    scratch = ["unsigned char *scratch"] if scratch_bytes else []
    return KernelSource(
        symbol=symbol,
        prototype=prototype(f"cudaError_t {symbol}(", ["@launcher *launcher", *parts, *scratch]),
        definition="\n".join(texts),
        preamble=frozenset(preamble),
        params=params,
        scratch_bytes=scratch_bytes,
        local_bytes=0,
        launches=tuple(launches),
    )


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
        name = names.unique(str(buffer.name).removesuffix("_global"))
        shape = tuple(int(extent) for extent in buffer.ty.shape)
        params.append(CParam(name, storage_type(of, has_float16=False), shape, of.dtype, buffer in written, of.bytes))
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


def _stems(body: Stmt) -> dict[Var, str]:
    """Names of common subexpressions, with the names that buffers have in CUDA text."""
    return {variable: without_additions(name) for variable, name in stems(body).items()}


class _Kernel:
    """One launch as the kernel `name`; `operands`, `shared_bytes` and `preamble` are known once it is printed."""

    def __init__(
        self,
        lowered: LoweredLaunches,
        launch: LoweredLaunch,
        found: Survey,
        params: Sequence[CParam],
        offsets: dict[TvmBuffer, int],
        name: str,
    ) -> None:
        self._launch, self._found, self._name = launch, found, name
        self._param = dict(zip(lowered.function.params, zip(range(len(params)), params, strict=True), strict=True))
        self._views, self._offsets = survey_views(lowered), offsets
        self.operands: tuple[LaunchOperand, ...] = ()
        self.shared_bytes = 0
        self.preamble: frozenset[str] = frozenset()

    def print(self, target: GpuTarget) -> str:
        """The definition of the kernel."""
        context = Context(
            has_float16=False, lanes_limit=1, names=Names((self._name, *RESERVED)), stems=_stems(self._launch.body)
        )
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
            c_type = storage_type(of, has_float16=False)
            parts.append(f"{'' if writes else 'const '}{c_type} *__restrict__ {name}")
            operands.append(LaunchOperand(number, self._offsets.get(buffer, 0), c_type, writes))
        self.operands = tuple(operands)
        printer = CudaPrinter(context, self._found)
        printer.launch(self._launch.body, self._launch.extents)
        if printer.shared_bytes > target.shared_bytes_per_block:
            raise KernelFailed(
                f"a block needs {printer.shared_bytes} bytes of shared memory, and {target.name} has "
                f"{target.shared_bytes_per_block}"
            )
        self.shared_bytes = printer.shared_bytes
        kept = drop_unused(context.lines)
        prefix = self._name.partition("__k_")[0]  # before lines are broken: it makes them longer
        whole = (with_prefix(in_device_code(line), prefix) for line in kept)
        lines = [part for line in whole for part in break_line(line, _COLUMNS)]
        self.preamble = frozenset(context.preamble)
        bounds = f"__global__ void __launch_bounds__({prod(self._launch.block)})"
        return "\n".join([bounds, prototype(f"{self._name}(", parts), "{", *lines, "}", ""])

    def _order(self) -> list[TvmBuffer]:
        return [*self._param, *self._offsets]
