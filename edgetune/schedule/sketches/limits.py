"""Resource limits: registers, scratch memory and code size of a scheduled kernel; larger ones are rejected."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.utils import derived_object
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms

from edgetune.codegen.dot_products import products_of
from edgetune.codegen.lower import to_compact
from edgetune.tvm_types import For, IRModule, Stmt, TvmBuffer

MAX_UNROLLED = 320  # most stores in all unrolled bodies; compile time and code size grow with them
FREE_SCRATCH = 1024  # bytes that a kernel may keep on its stack


@dataclass(frozen=True)
class ScheduleLimits:
    """`tile_bytes`: accumulators and operands that fit the registers; `scratch_bytes`: memory besides the stack.

    `free_bytes` of scratch are always allowed: they lie on the stack.
    """

    tile_bytes: int
    scratch_bytes: int
    unrolled: int = MAX_UNROLLED
    free_bytes: int = FREE_SCRATCH


@dataclass(frozen=True)
class Footprint:
    """`tile_bytes`: "local" buffers alive at once; `scratch_bytes`: all others; `unrolled`: stores in unrolled loops.

    If a tile has several pixels, `tile_bytes` includes the operand that waits in registers to serve them all: one
    vector for each vector of a pixel. With one register too few, compilers store a sum to memory in each step.
    """

    tile_bytes: int
    scratch_bytes: int
    unrolled: int

    def within(self, limits: ScheduleLimits) -> bool:
        """Whether nothing exceeds its limit."""
        return (
            self.tile_bytes <= limits.tile_bytes
            and self.scratch_bytes <= max(limits.scratch_bytes, limits.free_bytes)
            and self.unrolled <= limits.unrolled
        )


def footprint(mod: IRModule) -> Footprint:
    """Footprint of a module of one scheduled function, before weights are packed."""
    function = to_compact()(mod)["main"]
    return _visit(function.body, 1, products_of(function))


def _visit(node: Stmt, times: int, products: int, *, in_lanes: bool = False) -> Footprint:
    """`in_lanes`: inside of a vector, an unrolled loop has the products of one instruction.

    Without vectors it is the innermost loop over so many `products` that has them.
    """
    if isinstance(node, s_tir.SBlockRealize):
        below = _visit(node.block.body, times, products, in_lanes=in_lanes)
        sizes = {"local": 0, "global": 0}
        for buffer in node.block.alloc_buffers:
            scope = "local" if buffer.scope() == "local" else "global"
            elements, own = prod(int(extent) for extent in buffer.shape), int([1, *buffer.shape][-1])
            several = scope == "local" and elements > own
            sizes[scope] += (elements + own if several else elements) * _bytes(buffer)
        return Footprint(below.tile_bytes + sizes["local"], below.scratch_bytes + sizes["global"], below.unrolled)
    if isinstance(node, tirx.For):
        extent = node.extent
        copied = int(node.kind) == int(tirx.ForKind.UNROLLED) and isinstance(extent, tirx.IntImm) and not in_lanes
        lanes = in_lanes or int(node.kind) == int(tirx.ForKind.VECTORIZED)
        copied = copied and not _has_products(node, products)
        return _visit(node.body, times * int(extent.value) if copied else times, products, in_lanes=lanes)
    if isinstance(node, tirx.BufferStore):
        return Footprint(0, 0, times if times > 1 else 0)
    fields = [getattr(node, field, None) for field in ("body", "then_case", "else_case")]
    children = list(node.seq) if isinstance(node, tirx.SeqStmt) else [child for child in fields if child is not None]
    parts = [_visit(child, times, products, in_lanes=in_lanes) for child in children]
    return Footprint(
        max((part.tile_bytes for part in parts), default=0),  # they run one after another, so registers are free again
        sum(part.scratch_bytes for part in parts),
        sum(part.unrolled for part in parts),
    )


def _has_products(loop: For, products: int) -> bool:
    """Whether a loop is the one over the products of an instruction."""
    extent = loop.extent
    if products == 1 or not isinstance(extent, tirx.IntImm) or int(extent.value) != products:
        return False
    inner: list[For] = []
    tvm_ffi.structural_walk(loop.body, (tirx.For, inner.append))
    return not inner


def _bytes(buffer: TvmBuffer) -> int:
    bits = int(tvm.DataType(str(buffer.dtype)).bits)
    return (bits + 7) // 8


@derived_object
class FitsLimits(ms.postproc.PyPostproc):
    """Postprocessor that changes nothing and rejects schedules that exceed the limits."""

    def __init__(self, limits: ScheduleLimits) -> None:
        super().__init__()
        self._limits = limits

    def _initialize_with_tune_context(self, context: ms.TuneContext) -> None:
        del context

    def apply(self, sch: Schedule) -> bool:
        """Whether `sch` may be measured."""
        return footprint(sch.mod).within(self._limits)

    def clone(self) -> FitsLimits:
        """A copy with the same limits."""
        return FitsLimits(self._limits)


UNLIMITED_SCRATCH = 1 << 40
"""More bytes than any kernel needs, for callers without a limit."""
