"""Multithreaded kernels: C code for kernels whose loops several threads share.

Each region of a kernel (see `edgetune.codegen.parallel_regions`) is a separate function. A shared one takes the range
of iterations to run; the kernel distributes these ranges through `<prefix>__parallel_for` of the package's runtime:

    typedef void <prefix>__task(const void *work, int32_t begin, int32_t end, int32_t worker);
    void <prefix>__parallel_for(struct <prefix>__pool *pool, <prefix>__task *task, const void *work, int32_t count,
                                int32_t ranges);

Every iteration does the same as in the single-threaded kernel, in the same order, so results have the same bits for any
number of threads. They differ from those of the single-threaded kernel at most by what a compiler contracts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import tvm

from edgetune.codegen.collapse_loops import check_range, shared_loops
from edgetune.codegen.dtypes import element_and_lanes, storage_type
from edgetune.codegen.emit import SCRATCH, PrintedFunction, declaration, print_function, serial_kernel
from edgetune.codegen.kernel_source import CParam, KernelSource
from edgetune.codegen.line_breaks import prototype
from edgetune.codegen.lower import flat, lower, lower_flat
from edgetune.codegen.memory import SCRATCH_ALIGNMENT, size_of
from edgetune.codegen.names import Names, plain_name
from edgetune.codegen.parallel_regions import Cut, Region, cut
from edgetune.codegen.text import INDENT
from edgetune.target.target import Target
from edgetune.tvm_types import PrimFunc, TvmBuffer

RANGES = 8  # ranges per thread, so that a thread that has finished can help another one
RANGES_INSIDE = 1  # the same if each range runs other loops completely
_TAKEN = ("begin", "end", "pool", "work", "worker")


@dataclass(frozen=True)
class Sharing:
    """How the kernels of a package use threads.

    `prefix` is that of the package; `workers` is the number of threads that share a loop, including the caller's; nests
    of fewer than `least_steps` steps (see `steps_of`) stay on one thread.
    """

    prefix: str
    workers: int
    least_steps: int


@dataclass(frozen=True)
class _Part:
    """One region, printed as the function `symbol`; `operands` are the kernel's own names of its parameters."""

    region: Region
    symbol: str
    printed: PrintedFunction
    operands: tuple[str, ...]


def emit_shared_kernel(
    mod: tvm.IRModule, target: Target, symbol: str, sharing: Sharing, in_place: Collection[int] = ()
) -> KernelSource:
    """`emit_kernel` for several threads: exactly the single-threaded text if no loop of the kernel is worth sharing.

    Parameters whose numbers are in `in_place` may point to the same memory.
    """
    function = flat(mod)
    found = cut(function, sharing.workers, sharing.least_steps) if sharing.workers > 1 else None
    if found is None:
        return serial_kernel(lower(mod, target.register_bytes), target, symbol, in_place)
    names = Names((symbol, *_TAKEN))
    own = {buffer: names.unique(str(buffer.name).removesuffix("_global")) for buffer in function.params}
    own |= {buffer: names.unique(plain_name(str(buffer.name))) for buffer in found.between}
    numbered = enumerate(found.regions, 1)
    parts = [_part(region, number, found, target, symbol, own, sharing.workers) for number, region in numbered]
    aliased = frozenset(own[function.params[number]] for number in in_place)
    return _kernel(function, [_aliased(part, aliased) for part in parts], found, target, symbol, sharing, own, aliased)


def _aliased(part: _Part, aliased: Collection[str]) -> _Part:
    """`part`, whose operands named in `aliased` may point to the same memory."""
    named = zip(part.operands, part.printed.params, strict=True)
    params = tuple(replace(param, shared=name in aliased) for name, param in named)
    return replace(part, printed=replace(part.printed, params=params))


def _part(
    region: Region, number: int, found: Cut, target: Target, symbol: str, own: Mapping[TvmBuffer, str], workers: int
) -> _Part:
    name = f"{symbol}__part{number if len(found.regions) > 1 else ''}"
    if region.loops:
        shared = shared_loops(region.loops, region.iterations, workers * _ranges(region), region.across)
        lowered = lower_flat(region.function, target.register_bytes, shared)
        check_range(lowered.body, shared.variable)
        printed = print_function(lowered, target, (symbol, name, *_TAKEN), shared)
    else:
        printed = print_function(lower_flat(region.function, target.register_bytes), target, (symbol, name, *_TAKEN))
    return _Part(region, name, printed, tuple(own[buffer] for buffer in region.function.params))


def _kernel(
    function: PrimFunc,
    parts: Sequence[_Part],
    found: Cut,
    target: Target,
    symbol: str,
    sharing: Sharing,
    own: Mapping[TvmBuffer, str],
    aliased: Collection[str],
) -> KernelSource:
    written = {name for part in parts for name, p in zip(part.operands, part.printed.params, strict=True) if p.writable}
    plain = (_param(buffer, own[buffer], own[buffer] in written, target) for buffer in function.params)
    params = tuple(replace(param, shared=param.name in aliased) for param in plain)
    offsets, shared_bytes = _places(found.between)
    own_bytes = -(-max(part.printed.scratch_bytes for part in parts) // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
    scratch_bytes = shared_bytes + sharing.workers * own_bytes
    text = []
    read = {name for part in parts for name in part.operands}
    body = [f"{INDENT}(void){param.name};" for param in params if param.name not in read]
    for buffer, offset in offsets.items():
        c_type = storage_type(element_and_lanes(buffer.ty.dtype)[0], target.has_float16)
        where = f"scratch + {offset}" if offset else "scratch"
        body.append(f"{INDENT}{c_type} *const {own[buffer]} = ({c_type} *)(void *)({where}); /* 64-byte aligned */")
    for part in parts:
        text.append(_definition(part))
        scratch = f"scratch + {shared_bytes}" if shared_bytes else "scratch"
        operands = [*part.operands, *([scratch] if part.printed.scratch_bytes else [])]
        if not part.region.loops:
            body.append(f"{INDENT}{part.symbol}({', '.join(operands)});")
            continue
        text.append(_task(part, own_bytes))
        work = f"work{part.symbol.removeprefix(f'{symbol}__part')}"
        body.append(f"{INDENT}const struct {part.symbol}_work {work} = {{{', '.join(operands)}}};")
        given = f"{part.region.iterations}, {_ranges(part.region)}"
        call = f"{sharing.prefix}__parallel_for(pool, {part.symbol}_task, &{work}, {given});"
        body.append(f"{INDENT}{call}")
    pool = f"struct {sharing.prefix}__pool *pool"
    heads = [*map(declaration, params), *([SCRATCH] if scratch_bytes else []), pool]
    head = prototype(f"void {symbol}(", heads)
    lines = "\n".join(body)
    return KernelSource(
        symbol=symbol,
        prototype=head,
        definition="\n".join([*text, f"{head}\n{{\n{lines}\n}}\n"]),
        preamble=frozenset().union(*(part.printed.preamble for part in parts)),
        params=params,
        scratch_bytes=scratch_bytes,
        local_bytes=max(part.printed.local_bytes for part in parts),
        workers=sharing.workers,
        floats=any(part.printed.floats for part in parts),
    )


def _ranges(region: Region) -> int:
    return RANGES_INSIDE if region.inner else RANGES


def _param(buffer: TvmBuffer, name: str, writable: bool, target: Target) -> CParam:
    of, _ = element_and_lanes(buffer.ty.dtype)
    shape = tuple(int(extent.value) for extent in buffer.ty.shape)
    return CParam(name, storage_type(of, target.has_float16), shape, of.dtype, writable, of.bytes)


def _places(buffers: Sequence[TvmBuffer]) -> tuple[dict[TvmBuffer, int], int]:
    """(offset of each buffer in the scratch, bytes of all buffers)."""
    offsets: dict[TvmBuffer, int] = {}
    total = 0
    for buffer in buffers:
        offsets[buffer] = total
        total += -(-size_of(buffer) // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
    return offsets, total


def _definition(part: _Part) -> str:
    printed = part.printed
    heads = [*map(declaration, printed.params), *([SCRATCH] if printed.scratch_bytes else [])]
    comment = ""
    if part.region.loops:
        heads += ["int32_t begin", "int32_t end"]
        whole = f"Iterations begin to end - 1 of {part.region.iterations}"
        across = part.region.across
        if across is not None:
            whole += f", numbered with the loop of {across.blocks} around them as the last digit"
        comment = f"/* {whole}. Each writes elements that no other one touches. */\n"
    # If it were inlined, compilers would lose the `restrict` of its parameters.
    head = prototype(f"static void {part.symbol}(", heads)
    return f"{comment}__attribute__((noinline))\n{head}\n{{\n{printed.body()}\n}}\n"


def _task(part: _Part, own_bytes: int) -> str:
    """The function that workers call, and the structure with the arguments of its part."""
    fields = [replace(p, name=f"*{p.name}") for p in part.printed.params]
    lines = [f"{INDENT}{'' if p.writable else 'const '}{p.c_type} {p.name};" for p in fields]
    values = [f"w->{p.name}" for p in part.printed.params]
    silent = f"{INDENT}(void)worker;\n"
    if part.printed.scratch_bytes:
        lines.append(f"{INDENT}unsigned char *scratch;")
        values.append(f"w->scratch + {own_bytes} * (size_t)worker")
        silent = ""
    members = "\n".join(lines)
    given = ("const void *work", "int32_t begin", "int32_t end", "int32_t worker")
    head = prototype(f"static void {part.symbol}_task(", given)
    return (
        f"struct {part.symbol}_work {{\n{members}\n}};\n\n"
        f"{head}\n{{\n"
        f"{INDENT}const struct {part.symbol}_work *const w = work;\n\n{silent}"
        f"{INDENT}{part.symbol}({', '.join(values)}, begin, end);\n}}\n"
    )
