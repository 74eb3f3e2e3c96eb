"""Storage assignment: each buffer of a kernel is a parameter, named registers, a stack array, or a part of the scratch.

A buffer becomes registers if all its indices are constants and the accessed pieces do not overlap: each piece is one
variable, with the target's vector width if the access is a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isnan

from tvm import ir, tirx

from edgetune.affine.expressions import is_one, loads_in, operands
from edgetune.codegen.dtypes import Element, element_and_lanes
from edgetune.codegen.traverse import children, expressions
from edgetune.errors import KernelFailed
from edgetune.tvm_types import Expr, Stmt, TvmBuffer, Var

_OF_PLACES = (tirx.IntImm, tirx.Add, tirx.Sub, tirx.Mul, tirx.Min, tirx.Max)

MAX_REGISTER_BYTES = 2048
MAX_VARIABLES = 64
STACK_BYTES = 1024
"""Bytes of arrays that a kernel may have on its stack."""

SCARCE_STACK_BYTES = 256
"""The same where memory is scarce: the stack is there beside the arena, and scratch mostly has room in that."""

SCRATCH_ALIGNMENT = 64


def pieces(lanes: int, limit: int) -> list[tuple[int, int]]:
    """(first lane, lanes) of the native vectors that `lanes` lanes are made of: powers of two, at most `limit`."""
    found: list[tuple[int, int]] = []
    first = 0
    while first < lanes:
        width = limit
        while width > lanes - first:
            width //= 2
        found.append((first, width))
        first += width
    return found


@dataclass
class Survey:
    """What a walk over a lowered function finds.

    `accesses` has, for each allocated buffer, pairs (first element, lanes), with None for an element that is not
    constant; `reads` has only the loads. `counted` has what is stored in each buffer of int32, and `bound` what each
    variable stands for. `updated` are buffers whose new value is made of their old one, `stored` whether what a buffer
    gets is a number, as far as that is known of each store. `alias` maps buffers to the
    buffer whose memory they view. `widest` is the bits of the widest value in vector expressions; `floats` tells
    whether any value is a float.
    """

    allocated: list[TvmBuffer] = field(default_factory=list)
    counted: dict[TvmBuffer, list[Expr]] = field(default_factory=dict)
    bound: dict[Var, Expr] = field(default_factory=dict)
    alias: dict[TvmBuffer, TvmBuffer] = field(default_factory=dict)
    written: set[TvmBuffer] = field(default_factory=set)
    updated: set[TvmBuffer] = field(default_factory=set)
    stored: dict[TvmBuffer, set[bool]] = field(default_factory=dict)
    accesses: dict[TvmBuffer, set[tuple[int | None, int]]] = field(default_factory=dict)
    reads: dict[TvmBuffer, set[tuple[int | None, int]]] = field(default_factory=dict)
    widest: int = 0
    floats: bool = False

    def counters(self) -> set[TvmBuffer]:
        """Buffers of one int32 that hold places: each value is made of loop variables, constants and other places.

        So its arithmetic is that of indices, which does not overflow, and not that of data, which wraps.
        """
        found = {b for b in self.allocated if b in self.counted and all(int(extent) == 1 for extent in b.ty.shape)}
        while True:
            left = {buffer for buffer in found if all(self._is_place(value, found) for value in self.counted[buffer])}
            if left == found:
                return found
            found = left

    def _is_place(self, value: Expr, counters: set[TvmBuffer]) -> bool:
        if isinstance(value, ir.TensorLoad):
            return value.source in counters
        if isinstance(value, tirx.Select):
            return all(self._is_place(choice, counters) for choice in (value.true_value, value.false_value))
        if isinstance(value, ir.Var):
            return value not in self.bound or self._is_place(self.bound[value], counters)
        return isinstance(value, _OF_PLACES) and all(self._is_place(part, counters) for part in operands(value))

    def numbers(self) -> set[TvmBuffer]:
        """Buffers that never hold NaN: they begin with a number, and become an extreme of themselves and others."""
        return {buffer for buffer in self.allocated if self.stored.get(buffer) == {True}}

    def base(self, buffer: TvmBuffer) -> TvmBuffer:
        """The buffer whose memory `buffer` views."""
        while buffer in self.alias:
            buffer = self.alias[buffer]
        return buffer


def survey(body: Stmt) -> Survey:
    """Walk the statements of a lowered function."""
    found = Survey()
    _statement(body, found)
    return found


def _statement(node: Stmt, found: Survey) -> None:
    if isinstance(node, tirx.AllocBuffer):
        found.allocated.append(node.buffer)
    elif isinstance(node, tirx.DeclBuffer):
        source = aliased_buffer(node)
        found.alias[node.buffer] = source
        if element_and_lanes(source.ty.dtype) != element_and_lanes(node.buffer.ty.dtype):
            _record(found, source, None, 1)
    elif isinstance(node, tirx.BufferStore):
        found.written.add(found.base(node.buffer))
        found.stored.setdefault(found.base(node.buffer), set()).add(_stays_number(node, found))
        if str(node.buffer.ty.dtype) == "int32":
            found.counted.setdefault(node.buffer, []).append(node.value)
        if any(found.base(load.source) == found.base(node.buffer) for load in loads_in([node.value])):
            found.updated.add(found.base(node.buffer))
        _access(found, node.buffer, node.indices, found.accesses)
        for index in node.indices:
            _indices(index, found)
    elif isinstance(node, tirx.Bind):
        found.bound[node.var] = node.value
    for expression in expressions(node):
        _expression(expression, found)
    for child in children(node):
        _statement(child, found)


def _stays_number(store: tirx.BufferStore, found: Survey) -> bool:
    """Whether a store keeps numbers where the buffer had some: it stores one, or an extreme that begins with its own.

    Such an extreme keeps its first operand where the second is NaN (see `edgetune.codegen.vector_snippets`).
    """
    value = store.value
    if isinstance(value, (tirx.Max, tirx.Min)):
        own = value.a
        return isinstance(own, ir.TensorLoad) and found.base(own.source) == found.base(store.buffer)
    return is_number(value)


def is_number(value: Expr) -> bool:
    """Whether a value is a constant, and not NaN."""
    constant = value.value if isinstance(value, tirx.Broadcast) else value
    return isinstance(constant, tirx.FloatImm) and not isnan(float(constant.value))


def aliased_buffer(node: Stmt) -> TvmBuffer:
    """The buffer whose data a DeclBuffer views; KernelFailed if it views anything else."""
    data = node.data
    if isinstance(data, ir.Call) and len(data.args) == 1 and str(getattr(data.op, "name", "")).endswith("buffer_data"):
        return data.args[0]
    if isinstance(data, ir.Var):
        return data
    raise KernelFailed(f"buffer {node.buffer.name} views memory that is not a buffer")


def _record(found: Survey, buffer: TvmBuffer, first: int | None, lanes: int) -> None:
    found.accesses.setdefault(found.base(buffer), set()).add((first, lanes))


def _access(
    found: Survey, buffer: TvmBuffer, indices: Sequence[Expr], into: dict[TvmBuffer, set[tuple[int | None, int]]]
) -> None:
    of, lanes = element_and_lanes(buffer.ty.dtype)
    accesses = into.setdefault(found.base(buffer), set())
    index = indices[0] if len(indices) == 1 else None
    if index is None:
        accesses.add((None if len(indices) else 0, lanes))
        return
    _, index_lanes = element_and_lanes(index.ty)
    if lanes * index_lanes > 1:
        found.widest = max(found.widest, of.value_bits)
    if isinstance(index, tirx.IntImm):
        accesses.add((int(index.value) * lanes, lanes))
    elif isinstance(index, tirx.Ramp) and isinstance(index.base, tirx.IntImm) and lanes == 1 and is_one(index.stride):
        accesses.add((int(index.base.value), index_lanes))
    else:
        accesses.add((None, lanes * index_lanes))


def _indices(node: Expr, found: Survey) -> None:
    """Loads inside an index; the index arithmetic itself is not a vector of data."""
    if isinstance(node, ir.TensorLoad):
        _access(found, node.source, node.indices, found.accesses)
        _access(found, node.source, node.indices, found.reads)
    for operand in operands(node):
        _indices(operand, found)


def _expression(node: Expr, found: Survey) -> None:
    if isinstance(node, (ir.TensorLoad, tirx.FloatImm, tirx.Cast, ir.Call)) and hasattr(node.ty, "dtype"):
        found.floats |= element_and_lanes(node.ty)[0].kind == "float"
    if isinstance(node, ir.TensorLoad):
        _indices(node, found)
        return
    if isinstance(node, ir.Var):
        if node in found.accesses or node in found.alias:
            _record(found, node, None, 1)
        return
    if not isinstance(node, (ir.StringImm, tirx.IntImm, tirx.FloatImm)) and hasattr(node.ty, "dtype"):
        of, lanes = element_and_lanes(node.ty)
        if lanes > 1 and of.kind != "bool":
            found.widest = max(found.widest, of.value_bits)
    for operand in operands(node):
        _expression(operand, found)


def size_of(buffer: TvmBuffer) -> int:
    """Bytes of an allocated buffer; KernelFailed if its shape is not constant."""
    of, lanes = element_and_lanes(buffer.ty.dtype)
    total = lanes * of.bytes
    for extent in buffer.ty.shape:
        if not isinstance(extent, tirx.IntImm):
            raise KernelFailed(f"buffer {buffer.name} has a size that is not constant")
        total *= int(extent.value)
    return total


def register_pieces(of: Element, accesses: set[tuple[int | None, int]], limit: int) -> dict[int, int] | None:
    """{first element: elements} of the variables that replace a buffer; None if it must stay in memory."""
    found: dict[int, int] = {}
    scalars: set[int] = set()
    for first, lanes in accesses:
        if first is None:
            return None
        for offset, width in pieces(lanes, limit):
            if width == 1:
                scalars.add(first + offset)
            elif found.setdefault(first + offset, width) != width:
                return None
    end = 0
    for first, width in sorted(found.items()):
        if first < end:
            return None
        end = first + width
    for element in scalars:
        if not any(first <= element < first + width for first, width in found.items()):
            found[element] = 1
    vectors = any(width > 1 for width in found.values())
    size = sum(found.values()) * of.value_bits // 8
    if size > MAX_REGISTER_BYTES or len(found) > MAX_VARIABLES or (vectors and of.kind == "bool"):
        return None
    return dict(sorted(found.items()))


def stack_or_scratch(
    sizes: dict[TvmBuffer, int], stack_bytes: int = STACK_BYTES
) -> tuple[set[TvmBuffer], dict[TvmBuffer, int], int]:
    """(buffers on the stack, {buffer: scratch offset}, scratch bytes): the smallest get the `stack_bytes` of stack."""
    stack: set[TvmBuffer] = set()
    offsets: dict[TvmBuffer, int] = {}
    used = total = 0
    for buffer, size in sorted(sizes.items(), key=lambda item: item[1]):
        if used + size <= stack_bytes:
            stack.add(buffer)
            used += size
    for buffer, size in sizes.items():
        if buffer not in stack:
            offsets[buffer] = total
            total += -(-size // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
    return stack, offsets, total
