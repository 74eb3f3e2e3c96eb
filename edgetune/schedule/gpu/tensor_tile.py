"""Products of tiles on tensor cores: a convolution, or a product of matrices, as one product of two matrices.

Rows are the pixels of all images, columns are channels, and the sum runs over the window and the input's channels
(implicit GEMM). A block fills tiles of both operands in shared memory, zeroes where rows, columns or sums end; each of
its warps multiplies tiles of 16 x 16 x 16 elements in its registers. The sums go through shared memory once more, so
that all threads of the block compute what follows them. Elements have 16 bits, sums are float.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import ceil, gcd, prod

from tvm import ir
from tvm.s_tir import Schedule
from tvm.tirx import IndexMap

from edgetune.codegen.cuda.tile_intrinsics import (
    CLEAR,
    LEFT,
    RIGHT,
    STORE,
    SUMS,
    TILE,
    declare,
    load,
    multiply_add,
)
from edgetune.schedule.gpu.copy_stages import CopyStages, stage_options, stages_fault, stages_of, waits
from edgetune.schedule.gpu.design import PACKED, SUM_BYTES, WARP, BlockLimits, DesignChoice, LoopSplit, Sizes, bind_copy
from edgetune.schedule.gpu.matrix_roles import MatrixRoles, matrix_roles
from edgetune.schedule.sketches.block_analysis import BlockAnalysis
from edgetune.schedule.sketches.tile import Tile
from edgetune.tvm_types import LoopRV, SBlockRV

_CORES = {"float16": "fp16", "bfloat16": "bf16"}
_HALF, _VECTOR = 2, 16
_WORD = 2  # elements of the least that one asynchronous copy moves
_SKEW = 8  # elements between the rows of tiles in shared memory, so that rows lie in different banks
_AXES = ("blockIdx.y", "blockIdx.x", "threadIdx.z", "threadIdx.y")  # of blocks and warps, along rows and columns
_MOST_BLOCKS = 65535  # along y and z
_OF_TILE, _OTHER_REGISTERS = 8, 48  # registers of a thread: of one tile; addresses, counters, copies under way
_PRODUCT = 32  # cycles of one scheduler's tensor cores for 16 x 16 x 16 (NVIDIA Turing architecture, 512 a cycle)
_SHARED_PER_CYCLE, _SCHEDULERS = 128, 4  # bytes of shared memory, and schedulers, of a multiprocessor
_COPY, _ELEMENT = 16, 8  # instructions for one vector that is copied, and for one element of the last stage
_LATENCY = 600.0  # cycles between the request of a copy and its end, barriers included
_OVERLAP = 0.6  # several blocks on a multiprocessor hide each other's waits in part
_WARPS, _TILES, _STEPS = (1, 2, 4), (1, 2, 4), (1, 2, 4)


@dataclass(frozen=True)
class PaddedSplit(LoopSplit):
    """A decision about an axis of `extent` tiles, to which the split adds tiles of zeroes, fewer than one block has."""

    inner: tuple[tuple[int, ...], ...] = ()

    def options(self) -> Iterator[tuple[int, ...]]:
        """Splits whose inner loops are one of `inner`; at most half of the only block is zeroes."""
        for inner in self.inner:
            if prod(inner) < 2 * self.extent:
                yield (ceil(self.extent / prod(inner)), *inner)


@dataclass(frozen=True)
class TensorTile:
    """See `Design`."""

    analysis: BlockAnalysis
    tile: Tile
    roles: MatrixRoles
    limits: BlockLimits
    name: str = "tiles of 16 x 16 on tensor cores"

    @property
    def choices(self) -> tuple[DesignChoice, ...]:
        """Splits of loops, then stages of copies where the target copies asynchronously."""
        return (*self.splits, *([CopyStages()] if self._runs_ahead else []))

    @cached_property
    def splits(self) -> tuple[PaddedSplit, ...]:
        """Blocks, warps and tiles of a warp along rows and columns; steps of the sum, and tiles of one step."""
        inner = tuple((warps, tiles) for warps in _WARPS for tiles in _TILES)
        rows, columns, sums = (ceil(extent / TILE) for extent in self.roles.extents)
        return (
            PaddedSplit("rows", rows, 3, max(_TILES), inner),
            PaddedSplit("columns", columns, 3, max(_TILES), inner),
            PaddedSplit("sums", sums, 2, max(_STEPS), tuple((steps,) for steps in _STEPS)),
        )

    def apply(self, sch: Schedule, sizes: Sizes | None) -> None:
        """Schedule the function."""
        declare()
        anchor = sch.get_sblock(self.tile.anchor.name)
        last = self._as_product(sch, anchor)
        padding = [TILE * (prod(sizes[split.name][1:]) if sizes else 1) for split in self.splits]
        sch.pad_einsum(anchor, [*self.roles.ones, *padding])
        self._inline_results(sch, anchor, padding)
        outer, blocks, warps, (step, inner) = self._loops(sch, anchor, sizes)
        if self._runs_ahead:
            CopyStages().annotate(sch, step, sizes)
        self._fill(sch, outer, step, inner, warps)
        self._sum(sch, anchor, outer, step, warps[-1])
        for stored in sch.get_producers(last):
            sch.storage_align(stored, 0, -2, TILE, _SKEW // 2)
        sch.reverse_compute_at(last, blocks[-1], preserve_unit_loops=True)
        together = gcd(self.roles.extents[1], _VECTOR // _HALF)
        bind_copy(sch, last, blocks[-1], self._threads(sch, warps), together)

    def fault(self, sizes: Sizes) -> str | None:
        """Why decisions cannot work."""
        (row_blocks, row_warps, rows), (_, column_warps, columns) = sizes["rows"], sizes["columns"]
        if max(row_blocks, self.roles.others) > _MOST_BLOCKS:
            return f"{max(row_blocks, self.roles.others)} blocks are more than a grid has ({_MOST_BLOCKS})"
        registers = _OF_TILE * (rows * columns + rows + columns) + _OTHER_REGISTERS
        limited = self.limits.fault(WARP * row_warps * column_warps, registers, sum(self._shared_bytes(sizes)))
        return stages_fault(sizes, sizes["sums"][0]) or limited

    @cached_property
    def _runs_ahead(self) -> bool:
        """Whether asynchronous copies can fill tiles: rows of both operands in memory have whole words."""
        if not self.limits.copies_asynchronously:
            return False
        reads = self.tile.anchor.reads()
        free = [self.roles.right] if self.roles.packed else []
        rows = [int(read.source.ty.shape[-1]) for number, read in enumerate(reads) if number not in free]
        return all(row % _WORD == 0 for row in rows)

    def _shared_bytes(self, sizes: Sizes) -> tuple[int, int]:
        """Bytes of both operands, of all stages, and of a block's sums, in shared memory."""
        rows, columns, sums = (TILE * prod(sizes[split.name][1:]) for split in self.splits)
        operands = _HALF * (rows * (sums + _SKEW) + sums * (columns + _SKEW))
        return stages_of(sizes) * operands, SUM_BYTES * rows * (columns + _SKEW // 2)

    def cycles(self, sizes: Sizes) -> float:
        """Cycles: products, copies and the last stage, each as four schedulers issue them; times turns of blocks."""
        (row_blocks, row_warps, rows), (column_blocks, column_warps, columns) = sizes["rows"], sizes["columns"]
        steps, inner = sizes["sums"]
        warps = row_warps * column_warps
        operands, sums = self._shared_bytes(sizes)
        loaded = warps * (rows + columns) * _HALF * TILE**2 / _SHARED_PER_CYCLE
        products = inner * max(ceil(warps / _SCHEDULERS) * rows * columns * _PRODUCT, loaded)
        pieces = ceil(operands / stages_of(sizes) / _VECTOR / (WARP * warps))
        copied = pieces * _COPY * max(1, warps / _SCHEDULERS)
        finished = ceil(sums / SUM_BYTES / (WARP * warps)) * _ELEMENT * max(1, warps / _SCHEDULERS)
        waited = waits(_LATENCY, steps, stages_of(sizes), products)
        block = steps * (products + copied) + waited + finished + _LATENCY
        turns = ceil(self.roles.others * row_blocks * column_blocks / self.limits.multiprocessors)
        held = self.limits.held(WARP * warps, operands + sums)
        return float(turns * block / min(held, turns) ** _OVERLAP)

    def likely(self) -> Iterator[Sizes]:
        """All decisions."""
        names = [split.name for split in self.splits]
        for found in product(*(split.options() for split in self.splits)):
            sizes = dict(zip(names, found, strict=True))
            yield from ({**sizes, **stages} for stages in stage_options(self._runs_ahead, found[-1][0]))

    def _as_product(self, sch: Schedule, anchor: SBlockRV) -> SBlockRV:
        """Give the sums, their operands and the last stage the axes of a product; the last stage."""
        tile, roles = self.tile, self.roles
        operands = [(sch.reindex(anchor, ("read", n)), n) for n in (roles.left, roles.right)]
        result = sch.reindex(anchor, ("write", 0))
        block = sch.get(anchor)
        numbers = {axis.var: number for number, axis in enumerate(block.iter_vars)}
        for operand, number in operands:
            kept = [numbers[item.min] for item in block.reads[number].region]
            sch.transform_layout(operand, ("write", 0), _joined(roles, kept, turned=number == roles.right))
        kept = [numbers[item.min] for item in block.writes[0].region]
        sch.transform_layout(result, ("read", 0), _joined(roles, kept))
        sch.transform_block_layout(anchor, _joined(roles, range(len(numbers))))
        for name in (*tile.before, *tile.after[:-1]):
            sch.compute_inline(sch.get_sblock(name))
        spatial = _joined(roles, range(len(tile.anchor.spatial)))
        if not tile.after:
            sch.transform_block_layout(result, spatial)
            return result
        sch.compute_inline(result)
        last = sch.get_sblock(tile.after[-1])
        sch.transform_block_layout(last, spatial)
        return last

    def _inline_results(self, sch: Schedule, anchor: SBlockRV, padding: Sequence[int]) -> None:
        """Have the last stage read the sums where the product leaves them, in shared memory."""
        sch.set_scope(anchor, 0, "shared")
        if any(extent % along for extent, along in zip(self.roles.extents[:2], padding[:2], strict=True)):
            for crop in sch.get_consumers(anchor):
                sch.compute_inline(crop)

    def _loops(
        self, sch: Schedule, anchor: SBlockRV, sizes: Sizes | None
    ) -> tuple[SBlockRV, list[LoopRV], list[LoopRV], list[LoopRV]]:
        """Split, order and bind the loops: the block of one tile, loops of blocks and warps, and those of the sum."""
        *others, rows, columns, sums = sch.get_loops(anchor)
        parts, tiles = [], []
        for split, loop in zip(self.splits, (rows, columns, sums), strict=True):
            whole, inside = sch.split(loop, [None, TILE])
            parts.append(split.split(sch, whole, sizes)[0])
            tiles.append(inside)
        (row_block, row_warp, row), (column_block, column_warp, column), (step, inner) = parts
        blocks, warps = [row_block, column_block], [row_warp, column_warp]
        sch.reorder(*others, *blocks, *warps, step, inner, row, column, *tiles)
        for loop in others:
            sch.bind(loop, "blockIdx.z")
        for loop, axis in zip((*blocks, *warps), _AXES, strict=True):
            sch.bind(loop, axis)
        return sch.blockize(tiles[0]), blocks, warps, [step, inner]

    def _threads(self, sch: Schedule, warps: Sequence[LoopRV]) -> dict[str, object]:
        rows, columns = (int(sch.get(loop).extent) for loop in warps)
        return {"threadIdx.z": rows, "threadIdx.y": columns, "threadIdx.x": WARP}

    def _fill(self, sch: Schedule, outer: SBlockRV, step: LoopRV, inner: LoopRV, warps: Sequence[LoopRV]) -> None:
        """Copy the operands into shared memory, and load tiles from there."""
        threads = self._threads(sch, warps)
        for number, scope in ((self.roles.left, LEFT), (self.roles.right, RIGHT)):
            copy = sch.cache_read(outer, number, "shared")
            source = copy
            if number == self.roles.right and self.roles.packed:
                (source,) = sch.get_producers(copy)
                sch.annotate(source, PACKED, True)
            while made := list(sch.get_producers(source)):
                for producer in made:
                    sch.compute_inline(producer)
            sch.compute_at(copy, step, preserve_unit_loops=True)
            bind_copy(sch, copy, step, threads)
            sch.storage_align(copy, 0, -2, TILE, _SKEW)
            loaded = sch.cache_read(outer, number, scope)
            sch.compute_at(loaded, inner, preserve_unit_loops=True)
            sch.tensorize(_tile_loop(sch, loaded), load(scope, self.roles.of))

    def _sum(self, sch: Schedule, anchor: SBlockRV, outer: SBlockRV, step: LoopRV, warp: LoopRV) -> None:
        """Clear, sum up and store tiles."""
        stored = sch.cache_write(outer, 0, SUMS)
        sch.reverse_compute_at(stored, warp, preserve_unit_loops=True)
        sch.tensorize(_tile_loop(sch, stored), STORE)
        cleared = sch.decompose_reduction(outer, step)
        (element,) = sch.get_child_blocks(cleared)
        sch.tensorize(sch.get_loops(element)[-2], CLEAR)
        sch.tensorize(sch.get_loops(anchor)[-3], multiply_add(self.roles.of))


def tensor_tiles(analysis: BlockAnalysis, tile: Tile, limits: BlockLimits) -> Iterator[TensorTile]:
    """The design, if the kernel is a product of elements that the target's tensor cores multiply."""
    roles = None if tile.overlaps else matrix_roles(analysis, tile.anchor)
    if roles is not None and _CORES.get(roles.of) in limits.tensor_cores:
        yield TensorTile(analysis, tile, roles, limits)


def _joined(roles: MatrixRoles, numbers: Sequence[int], *, turned: bool = False) -> IndexMap:
    """Axes with those numbers as axes of a product; `turned` has steps of the sum before columns."""

    def joined(*axes: ir.Expr) -> list[ir.Expr]:
        found = roles.fused(numbers, axes)
        return [*found[:-2], found[-1], found[-2]] if turned else found

    return IndexMap.from_func(joined, ndim=len(numbers))


def _tile_loop(sch: Schedule, block: SBlockRV) -> LoopRV:
    """The loop over the rows of a tile, which a copy of tiles is split into."""
    rows, columns = sch.get_loops(block)[-2:]
    (row, inside), (column, along) = (sch.split(loop, [None, TILE]) for loop in (rows, columns))
    sch.reorder(row, column, inside, along)
    return inside
