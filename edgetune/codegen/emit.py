"""C code emission: prints one scheduled function as one C kernel.

Consecutive statements that clear registers become one chained assignment. Integers keep separate statements, because a
chain through a narrow integer would convert the value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import tvm
from tvm import tirx

from edgetune.codegen.collapse_loops import Shared
from edgetune.codegen.context import BufferStorage, Context, Scales
from edgetune.codegen.dot_products import reads_several, shared_operands, twice
from edgetune.codegen.dot_tiles import in_tiles
from edgetune.codegen.dtypes import element_and_lanes, storage_type
from edgetune.codegen.instruction_estimate import estimated_instructions
from edgetune.codegen.intrinsics import FACTORS
from edgetune.codegen.kernel_source import CParam, KernelSource
from edgetune.codegen.lane_products import in_windows
from edgetune.codegen.lane_windows import sums_in_place
from edgetune.codegen.line_breaks import COLUMNS, break_line, prototype
from edgetune.codegen.lines import Line
from edgetune.codegen.lockstep import in_lockstep, unused_functions
from edgetune.codegen.lower import lower
from edgetune.codegen.memory import (
    SCARCE_STACK_BYTES,
    STACK_BYTES,
    Survey,
    register_pieces,
    size_of,
    stack_or_scratch,
    survey,
)
from edgetune.codegen.names import Names
from edgetune.codegen.register_tiles import shapes_in
from edgetune.codegen.scale_tables import scales_of
from edgetune.codegen.statements import Layout, StatementPrinter
from edgetune.codegen.subexpression_names import stems
from edgetune.codegen.text import INDENT, Lvalue, Text, code, listed
from edgetune.errors import KernelFailed
from edgetune.graph.kernels import FREE_LAYOUTS, SYMMETRIC_BYTES
from edgetune.target.target import Target
from edgetune.tvm_types import TvmBuffer


def chain_zeroes(lines: Sequence[Line]) -> list[Line]:
    """Lines in which consecutive `a = (f32x8){0};` and `b = (f32x8){0};` become `a = b = (f32x8){0};`."""
    found: list[Line] = []
    for zero, run in groupby(lines, _cleared):
        alike = [*run]
        found += alike if zero is None else _chains([one.target for one in alike if one.target is not None], *zero)
    return found


def _cleared(line: Line) -> tuple[Text, int] | None:
    """The zero of a line that clears a register, and the depth; None for any other line."""
    if line.target is None or not line.target.whole or line.value is None:
        return None
    return (line.value, line.depth) if line.value.zero in ("vector", "float") else None


def _chains(registers: Sequence[Lvalue], zero: Text, depth: int) -> list[Line]:
    """Chained assignments of nearly equal length, as few as fit."""
    longest = max(map(len, registers)) + len(" = ")
    most = max(1, (COLUMNS - len(INDENT) * depth - len(zero.code) - len(";")) // longest)
    each = -(-len(registers) // -(-len(registers) // most))
    parts = (registers[start : start + each] for start in range(0, len(registers), each))
    return [Line(code("{};", listed([*part, zero], " = ")), depth=depth) for part in parts]


SCRATCH = "unsigned char *restrict scratch"


@dataclass(frozen=True)
class PrintedFunction:
    """The body of one C function: its parameters, its lines, and the scratch, stack and snippets that it needs.

    `mentioned` are the names of parameters and variables in the lines; `floats` tells whether it computes floats.
    `instructions` are estimated.
    """

    params: tuple[CParam, ...]
    lines: tuple[str, ...]
    mentioned: frozenset[str]
    preamble: frozenset[str]
    scratch_bytes: int
    local_bytes: int
    floats: bool
    instructions: float

    @property
    def unused(self) -> tuple[CParam, ...]:
        """Parameters that no line mentions."""
        return tuple(param for param in self.params if param.name not in self.mentioned)

    def body(self) -> str:
        """The text between the braces; unused parameters are cast to void."""
        return "\n".join([*(f"{INDENT}(void){param.name};" for param in self.unused), *self.lines])


def emit_kernel(mod: tvm.IRModule, target: Target, symbol: str, shared: Collection[int] = ()) -> KernelSource:
    """C text of the one scheduled function in `mod`, for `target`, as the function `symbol`.

    `mod` must contain no weight-packing blocks (see `split_packing`). Equal input gives equal text. Parameters whose
    numbers are in `shared` may point to the same memory (see `replaceable`). Raises KernelFailed, naming the construct,
    if something cannot be lowered or printed.
    """
    return serial_kernel(lower(mod, target.register_bytes), target, symbol, shared)


def serial_kernel(function: tirx.PrimFunc, target: Target, symbol: str, shared: Collection[int] = ()) -> KernelSource:
    """C text of a lowered function as the function `symbol`; `shared` is as in `emit_kernel`."""
    printed = print_function(function, target, (symbol,))
    params = tuple(replace(param, shared=number in shared) for number, param in enumerate(printed.params))
    parts = [declaration(p) for p in params]
    head = prototype(f"void {symbol}(", [*parts, *([SCRATCH] if printed.scratch_bytes else [])])
    return KernelSource(
        symbol=symbol,
        prototype=head,
        definition=f"{head}\n{{\n{printed.body()}\n}}\n",
        preamble=printed.preamble,
        params=params,
        scratch_bytes=printed.scratch_bytes,
        local_bytes=printed.local_bytes,
        floats=printed.floats,
        instructions=printed.instructions,
    )


def print_function(
    function: tirx.PrimFunc, target: Target, taken: Sequence[str], shared: Shared | None = None
) -> PrintedFunction:
    """The body of a lowered function; its names avoid those in `taken`. For `shared` see `StatementPrinter`."""
    body = sums_in_place(function) if target.instruction_set.vectors.lane_windows else function.body
    found = survey(body)
    limit = target.vector_bits // (found.widest or 32) if target.vector_bits else 1
    context = Context(
        target.has_float16, max(limit, 1), Names(taken), vector_bits=target.vector_bits, stems=stems(body)
    )
    context.counters, context.numbers = found.counters(), found.numbers()
    context.vectors = target.instruction_set.vectors
    attributes = function.attrs or {}
    scales = scales_of(function, context.vectors, found.base)
    context.packed = {function.params[int(number)] for number in attributes.get(FREE_LAYOUTS, [])}
    context.symmetric = context.packed if SYMMETRIC_BYTES in attributes else set()
    params = tuple(_parameter(context, found, buffer, scales.get(buffer, "")) for buffer in function.params)
    in_memory = shared_operands(body, several=reads_several(function))
    stack_bytes = SCARCE_STACK_BYTES if target.memory_is_scarce else STACK_BYTES
    layout, scratch_bytes, local_bytes = _lay_out(found, max(limit, 1), shapes_in(function), in_memory, stack_bytes)
    printer = StatementPrinter(context, found, layout, shared)
    printer.statement(body)
    together = in_lockstep(drop_unused(context.lines), context.need)
    together = in_tiles(together, context.need, context.vectors)
    together = in_windows(together, context.need, context.vectors.lane_products)
    if SYMMETRIC_BYTES in attributes:
        together = twice(together, context.need, context.vectors.dot_twice)
    context.preamble -= unused_functions(together, context.preamble)
    lines = [part for line in chain_zeroes(together) for part in break_line(str(line), COLUMNS)]
    mentioned = frozenset().union(*(line.mentions for line in together))
    snippets = frozenset(context.preamble)
    instructions = estimated_instructions(together, target)
    return PrintedFunction(
        params, tuple(lines), mentioned, snippets, scratch_bytes, local_bytes, found.floats, instructions
    )


def declaration(param: CParam) -> str:
    """The declaration of a parameter in a prototype."""
    alone = "" if param.shared else "restrict "
    return f"{'' if param.writable else 'const '}{param.c_type} *{alone}{param.name}"


def _parameter(context: Context, found: Survey, buffer: TvmBuffer, scales: Scales) -> CParam:
    if not hasattr(buffer.ty, "shape"):
        raise KernelFailed(f"parameter {buffer.name} of the kernel is not a tensor")
    of, lanes = element_and_lanes(buffer.ty.dtype)
    written = buffer in found.written
    # A packed weight has the name of the buffer that RewriteLayout made for it, including the scope.
    stem = "scales" if scales in ("table", "byte table") else str(buffer.name).removesuffix("_global")
    name = context.names.unique(stem)
    context.places[buffer] = BufferStorage(name, of, lanes, written=written, scales=scales)
    shape = []
    for extent in buffer.ty.shape:
        if not isinstance(extent, tirx.IntImm):
            raise KernelFailed(f"parameter {buffer.name} of the kernel has a shape that is not constant")
        shape.append(int(extent.value))
    if scales in ("table", "byte table"):
        return CParam(name, "int32_t", (*shape, FACTORS), "int32", written, of.bytes, table=scales)
    c_type = storage_type(of, context.has_float16)
    return CParam(name, c_type, tuple(shape), of.dtype, written, of.bytes)


def _lay_out(
    found: Survey, limit: int, shapes: dict[str, list[int]], in_memory: Collection[TvmBuffer], stack_bytes: int
) -> tuple[Layout, int, int]:
    layout = Layout(shapes=shapes)
    sizes: dict[TvmBuffer, int] = {}
    for buffer in found.allocated:
        of, _ = element_and_lanes(buffer.ty.dtype)
        accesses = found.accesses.get(buffer, set())
        wanted = None if buffer in in_memory else register_pieces(of, accesses, limit)
        if wanted is None:
            sizes[buffer] = size_of(buffer)
        else:
            layout.registers[buffer] = wanted
    stack, layout.scratch, scratch_bytes = stack_or_scratch(sizes, stack_bytes)
    return layout, scratch_bytes, sum(sizes[buffer] for buffer in stack)


def drop_unused(lines: Sequence[Line]) -> list[Line]:
    """Drop constants that nothing reads: their users may have been printed in another way."""
    count = Counter(name for line in lines for name in line.mentions)
    kept = []
    for line in reversed(lines):
        if line.constant and count[line.constant] == 1:
            count.subtract(line.mentions)
        else:
            kept.append(line)
    return kept[::-1]
