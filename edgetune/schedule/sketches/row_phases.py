"""Row phases: rows of which every second to fourth element has the same formula are stored as interleaved vectors.

In an image that is made twice as wide, `x[j // 2] * 0.75 + x[max(j // 2 - 1, 0)] * 0.25` for even j, neighbours do not
read neighbours, but those of a phase do. The vectors of all phases are computed one after another, and one call stores
them interleaved (`codegen/interleaved_rows.py`). Where a place is kept within the row, the row is divided as by
`index_sets.py`: the elements at its ends are computed one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.s_tir import Schedule

from edgetune.affine.domain import Domain
from edgetune.affine.expressions import with_places
from edgetune.affine.pieces import ends_of
from edgetune.codegen.shuffles import FEWEST_LANES, has_shuffles
from edgetune.graph.element_type import type_of
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of, known_extent
from edgetune.schedule.sketches.idle_steps import with_own_variables
from edgetune.schedule.sketches.index_sets import LEAST_SHARE, MOST_PARTS, RowPart, is_whole, part_of
from edgetune.tvm_types import BufferLoad, Expr, For, LoopRV, Node, SBlock, Stmt

PHASES = "edgetune_row_phases"
"""Annotation of the loop over a row: the number of its phases."""

PHASE_LANES = "edgetune_phase_lanes"
"""Annotation of the same loop: the most lanes of a vector."""


@dataclass(frozen=True)
class _Phases:
    """The blocks of all phases, whose last axis counts the elements of a phase, and the parts in which they differ."""

    blocks: list[SBlock]
    parts: list[list[RowPart]]

    def in_vectors(self) -> int:
        """The elements of a phase that lie in parts that are vectors in all phases."""
        return sum(part[0].extent for part in self.parts if all(one.neighbours for one in part))


def divide_phases(sch: Schedule, stage: BlockStage, row: LoopRV, phases: int, native_lanes: int) -> bool:
    """Ask for the phases of a whole `row`, the innermost loop of a stage; False, and no change, where that is no gain.

    Phases of rows that nothing divides are left to compilers.
    """
    loop = sch.get(row)
    fewest, block = FEWEST_LANES.get(phases), stage.block
    if fewest is None or native_lanes < fewest or not stage.writes_its_axes() or not _has_shuffles(block):
        return False
    whole = isinstance(loop.body, s_tir.SBlockRealize) and is_whole(loop, loop.body)
    if not whole or known_extent(sch, row) != extent_of(stage.spatial[-1]):
        return False
    found = _phases(block, phases)
    count = extent_of(stage.spatial[-1]) // phases
    if found is None or len(found.parts) == 1 or found.in_vectors() < LEAST_SHARE * count:
        return False
    sch.annotate(row, PHASES, phases)
    sch.annotate(row, PHASE_LANES, native_lanes)
    return True


def phases_of_row(loop: For) -> Stmt:
    """The phases of a row that a schedule has asked for; `loop` itself where it has not."""
    if PHASES not in loop.annotations:
        return loop
    phases, most = (int(loop.annotations[key]) for key in (PHASES, PHASE_LANES))
    annotations = {key: value for key, value in loop.annotations.items() if key not in (PHASES, PHASE_LANES)}
    plain = tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, loop.body, annotations=annotations)
    realize = loop.body
    if not isinstance(realize, s_tir.SBlockRealize) or not is_whole(loop, realize):
        return plain
    found = _phases(realize.block, phases)
    if found is None:
        return plain
    statements = [one for part in found.parts for one in _statements(loop, found.blocks, part, most)]
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(statements)


def _has_shuffles(block: SBlock) -> bool:
    return all(has_shuffles(type_of(region.source)) for region in (*block.reads, *block.writes))


def _phases(block: SBlock, phases: int) -> _Phases | None:
    """The phases of a block that stores one value; None where they have too many parts."""
    if not isinstance(block.body, tirx.BufferStore):
        return None
    blocks = [_phase(block, phases, number) for number in range(phases)]
    ends: set[int] = {0}
    for one in blocks:
        own = ends_of([one.body.value], one.iter_vars[-1].var, extent_of(one.iter_vars[-1]), MOST_PARTS)
        if own is None:
            return None
        ends.update(own)
    if len(ends) - 1 > MOST_PARTS:
        return None
    parts = [
        [part_of(one.body, list(one.iter_vars), (), places) for one in blocks] for places in pairwise(sorted(ends))
    ]
    return _Phases(blocks, parts)


def _phase(block: SBlock, phases: int, number: int) -> SBlock:
    """The block of a phase: its last axis counts the elements of the phase."""
    *outer, last = block.iter_vars
    dtype = str(last.var.ty.dtype)
    dom = ir.Range.from_min_extent(tirx.IntImm(dtype, 0), tirx.IntImm(dtype, extent_of(last) // phases))
    analyzer = Domain({**Domain.of_block(outer).ranges, last.var: dom}).analyzer
    place = last.var * phases + number

    def simplified(load: BufferLoad) -> BufferLoad:
        return tirx.BufferLoad(load.source, [analyzer.simplify(index) for index in load.indices])

    def moved(node: Node) -> Node:
        return tvm_ffi.structural_map(with_places(node, {last.var: place}), (ir.TensorLoad, simplified))

    reads, writes = (
        [with_places(one, {last.var: place}) for one in regions] for regions in (block.reads, block.writes)
    )
    axes = [*outer, tirx.IterVar(dom, last.var, last.iter_type)]
    return s_tir.SBlock(axes, reads, writes, block.name_hint, moved(block.body), annotations=block.annotations)


def _statements(row: For, blocks: Sequence[SBlock], part: Sequence[RowPart], most: int) -> Iterator[Stmt]:
    """A part of all phases: whole vectors, narrower ones for the rest, and single elements."""
    first, end = part[0].first, part[0].first + part[0].extent
    lanes = most
    while all(one.neighbours for one in part) and lanes >= FEWEST_LANES[len(blocks)]:
        count = (end - first) // lanes
        if count:
            yield _vectors(row, blocks, part, (first, count, lanes))
        first += count * lanes
        lanes //= 2
    variable = row.loop_var
    if first < end:
        place = _like(row, first) if end - first == 1 else variable + first
        steps = [
            with_own_variables([], _at(row, block, place), one.store, f"phase_{number}_from_{first}")
            for number, (block, one) in enumerate(zip(blocks, part, strict=True))
        ]
        yield tirx.SeqStmt(steps) if end - first == 1 else _over(row, end - first, tirx.SeqStmt(steps))


def _vectors(row: For, blocks: Sequence[SBlock], part: Sequence[RowPart], vectors: tuple[int, int, int]) -> Stmt:
    """Vectors of all phases in turns: `vectors` is the first element, and the numbers of vectors and of lanes."""
    first, count, lanes = vectors
    lane = tirx.Var(f"{row.loop_var.name}_lane", row.loop_var.ty)
    start = row.loop_var * lanes + first if count > 1 else _like(row, first)
    turns = []
    for number, (block, one) in enumerate(zip(blocks, part, strict=True)):
        realize = _at(row, block, start + lane)
        inner = tirx.For(lane, _like(row, 0), _like(row, lanes), tirx.ForKind.VECTORIZED, realize)
        turns.append(with_own_variables([inner], realize, one.store, f"phase_{number}_from_{first}"))
    return tirx.SeqStmt(turns) if count == 1 else _over(row, count, tirx.SeqStmt(turns))


def _over(row: For, count: int, body: Stmt) -> For:
    """A loop with a variable of its own."""
    own = tirx.Var(row.loop_var.name, row.loop_var.ty)
    return tirx.For(own, _like(row, 0), _like(row, count), tirx.ForKind.SERIAL, with_places(body, {row.loop_var: own}))


def _at(row: For, block: SBlock, place: Expr) -> Stmt:
    """A block of a phase at a place of its last axis."""
    return s_tir.SBlockRealize([*list(row.body.iter_values)[:-1], place], True, block)


def _like(row: For, number: int) -> Expr:
    return tirx.IntImm(str(row.loop_var.ty.dtype), number)
