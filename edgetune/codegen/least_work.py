"""Lower bounds (roofline) of a kernel's work: multiply-adds, bytes read and bytes written that every schedule needs.

The cycles of a core computed from them are lower bounds too. A block counts if an output needs everything that it
writes; of a load, only elements that certainly differ count. Work that a condition may skip, such as the padding of a
window, does not count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.affine.expressions import operands
from edgetune.affine.linear import linear
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.prefetch.intrinsics import certain_loads
from edgetune.target.target import Target
from edgetune.tvm_types import BufferLoad, BufferStore, Expr, TvmBuffer, Var

_AT_ONCE = 4  # vectors per cycle that are multiplied, or loaded and stored in L1: no known core does more
_INTEGERS = 8  # multiply-adds of bytes per multiply-add of floats: two instructions with four each
_LEAST_BITS = 128


@dataclass(frozen=True)
class LeastWork:
    """Work of one call: multiply-adds of floats, multiply-adds of integers, and bytes read or written."""

    float_multiply_adds: float = 0.0
    integer_multiply_adds: float = 0.0
    bytes_touched: int = 0

    def cycles(self, target: Target) -> float:
        """Least cycles of a core of `target` for this work, with the best possible code on the best possible core."""
        lanes = max(target.vector_bits, _LEAST_BITS) // 32
        memory = max(target.instruction_set.library_vector_bytes, 4 * lanes)
        return max(
            self.float_multiply_adds / (_AT_ONCE * lanes),
            self.integer_multiply_adds / (_AT_ONCE * lanes * _INTEGERS),
            self.bytes_touched / (_AT_ONCE * memory),
        )


@dataclass(frozen=True)
class _Block:
    """A block with one store: extents of its iterators, stored element and value, and whether it sums products."""

    extents: dict[Var, int]
    buffer: TvmBuffer
    indices: Sequence[Expr]
    value: Expr
    sums_products: bool

    @property
    def times(self) -> int:
        return prod(self.extents.values())


def least_work(function: tirx.PrimFunc, outputs: Collection[int]) -> LeastWork:
    """Bounds of an unscheduled function of any algorithm; `outputs` are the numbers of the written parameters."""
    buffers = list(function.params)
    needed = [buffers[number] for number in outputs]
    blocks = list(_blocks(function))
    float_sums = integer_sums = 0.0
    touched: dict[int, int] = {}
    for position, block in reversed([*enumerate(blocks)]):
        alone = sum(other.buffer.same_as(block.buffer) for other in blocks) == 1
        if not alone or not any(block.buffer.same_as(one) for one in needed):
            continue
        if block.sums_products:
            count = block.times * _share_that_counts(block, blocks[:position])
            if element_and_lanes(block.buffer.ty.dtype)[0].kind == "float":
                float_sums += count
            else:
                integer_sums += count
        accesses = [(load.source, load.indices) for load in certain_loads(block.value)]
        for source, indices in (*accesses, (block.buffer, block.indices)):
            elements = _different(source, indices, block.extents)
            if elements == _size(source):
                needed.append(source)
            for number, buffer in enumerate(buffers):
                if buffer.same_as(source):
                    size = elements * element_and_lanes(buffer.ty.dtype)[0].bytes
                    touched[number] = max(touched.get(number, 0), size)
    return LeastWork(float_sums, integer_sums, sum(touched.values()))


def _blocks(function: tirx.PrimFunc) -> Iterator[_Block]:
    """Blocks of the function in order, only those that consist of one store over constant extents."""
    found: list[s_tir.SBlock] = []
    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, found.append))
    for block in found:
        extents = [axis.dom.extent for axis in block.iter_vars]
        if isinstance(block.body, tirx.BufferStore) and all(isinstance(e, tirx.IntImm) for e in extents):
            variables = {axis.var: int(e) for axis, e in zip(block.iter_vars, extents, strict=True)}
            store = block.body
            sums = block.init is not None and _sums_products(store)
            yield _Block(variables, store.buffer, store.indices, store.value, sums)


def _sums_products(store: BufferStore) -> bool:
    """Whether a statement adds a product to the element that it stores."""
    value = store.value
    if not isinstance(value, tirx.Add):
        return False
    for before, added in ((value.a, value.b), (value.b, value.a)):
        if isinstance(before, ir.TensorLoad) and before.source.same_as(store.buffer):
            product = added.value if isinstance(added, tirx.Cast) else added
            return isinstance(product, tirx.Mul) and all(certain_loads(factor) for factor in (product.a, product.b))
    return False


def _different(buffer: TvmBuffer, indices: Sequence[Expr], extents: dict[Var, int]) -> int:
    """Elements of `buffer` that are certainly accessed: a product over dimensions with iterators of their own."""
    used: set[Var] = set()
    count = 1
    for index in indices:
        form = linear(index, extents)
        if form is None:
            continue
        variables = set(form.factors)
        if not variables & used:
            count *= max((extents[variable] for variable in variables), default=1)
        used |= variables
    return min(count, _size(buffer))


def _share_that_counts(block: _Block, before: list[_Block]) -> float:
    """The share of a sum's products that no condition makes zero: the smallest such share of its operands."""
    return min((_share_kept(load.source, before) for load in certain_loads(block.value)), default=1.0)


def _share_kept(buffer: TvmBuffer, before: list[_Block]) -> float:
    """The share of a buffer that no condition made zero, in the blocks that write it and in the blocks they read."""
    share = 1.0
    for number, writer in enumerate(before):
        if not writer.buffer.same_as(buffer):
            continue
        certain = certain_loads(writer.value)
        conditional = [one for one in _loads(writer.value) if not any(one.same_as(other) for other in certain)]
        if conditional:
            kept = sum(_size(one.source) * _share_kept(one.source, before[:number]) for one in conditional)
            share = min(share, kept / max(1, _size(buffer)))
    return share


def _loads(node: Expr) -> list[BufferLoad]:
    own = [node] if isinstance(node, ir.TensorLoad) else []
    return own + [load for operand in operands(node) for load in _loads(operand)]


def _size(buffer: TvmBuffer) -> int:
    return prod(int(extent) for extent in buffer.shape)
