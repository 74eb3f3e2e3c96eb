"""One scheduled function to one C kernel."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import tvm
from tvm import tirx

from edgetune.codegen.context import Context, Place
from edgetune.codegen.dtypes import element_and_lanes, storage_type
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
_WORD = re.compile(r"[A-Za-z_]\w*")
_CONSTANT = re.compile(r" *const \w+ (\w+) = ")


def emit_kernel(mod: tvm.IRModule, target: Target, symbol: str) -> KernelSource:
    """C text of the one scheduled function in `mod`, for `target`, as the function `symbol`.

    `mod` holds no weight-packing blocks any more (see split_packing). Equal input gives equal text.
    Raises KernelFailed, naming the construct, for what cannot be lowered or printed.
    """
    function = lower(mod)
    found = survey(function.body)
    limit = target.vector_bits // (found.widest or 32) if target.vector_bits else 1
    context = Context(target, max(limit, 1), Names((symbol,)), stems=stems(function.body))
    params = tuple(_parameter(context, found, buffer) for buffer in function.params)
    layout, scratch_bytes, local_bytes = _lay_out(found, max(limit, 1))
    printer = StatementPrinter(context, found, layout)
    printer.statement(function.body)
    prototype = _prototype(symbol, params, scratch_bytes)
    lines = joined_zeroes(_without_unused(context.lines))
    used = set(_WORD.findall("\n".join(lines)))
    lines = [*(f"  (void){param.name};" for param in params if param.name not in used), *lines]
    body = "\n".join(lines)
    return KernelSource(
        symbol=symbol,
        prototype=prototype,
        definition=f"{prototype} {{\n{body}\n}}\n",
        preamble=frozenset(context.preamble),
        params=params,
        scratch_bytes=scratch_bytes,
        local_bytes=local_bytes,
    )


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


def _prototype(symbol: str, params: tuple[CParam, ...], scratch_bytes: int) -> str:
    parts = [f"{'' if p.writable else 'const '}{p.c_type} *restrict {p.name}" for p in params]
    if scratch_bytes:
        parts.append("unsigned char *restrict scratch")
    head = f"void {symbol}("
    lines = [head]
    for part in parts:
        more = f"{part}{')' if part is parts[-1] else ','}"
        if lines[-1] != head and len(lines[-1]) + len(more) >= _WIDTH:
            lines.append(" " * (len(head) - 1))
        lines[-1] += more if lines[-1] == head else f" {more}"
    return "\n".join(lines)
