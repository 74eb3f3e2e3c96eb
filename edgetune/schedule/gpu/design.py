"""What all designs of kernels for GPUs share: decisions, limits of a target, and copies into shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Protocol

import numpy as np
from tvm import DataType, ir
from tvm.s_tir import Schedule

from edgetune.affine.expressions import mentions
from edgetune.schedule.sketches.block_analysis import BlockStage
from edgetune.target.gpu import GpuTarget
from edgetune.tvm_types import BufferRegion, ExprRV, LoopRV, SBlockRV

WARP = 32
MOST_THREADS, MOST_THREADS_Z = 1024, 64
MOST_REGISTERS = 255
"""Of one thread, on every GPU that nvcc compiles for."""

MOST_SUMS = 64
"""Sums of one thread: the printer unrolls no more copies, and a loop that is not unrolled has no registers."""

SUM_BYTES = 4
"""Sums of all designs are float32."""

_VECTOR_BITS = 128  # the widest access of one thread
PACKED = "meta_schedule.layout_rewrite_preproc"

Sizes = Mapping[str, tuple[int, ...]]
"""By decision, the extents of the loops into which it splits one loop, the outermost first; or one number."""


class DesignChoice(Protocol):
    """A decision of a design."""

    @property
    def name(self) -> str:
        """In `Sizes`."""

    def options(self) -> Iterator[tuple[int, ...]]:
        """All decisions."""

    def read(self, decision: object) -> tuple[int, ...]:
        """The sizes that a decision of a trace means. Raises TypeError where it is none of this kind."""


@dataclass(frozen=True)
class LoopSplit:
    """A decision: a loop of `extent` becomes `parts` loops; the innermost has at most `limit` steps."""

    name: str
    extent: int
    parts: int
    limit: int

    def split(self, sch: Schedule, loop: LoopRV, sizes: Sizes | None) -> tuple[list[LoopRV], list[ExprRV]]:
        """The loops that `loop` becomes, and their extents; sampled where there are no `sizes`."""
        decision = None if sizes is None else list(sizes[self.name])
        factors = sch.sample_perfect_tile(loop, self.parts, max(1, min(self.limit, self.extent)), decision)
        return list(sch.split(loop, factors)), list(factors)

    def options(self) -> Iterator[tuple[int, ...]]:
        """All decisions."""
        yield from _factors(self.extent, self.parts, self.limit)

    def read(self, decision: object) -> tuple[int, ...]:
        """The extents of the loops. Raises TypeError where a decision is no such thing."""
        if not isinstance(decision, list | tuple):
            raise TypeError(f"the decision about {self.name} is {decision!r}, not the extents of loops")
        return tuple(int(extent) for extent in decision)


def _factors(extent: int, parts: int, limit: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        if extent <= limit:
            yield (extent,)
        return
    if parts == 2:  # noqa: PLR2004  the last split
        yield from ((extent // inner, inner) for inner in divisors(extent) if inner <= limit)
        return
    for outer in divisors(extent):
        yield from ((outer, *rest) for rest in _factors(extent // outer, parts - 1, limit))


def divisors(number: int) -> list[int]:
    """All divisors, the smallest first."""
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


@dataclass(frozen=True)
class BlockLimits:
    """What one block of a target has; registers and threads are those of a multiprocessor.

    `tensor_cores` names the types that its tensor cores multiply. `copies_asynchronously`: see `GpuTarget`.
    """

    shared_bytes: int
    registers: int
    multiprocessors: int
    threads: int
    shared_bytes_per_multiprocessor: int
    tensor_cores: tuple[str, ...] = ()
    copies_asynchronously: bool = False

    @classmethod
    def of(cls, target: GpuTarget) -> BlockLimits:
        """The limits of a target."""
        return cls(
            target.most_shared_bytes,
            target.registers_per_multiprocessor,
            target.multiprocessors,
            target.threads_per_multiprocessor,
            target.shared_bytes_per_multiprocessor,
            target.tensor_cores,
            target.copies_asynchronously,
        )

    def held(self, threads: int, shared_bytes: int) -> int:
        """Blocks that one multiprocessor holds at once, at most four."""
        by_memory = self.shared_bytes_per_multiprocessor // max(shared_bytes, 1)
        return max(1, min(self.threads // (-(-threads // WARP) * WARP), by_memory, 4))

    def fault(self, threads: int, registers: int, shared_bytes: int, fewest: int = WARP) -> str | None:
        """Why a block cannot be: None where it can. `registers` of one thread, `fewest` threads that a block needs."""
        if threads > MOST_THREADS:
            return f"{threads} threads are more than a block has ({MOST_THREADS})"
        if threads < fewest:
            return f"{threads} threads leave most of a warp idle"
        allowed = min(MOST_REGISTERS, self.registers // (-(-threads // WARP) * WARP))
        if registers > allowed:
            return f"{registers} registers of a thread are more than {threads} threads have ({allowed})"
        if shared_bytes > self.shared_bytes:
            return f"{shared_bytes} bytes of shared memory are more than a block has ({self.shared_bytes})"
        return None


class Design(Protocol):
    """One structure of one kernel: its decisions, their limits, and their cost."""

    @property
    def name(self) -> str:
        """For people."""

    @property
    def choices(self) -> tuple[DesignChoice, ...]:
        """The decisions, in the order of the trace."""

    def apply(self, sch: Schedule, sizes: Sizes | None) -> None:
        """Schedule the untouched function; sizes are sampled where none are given. Raises ScheduleError."""

    def fault(self, sizes: Sizes) -> str | None:
        """Why decisions cannot work, without building the schedule; None where nothing speaks against them."""

    def cycles(self, sizes: Sizes) -> float:
        """The formula's estimate of a run, for a choice among decisions without a fault."""

    def likely(self) -> Iterator[Sizes]:
        """Decisions of which the formula chooses one."""


def sizes_of(design: Design, decisions: Sequence[object]) -> dict[str, tuple[int, ...]]:
    """The decisions of a design by name; they stand in the order of its trace. Raises TypeError for other ones."""
    return {choice.name: choice.read(decision) for choice, decision in zip(design.choices, decisions, strict=True)}


def first_choice(design: Design) -> Sizes | None:
    """The decisions with the lowest estimate; None where each has a fault."""
    allowed = [sizes for sizes in design.likely() if design.fault(sizes) is None]
    return min(allowed, key=design.cycles, default=None)


def propose(design: Design, random: np.random.Generator, tries: int = 200) -> Sizes | None:
    """Random decisions that pass the decision test; None where none of `tries` does."""
    options = [list(choice.options()) for choice in design.choices]
    for _ in range(tries):
        drawn = [several[int(random.integers(len(several)))] for several in options]
        sizes = dict(zip((choice.name for choice in design.choices), drawn, strict=True))
        if design.fault(sizes) is None:
            return sizes
    return None


def bind_copy(
    sch: Schedule, copy: SBlockRV, at: LoopRV, threads: Mapping[str, ExprRV | int], lanes: int | None = None
) -> None:
    """Have all threads of a block do what the block `copy` does inside the loop `at`, such as fill shared memory.

    One thread does `lanes` adjacent elements at once: those of a vector, if nothing else is said.
    """
    place = next(number for number, loop in enumerate(sch.get_loops(copy)) if sch.get(loop).same_as(sch.get(at)))
    loops = sch.get_loops(copy)[place + 1 :]
    extent = int(sch.get(loops[-1]).extent)
    lanes = copied_lanes(sch, copy, extent) if lanes is None else gcd(extent, lanes)
    *outer, last = loops
    if lanes > 1:
        last, _ = sch.split(last, [None, lanes])
    _, *inside = sch.split(sch.fuse(*outer, last), [None, *threads.values()])
    for axis, loop in zip(threads, inside, strict=True):
        sch.bind(loop, axis)


def copied_lanes(sch: Schedule, copy: SBlockRV, extent: int) -> int:
    """Elements that one thread copies at once, of `extent` adjacent ones: a vector, if rows hold whole ones."""
    (read, *_), (write, *_) = sch.get(copy).reads, sch.get(copy).writes
    widest = _VECTOR_BITS // DataType(str(write.source.ty.dtype)).bits
    return gcd(extent, int(read.source.ty.shape[-1]), widest)


def pack_last(sch: Schedule, block: SBlockRV, stage: BlockStage, read: int, axis: int) -> None:
    """Have the weight that a stage reads packed when the package is built: its dimension of spatial `axis` is last."""
    along = dimension_of(stage.reads()[read], stage, axis)
    if along is not None:
        pack_dimension_last(sch, block, read, along, len(stage.reads()[read].region))


def pack_dimension_last(sch: Schedule, block: SBlockRV, read: int, along: int, rank: int) -> None:
    """Have a weight of `rank` dimensions that a block reads packed so that its dimension `along` is the last."""
    if along == rank - 1:
        return
    packed = sch.cache_read(block, read, "global")

    def moved(*axes: ir.Expr) -> list[ir.Expr]:
        return [*axes[:along], *axes[along + 1 :], axes[along]]

    sch.transform_layout(packed, ("write", 0), moved)
    sch.annotate(packed, PACKED, True)


def dimension_of(region: BufferRegion, stage: BlockStage, axis: int) -> int | None:
    """The dimension of a tensor that a spatial axis indexes; None where there is no such dimension."""
    variable = stage.spatial[axis].var
    return next((place for place, item in enumerate(region.region) if mentions(item.min, variable)), None)
