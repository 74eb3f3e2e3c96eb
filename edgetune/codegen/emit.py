"""One scheduled function to one C kernel."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import tirx

from edgetune.codegen.context import Context, Place
from edgetune.codegen.dtypes import element_and_lanes, storage_type
from edgetune.codegen.fusing import Shared
from edgetune.codegen.kernel_source import CParam, KernelSource
from edgetune.codegen.lower import lower
from edgetune.codegen.memory import Survey, register_pieces, size_of, stack_or_scratch, survey
from edgetune.codegen.names import Names
from edgetune.codegen.offsets import stems
from edgetune.codegen.statements import Layout, StatementPrinter
from edgetune.codegen.zeroes import joined_zeroes
from edgetune.config.target import Target
from edgetune.errors import KernelFailed

_WIDTH = 100  # columns of a prototype
SCRATCH = "unsigned char *restrict scratch"
_WORD = re.compile(r"[A-Za-z_]\w*")
_CONSTANT = re.compile(r" *const \w+ (\w+) = ")


@dataclass(frozen=True)
class PrintedFunction:
    """The inside of one C function: its parameters, its lines, what it needs of scratch, stack and snippets."""

    params: tuple[CParam, ...]
    lines: tuple[str, ...]
    preamble: frozenset[str]
    scratch_bytes: int
    local_bytes: int

    @property
    def unused(self) -> tuple[CParam, ...]:
        """Parameters that no line names."""
        used = set(_WORD.findall("\n".join(self.lines)))
        return tuple(param for param in self.params if param.name not in used)

    def body(self) -> str:
        """The lines between the braces, silent about unused parameters."""
        return "\n".join([*(f"  (void){param.name};" for param in self.unused), *self.lines])


def emit_kernel(mod: tvm.IRModule, target: Target, symbol: str, shared: Collection[int] = ()) -> KernelSource:
    """C text of the one scheduled function in `mod`, for `target`, as the function `symbol`.

    `mod` holds no weight-packing blocks any more (see split_packing). Equal input gives equal text. Parameters whose
    numbers are `shared` may point to the same memory (see `replaceable`).
    Raises KernelFailed, naming the construct, for what cannot be lowered or printed.
    """
    return serial_kernel(lower(mod), target, symbol, shared)


def serial_kernel(function: tirx.PrimFunc, target: Target, symbol: str, shared: Collection[int] = ()) -> KernelSource:
    """C text of a lowered function as the function `symbol`; `shared` as in `emit_kernel`."""
    printed = print_function(function, target, (symbol,))
    params = tuple(replace(param, shared=number in shared) for number, param in enumerate(printed.params))
    parts = [declaration(p) for p in params]
    head = prototype(f"void {symbol}(", [*parts, *([SCRATCH] if printed.scratch_bytes else [])])
    return KernelSource(
        symbol=symbol,
        prototype=head,
        definition=f"{head} {{\n{printed.body()}\n}}\n",
        preamble=printed.preamble,
        params=params,
        scratch_bytes=printed.scratch_bytes,
        local_bytes=printed.local_bytes,
    )


def print_function(
    function: tirx.PrimFunc, target: Target, taken: Sequence[str], shared: Shared | None = None
) -> PrintedFunction:
    """The inside of a lowered function; no name in it is one of `taken`. `shared`: see StatementPrinter."""
    found = survey(function.body)
    limit = target.vector_bits // (found.widest or 32) if target.vector_bits else 1
    context = Context(target, max(limit, 1), Names(taken), stems=stems(function.body))
    params = tuple(_parameter(context, found, buffer) for buffer in function.params)
    layout, scratch_bytes, local_bytes = _lay_out(found, max(limit, 1))
    printer = StatementPrinter(context, found, layout, shared)
    printer.statement(function.body)
    lines = joined_zeroes(_without_unused(context.lines))
    return PrintedFunction(params, tuple(lines), frozenset(context.preamble), scratch_bytes, local_bytes)


def declaration(param: CParam) -> str:
    """A parameter as a prototype says it."""
    alone = "" if param.shared else "restrict "
    return f"{'' if param.writable else 'const '}{param.c_type} *{alone}{param.name}"


def _parameter(context: Context, found: Survey, buffer: Any) -> CParam:
    if not hasattr(buffer.ty, "shape"):
        raise KernelFailed(f"parameter {buffer.name} of the kernel is not a tensor")
    of, lanes = element_and_lanes(buffer.ty.dtype)
    written = buffer in found.written
    # A packed weight is called after the buffer that RewriteLayout made for it, scope and all.
    name = context.names.unique(str(buffer.name).removesuffix("_global"))
    context.places[buffer] = Place(name, of, lanes, written=written)
    shape = []
    for extent in buffer.ty.shape:
        if not isinstance(extent, tirx.IntImm):
            raise KernelFailed(f"parameter {buffer.name} of the kernel has a shape that is not constant")
        shape.append(int(extent.value))
    c_type = storage_type(of, context.target.has_float16)
    return CParam(name, c_type, tuple(shape), of.dtype, written, of.bytes)


def _lay_out(found: Survey, limit: int) -> tuple[Layout, int, int]:
    layout = Layout()
    sizes: dict[Any, int] = {}
    for buffer in found.allocated:
        of, _ = element_and_lanes(buffer.ty.dtype)
        wanted = register_pieces(of, found.accesses.get(buffer, set()), limit)
        if wanted is None:
            sizes[buffer] = size_of(buffer)
        else:
            layout.registers[buffer] = wanted
    stack, layout.scratch, scratch_bytes = stack_or_scratch(sizes)
    return layout, scratch_bytes, sum(sizes[buffer] for buffer in stack)


def _without_unused(lines: list[str]) -> list[str]:
    """Drop constants that nothing reads: what they were for may have been printed in another way."""
    words = [_WORD.findall(line) for line in lines]
    count = Counter(word for line in words for word in line)
    kept = []
    for line, used in zip(reversed(lines), reversed(words), strict=True):
        declared = _CONSTANT.match(line)
        if declared is not None and count[declared[1]] == 1:
            count.subtract(used)
        else:
            kept.append(line)
    return kept[::-1]


def prototype(head: str, parts: Sequence[str]) -> str:
    """`head`, which ends in a parenthesis, and its parameters, in lines of a readable length."""
    lines = [head]
    for part in parts:
        more = f"{part}{')' if part is parts[-1] else ','}"
        if lines[-1] != head and len(lines[-1]) + len(more) >= _WIDTH:
            lines.append(" " * (len(head) - 1))
        lines[-1] += more if lines[-1] == head else f" {more}"
    return "\n".join(lines)
