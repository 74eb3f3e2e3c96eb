"""C code emission: prints one scheduled function as one C kernel.

Consecutive statements that clear registers become one chained assignment. Integers keep separate statements, because a
chain through a narrow integer would convert the value.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import tvm
from tvm import tirx

from edgetune.codegen.collapse_loops import Shared
from edgetune.codegen.context import BufferStorage, Context
from edgetune.codegen.dtypes import element_and_lanes, storage_type
from edgetune.codegen.kernel_source import CParam, KernelSource
from edgetune.codegen.line_breaks import break_line
from edgetune.codegen.lockstep import in_lockstep, unused_polynomials
from edgetune.codegen.lower import lower
from edgetune.codegen.memory import Survey, register_pieces, size_of, stack_or_scratch, survey
from edgetune.codegen.names import Names
from edgetune.codegen.register_tiles import shapes_in
from edgetune.codegen.statements import Layout, StatementPrinter
from edgetune.codegen.subexpression_names import stems
from edgetune.codegen.text import INDENT
from edgetune.errors import KernelFailed
from edgetune.graph.tvm_types import TvmBuffer
from edgetune.target.target import Target

_CLEARED = re.compile(r"( *)(\w+) = (\(\w+\)\{0\}|0\.0f?);$")
_COLUMNS = 120


def chain_zeroes(lines: list[str]) -> list[str]:
    """Lines of C in which consecutive `a = (f32x8){0};` and `b = (f32x8){0};` become `a = b = (f32x8){0};`."""
    found: list[str] = []
    run: list[str] = []
    indent = zero = ""
    for line in [*lines, ""]:
        cleared = _CLEARED.match(line)
        same = cleared is not None and (cleared[1], cleared[3]) == (indent, zero)
        if run and not same:
            found += _chains(run, indent, zero)
            run = []
        if cleared is None:
            found.append(line)
        else:
            indent, zero = cleared[1], cleared[3]
            run.append(cleared[2])
    return found[:-1]


def _chains(names: list[str], indent: str, zero: str) -> list[str]:
    """Chained assignments of nearly equal length, as few as fit."""
    longest = max(len(name) for name in names) + len(" = ")
    most = max(1, (_COLUMNS - len(indent) - len(zero) - len(";")) // longest)
    each = -(-len(names) // -(-len(names) // most))
    parts = (names[start : start + each] for start in range(0, len(names), each))
    return [f"{indent}{' = '.join([*part, zero])};" for part in parts]


SCRATCH = "unsigned char *restrict scratch"
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")  # no part of a number such as 0x1.8p+3f
_CONSTANT = re.compile(r" *const \w+ (\w+) = ")


@dataclass(frozen=True)
class PrintedFunction:
    """The body of one C function: its parameters, its lines, and the scratch, stack and snippets that it needs."""

    params: tuple[CParam, ...]
    lines: tuple[str, ...]
    preamble: frozenset[str]
    scratch_bytes: int
    local_bytes: int

    @property
    def unused(self) -> tuple[CParam, ...]:
        """Parameters that no line mentions."""
        used = set(_WORD.findall("\n".join(self.lines)))
        return tuple(param for param in self.params if param.name not in used)

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
    )


def print_function(
    function: tirx.PrimFunc, target: Target, taken: Sequence[str], shared: Shared | None = None
) -> PrintedFunction:
    """The body of a lowered function; its names avoid those in `taken`. For `shared` see `StatementPrinter`."""
    found = survey(function.body)
    limit = target.vector_bits // (found.widest or 32) if target.vector_bits else 1
    context = Context(target.has_float16, max(limit, 1), Names(taken), stems=stems(function.body))
    context.counters = found.counters()
    params = tuple(_parameter(context, found, buffer) for buffer in function.params)
    layout, scratch_bytes, local_bytes = _lay_out(found, max(limit, 1), shapes_in(function))
    printer = StatementPrinter(context, found, layout, shared)
    printer.statement(function.body)
    together = in_lockstep(drop_unused(context.lines), context.need)
    context.preamble -= unused_polynomials(together, context.preamble)
    lines = [part for line in chain_zeroes(together) for part in break_line(line, _COLUMNS)]
    return PrintedFunction(params, tuple(lines), frozenset(context.preamble), scratch_bytes, local_bytes)


def declaration(param: CParam) -> str:
    """The declaration of a parameter in a prototype."""
    alone = "" if param.shared else "restrict "
    return f"{'' if param.writable else 'const '}{param.c_type} *{alone}{param.name}"


def _parameter(context: Context, found: Survey, buffer: TvmBuffer) -> CParam:
    if not hasattr(buffer.ty, "shape"):
        raise KernelFailed(f"parameter {buffer.name} of the kernel is not a tensor")
    of, lanes = element_and_lanes(buffer.ty.dtype)
    written = buffer in found.written
    # A packed weight has the name of the buffer that RewriteLayout made for it, including the scope.
    name = context.names.unique(str(buffer.name).removesuffix("_global"))
    context.places[buffer] = BufferStorage(name, of, lanes, written=written)
    shape = []
    for extent in buffer.ty.shape:
        if not isinstance(extent, tirx.IntImm):
            raise KernelFailed(f"parameter {buffer.name} of the kernel has a shape that is not constant")
        shape.append(int(extent.value))
    c_type = storage_type(of, context.has_float16)
    return CParam(name, c_type, tuple(shape), of.dtype, written, of.bytes)


def _lay_out(found: Survey, limit: int, shapes: dict[str, list[int]]) -> tuple[Layout, int, int]:
    layout = Layout(shapes=shapes)
    sizes: dict[TvmBuffer, int] = {}
    for buffer in found.allocated:
        of, _ = element_and_lanes(buffer.ty.dtype)
        wanted = register_pieces(of, found.accesses.get(buffer, set()), limit)
        if wanted is None:
            sizes[buffer] = size_of(buffer)
        else:
            layout.registers[buffer] = wanted
    stack, layout.scratch, scratch_bytes = stack_or_scratch(sizes)
    return layout, scratch_bytes, sum(sizes[buffer] for buffer in stack)


def drop_unused(lines: list[str]) -> list[str]:
    """Drop constants that nothing reads: their users may have been printed in another way."""
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
    """`head`, which ends in an opening parenthesis, with its parameters, broken into lines of readable length."""
    lines = [head]
    for part in parts:
        more = f"{part}{')' if part is parts[-1] else ','}"
        if lines[-1] != head and len(lines[-1]) + len(more) >= _COLUMNS:
            lines.append(" " * (len(head) - 1))
        lines[-1] += more if lines[-1] == head else f" {more}"
    return "\n".join(lines)
