"""A tile of the output for each block, and a smaller one in the registers of each thread.

Adjacent threads compute adjacent channels, so that a warp reads and writes whole lines. A thread's own channels are
adjacent as well: nvcc reads them from shared memory as one vector. The operands come from shared
memory, where all threads copy them together, or straight from device memory (through L1), as where each channel reads
its own input. Fits every kernel with a register tile: convolutions, products of matrices, pooling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import ceil, prod

from tvm import sym
from tvm.s_tir import Schedule

from edgetune.schedule.gpu.copy_stages import (
    CopyStages,
    copies_words,
    is_of_words,
    stage_options,
    stages_bytes,
    stages_fault,
    stages_of,
    waits,
)
from edgetune.schedule.gpu.design import (
    MOST_SUMS,
    MOST_THREADS_Z,
    SUM_BYTES,
    WARP,
    BlockLimits,
    DesignChoice,
    LoopSplit,
    Sizes,
    bind_copy,
    dimension_of,
    divisors,
    pack_last,
)
from edgetune.schedule.sketches.block_analysis import BlockAnalysis, extent_of
from edgetune.schedule.sketches.tile import Tile
from edgetune.tvm_types import BufferRegion, ExprRV, LoopRV, SBlockRV

_MOST = {"row": 4, "pixel": 8, "channel": 8}  # of one thread
_MOST_WINDOW, _MOST_DEPTH = 7, 64
_OTHER_REGISTERS = 24  # addresses, counters, conditions
_SUM_REGISTERS = 1.25  # nvcc keeps operands of the next step beside the sums
_AXES = ("threadIdx.z", "threadIdx.y", "threadIdx.x")


@dataclass(frozen=True)
class SharedOperands:
    """What goes through shared memory: the input ("step" of the reduction, whole "block", or not), and weights."""

    note: str
    input: str = ""
    weights: bool = False


STAGINGS = (
    SharedOperands("input and weights through shared memory", "step", weights=True),
    SharedOperands("the whole input in shared memory", "block"),
    SharedOperands("the whole input, and weights step by step, in shared memory", "block", weights=True),
    SharedOperands("weights through shared memory", "", weights=True),
    SharedOperands("sums in registers"),
)
"""All structures, the most general first."""


@dataclass(frozen=True)
class BlockTile:
    """See `Design`."""

    analysis: BlockAnalysis
    tile: Tile
    staging: SharedOperands
    limits: BlockLimits

    @property
    def name(self) -> str:
        """For people."""
        return f"tiles of blocks: {self.staging.note}"

    @cached_property
    def axes(self) -> dict[str, int]:
        """The spatial axes of a tile by name, in the order of threadIdx.z, y and x."""
        found = {"row": self.tile.row, "pixel": self.tile.pixel, "channel": self.tile.channel}
        return {name: axis for name, axis in found.items() if axis is not None}

    @property
    def choices(self) -> tuple[DesignChoice, ...]:
        """Splits of loops, then stages of copies where the target copies asynchronously."""
        return (*self.splits, *([CopyStages()] if self._runs_ahead else []))

    @cached_property
    def splits(self) -> tuple[LoopSplit, ...]:
        """Blocks, threads and registers of each axis; outer and inner steps of the sums."""
        extents = self.tile.anchor.spatial_extents
        spatial = [LoopSplit(name, extents[axis], 3, _MOST[name]) for name, axis in self.axes.items()]
        sums = self.tile.anchor.reduction_extents
        depth = max(range(len(sums)), key=lambda number: sums[number])
        return (
            *spatial,
            *(
                LoopSplit(f"sum{number}", extent, 2, _MOST_DEPTH if number == depth else _MOST_WINDOW)
                for number, extent in enumerate(sums)
            ),
        )

    def apply(self, sch: Schedule, sizes: Sizes | None) -> None:
        """Schedule the function."""
        tile, anchor = self.tile, sch.get_sblock(self.tile.anchor.name)
        copied = self._copied_stage()
        for name in (*(name for name in tile.before if name != copied), *tile.after[:-1]):
            sch.compute_inline(sch.get_sblock(name))
        if tile.after:
            last = sch.get_sblock(tile.after[-1])
            sch.set_scope(anchor, 0, "local")
        else:
            last = sch.cache_write(anchor, 0, "local")
        packed = self.analysis.weights()
        for number, read in enumerate(tile.anchor.reads()):
            if any(read.source.same_as(weight) for weight in packed):
                pack_last(sch, anchor, tile.anchor, number, tile.channel)
        at, outer_sums, threads = self._loops(sch, anchor, sizes)
        sch.reverse_compute_at(last, at, preserve_unit_loops=True)
        step = outer_sums[-1]
        if self._runs_ahead:
            step = sch.fuse(*outer_sums)
            CopyStages().annotate(sch, step, sizes)
        self._stage(sch, anchor, at, step, threads)
        sch.decompose_reduction(anchor, step if self._runs_ahead else self._first_sum(sch, anchor))

    def _loops(
        self, sch: Schedule, anchor: SBlockRV, sizes: Sizes | None
    ) -> tuple[LoopRV, list[LoopRV], dict[str, ExprRV]]:
        """Split, order and bind the loops of the sums: the innermost bound loop, the outer sums, the threads."""
        loops = sch.get_loops(anchor)
        rank = len(self.tile.anchor.spatial)
        grid, inner, outer_sums, inner_sums, registers = {}, {}, [], [], []
        extents: dict[str, ExprRV] = {}
        by_name = {split.name: split for split in self.splits}
        thread_axes = _AXES[-len(self.axes) :]
        for (name, axis), thread in zip(self.axes.items(), thread_axes, strict=True):
            (grid[axis], inner[thread], own), factors = by_name[name].split(sch, loops[axis], sizes)
            extents[thread] = factors[1]
            registers.append(own)
        for number, loop in enumerate(loops[rank:]):
            (slow, fast), _ = by_name[f"sum{number}"].split(sch, loop, sizes)
            outer_sums.append(slow)
            inner_sums.append(fast)
        order = [grid.get(axis, loop) for axis, loop in enumerate(loops[:rank])]
        sch.reorder(*order, *inner.values(), *outer_sums, *inner_sums, *registers)
        others, tiled = order[: min(grid)], order[min(grid) :]
        blocks = [sch.fuse(*others, tiled[0]) if others else tiled[0], *tiled[1:]]
        while len(blocks) > len(self.axes):
            blocks = [sch.fuse(blocks[0], blocks[1]), *blocks[2:]]
        for axis_name, loop in zip(("blockIdx.z", "blockIdx.y", "blockIdx.x")[-len(blocks) :], blocks, strict=True):
            sch.bind(loop, axis_name)
        for thread, loop in inner.items():
            sch.bind(loop, thread)
        return inner["threadIdx.x"], outer_sums, extents

    def _stage(self, sch: Schedule, anchor: SBlockRV, block: LoopRV, step: LoopRV, threads: dict[str, ExprRV]) -> None:
        """Copy operands into shared memory."""
        for number, read in enumerate(self.tile.anchor.reads()):
            weight = self._is_shared_by_pixels(read)
            if not (self.staging.weights if weight else self.staging.input):
                continue
            at = step if weight or self.staging.input == "step" else block
            made = None if weight else self._copied_stage()
            copy = sch.get_sblock(made) if made else sch.cache_read(anchor, number, "shared")
            if made:
                sch.set_scope(copy, 0, "shared")
            sch.compute_at(copy, at, preserve_unit_loops=True)
            bind_copy(sch, copy, at, threads)

    def _first_sum(self, sch: Schedule, anchor: SBlockRV) -> LoopRV:
        count = len(self.tile.anchor.reduction)
        return sch.get_loops(anchor)[-(2 * count + len(self.axes))]

    def _copied_stage(self) -> str | None:
        """The stage before the sums that writes their input: it becomes the copy into shared memory."""
        if not self.staging.input:
            return None
        inputs = [read for read in self.tile.anchor.reads() if not self._is_shared_by_pixels(read)]
        for stage in self.analysis.stages:
            if stage.name in self.tile.before and stage.block.writes[0].source.same_as(inputs[0].source):
                return stage.name
        return None

    @cached_property
    def _runs_ahead(self) -> bool:
        """Whether steps copy what asynchronous copies can: whole words, unchanged or zero."""
        in_steps = self.staging.weights or self.staging.input == "step"
        if not (self.limits.copies_asynchronously and in_steps):
            return False
        copied = self._copied_stage() if self.staging.input == "step" else None
        if copied and not copies_words(self.analysis, self.tile.before, copied):
            return False
        return all(is_of_words(read.source) for read in self.tile.anchor.reads())

    def _is_shared_by_pixels(self, read: BufferRegion) -> bool:
        """Whether all pixels read the same elements of an operand."""
        axes = [axis for name, axis in self.axes.items() if name != "channel"]
        return all(dimension_of(read, self.tile.anchor, axis) is None for axis in axes)

    @cached_property
    def _coefficients(self) -> tuple[tuple[bool, tuple[tuple[int, ...], ...]], ...]:
        """For each operand: whether pixels share it, and the coefficients of all axes in each of its indices."""
        anchor = self.tile.anchor
        variables = [axis.var for axis in (*anchor.spatial, *anchor.reduction)]
        found = []
        for read in anchor.reads():
            rows = []
            for item in read.region:
                parts = sym.detect_linear_equation(item.min, variables)
                rows.append(tuple(abs(int(part)) for part in parts[:-1]) if parts else ())
            found.append((self._is_shared_by_pixels(read), tuple(rows)))
        return tuple(found)

    def _elements(self, rows: tuple[tuple[int, ...], ...], extents: tuple[int, ...]) -> int:
        """Elements of the box that a step touches."""
        return prod(1 + sum(a * (extent - 1) for a, extent in zip(row, extents, strict=True)) for row in rows)

    @property
    def computable(self) -> bool:
        """Whether the structure makes sense: affine indices, and operands that several threads share."""
        if not all(row for _, rows in self._coefficients for row in rows):
            return False
        if self.tile.pixel is None:
            return not self.staging.input and not self.staging.weights
        shared = [weight for weight, _ in self._coefficients]
        if self.staging.weights and (True not in shared or self.tile.per_channel):
            return False
        return not self.staging.input or shared.count(False) == 1

    def _copied_elements(self, sizes: Sizes) -> tuple[int, int]:
        """Elements in shared memory that are copied once for a block, and those copied in each step."""
        box = [prod(sizes[name][1:]) for name in self.axes]
        inner = [sizes[f"sum{number}"][1] for number in range(len(self.tile.anchor.reduction))]
        known = self._known_copies.get((*box, *inner))
        if known is None:
            known = self._known_copies[(*box, *inner)] = self._copied_for(box, inner)
        return known

    @cached_property
    def _known_copies(self) -> dict[tuple[int, ...], tuple[int, int]]:
        """What `_copied_elements` has found so far, by the tile of a block and the steps of its sums."""
        return {}

    def _copied_for(self, box: Sequence[int], inner: Sequence[int]) -> tuple[int, int]:
        anchor = self.tile.anchor
        spatial = [1] * len(anchor.spatial)
        for axis, extent in zip(self.axes.values(), box, strict=True):
            spatial[axis] = extent
        whole = [extent_of(axis) for axis in anchor.reduction]
        once = steps = 0
        for weight, rows in self._coefficients:
            if (weight and self.staging.weights) or (not weight and self.staging.input == "step"):
                steps += self._elements(rows, (*spatial, *inner))
            elif not weight and self.staging.input == "block":
                once += self._elements(rows, (*spatial, *whole))
        return once, steps

    def fault(self, sizes: Sizes) -> str | None:
        """Why decisions cannot work."""
        threads, sums, operands = self._counts(sizes)
        if sums > MOST_SUMS:
            return f"{sums} sums are more than the registers of a thread hold ({MOST_SUMS})"
        if "row" in sizes and sizes["row"][1] > MOST_THREADS_Z:
            return f"{sizes['row'][1]} threads along z are more than a block has ({MOST_THREADS_Z})"
        outputs = prod(self.tile.anchor.spatial_extents[axis] for axis in self.axes.values())
        registers = int(_SUM_REGISTERS * sums) + operands + _OTHER_REGISTERS
        fewest = min(WARP, max(1, outputs // 2))
        steps = prod(sizes[f"sum{number}"][0] for number in range(len(self.tile.anchor.reduction)))
        return stages_fault(sizes, steps) or self.limits.fault(threads, registers, self._shared_bytes(sizes), fewest)

    def _shared_bytes(self, sizes: Sizes) -> int:
        """Bytes of shared memory, of all stages."""
        once, steps = self._copied_elements(sizes)
        return SUM_BYTES * once + stages_bytes(SUM_BYTES * steps, stages_of(sizes), 2)

    def _counts(self, sizes: Sizes) -> tuple[int, int, int]:
        """Threads of a block; sums and operands of a thread."""
        threads = sums = 1
        operands = 0
        pixels = 1
        for name in self.axes:
            _, along, registers = sizes[name]
            threads, sums = threads * along, sums * registers
            if name == "channel":
                operands += registers
            else:
                pixels *= registers
        return threads, sums, operands + pixels

    def cycles(self, sizes: Sizes) -> float:
        """Cycles: instructions that four schedulers issue, or what one warp waits for, times turns of blocks."""
        threads, sums, _ = self._counts(sizes)
        once, copied = self._copied_elements(sizes)
        anchor = self.tile.anchor
        others = prod(e for axis, e in enumerate(anchor.spatial_extents) if axis not in self.axes.values())
        blocks = others * prod(sizes[name][0] for name in self.axes)
        outer = prod(sizes[f"sum{number}"][0] for number in range(len(anchor.reduction)))
        inner = prod(anchor.reduction_extents) // outer
        warps = ceil(threads / WARP)
        staged = bool(self.staging.input) + self.staging.weights
        loads = self._loads(sizes)
        wait = _FAR if self.tile.pixel is None else _NEAR * (2 - staged)
        step = max((sums + loads + 2) * warps / 4, sums + loads + 8 + wait)
        rounds = ceil(copied / threads) * outer + ceil(once / threads)
        waited = waits(_LATENCY, outer, stages_of(sizes), inner * step) if copied else 0.0
        waited += _LATENCY * (bool(once) + (not staged))
        block = outer * inner * step + max(rounds * 8 * warps / 4, rounds * 8) + waited
        held = self.limits.held(threads, self._shared_bytes(sizes))
        turns = ceil(blocks / self.limits.multiprocessors)
        return float(turns * block / min(held, turns) ** _OVERLAP)

    def _loads(self, sizes: Sizes) -> float:
        """What loads of one step of the sums cost, in instructions: those through L1 compute addresses, and test."""
        channels = sizes["channel"][2]
        pixels = self._counts(sizes)[1] // channels
        vector = min(4, channels & -channels) if self.staging.weights else 1
        weights = channels / vector if self.staging.weights else 2 * channels
        inputs = pixels * (channels if self.tile.per_channel else 1)
        return weights + inputs * (1 if self.staging.input else 4 if self.tile.pad else 2)

    def likely(self) -> Iterator[Sizes]:
        """Tiles of a warp to 256 threads; sums of up to 32 in registers; steps as long as shared memory allows."""
        names = list(self.axes)
        extents = [self.tile.anchor.spatial_extents[axis] for axis in self.axes.values()]
        outputs = prod(extents)
        per_axis = [list(_splits(name, extent)) for name, extent in zip(names, extents, strict=True)]
        sums = self.tile.anchor.reduction_extents
        depth = max(range(len(sums)), key=lambda number: sums[number])
        for found in product(*per_axis):
            sizes = dict(zip(names, found, strict=True))
            threads, held, _ = self._counts(sizes)
            if held <= _LIKELY_SUMS and min(WARP, outputs // 2) <= threads <= _LIKELY_THREADS:
                for long in _steps(sums[depth], _MOST_DEPTH) if self._steps_matter else (1,):
                    split = {
                        f"sum{number}": (extent // part, part)
                        for number, extent in enumerate(sums)
                        for part in (long if number == depth else extent if extent <= _MOST_WINDOW else 1,)
                    }
                    steps = prod(outer for outer, _ in split.values())
                    yield from ({**sizes, **split, **stages} for stages in stage_options(self._runs_ahead, steps))

    @property
    def _steps_matter(self) -> bool:
        return self.staging.weights or self.staging.input == "step"


_LATENCY = 600.0  # cycles between the request of a copy and its end, barriers included
_NEAR, _FAR = 10.0, 75.0  # what a step waits for an operand in L1, and for one that is read once, reads ahead included
_OVERLAP = 0.6  # several blocks on a multiprocessor hide each other's waits in part
_LIKELY_SUMS, _LIKELY_THREADS = 32, 256
_MOST_ALONG = {"row": 16, "pixel": 32, "channel": 64}  # threads


def _steps(extent: int, limit: int) -> list[int]:
    """The three longest steps of at most `limit`."""
    return [divisor for divisor in divisors(extent) if divisor <= limit][-3:]


def _splits(name: str, extent: int) -> Iterator[tuple[int, int, int]]:
    """Likely splits of an axis."""
    whole = 8 if name == "channel" and extent % 8 == 0 else 1  # channels of adjacent threads: whole sectors of memory
    for registers in divisors(extent):
        if registers <= _MOST[name] and (name != "channel" or registers & (registers - 1) == 0):
            for along in divisors(extent // registers):
                if along <= _MOST_ALONG[name] and along * registers % whole == 0:
                    yield extent // registers // along, along, registers


def block_tiles(analysis: BlockAnalysis, tile: Tile, limits: BlockLimits) -> Iterator[BlockTile]:
    """The designs that fit a kernel."""
    for staging in STAGINGS:
        found = BlockTile(analysis, tile, staging, limits)
        if found.computable:
            yield found
