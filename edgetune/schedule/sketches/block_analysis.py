"""Analysis of unscheduled kernels: their stages in order, the stages' axes, and how stages read each other.

A stage is one block under the root with one loop per block axis. Functions with another structure have no analysis.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

from tvm import s_tir, sym, tirx
from tvm.s_tir import Schedule

from edgetune.affine.domain import Domain
from edgetune.affine.expressions import expressions, is_branch, is_choice, is_one, is_zero, mentions
from edgetune.graph.element_type import element_bytes
from edgetune.graph.kernels import FREE_LAYOUTS
from edgetune.graph.memoise import memoised
from edgetune.tvm_types import (
    BufferStore,
    For,
    IterVar,
    LoopRV,
    Node,
    PrimFunc,
    SBlock,
    Stmt,
    TvmBuffer,
)

COMPUTED_ONCE = "edgetune.computed_once"
"""Annotation of a block that no reader computes again."""

MOST_LANES = "edgetune.most_lanes"
"""Attribute of a function: the most elements of its vectors."""

TILE_PIXELS = "edgetune.tile_pixels"
"""Attribute of a function: the pixels of its tiles, or a multiple of them."""

_REDUCTION = 2  # tirx.IterVar.CommReduce
_SPATIAL = 0  # tirx.IterVar.DataPar


@dataclass(frozen=True)
class BlockStage:
    """One block. `spatial` and `reduction` are its axes, with constant extents, in the order of its loops."""

    name: str
    block: SBlock
    spatial: tuple[IterVar, ...]
    reduction: tuple[IterVar, ...]

    @property
    def spatial_extents(self) -> tuple[int, ...]:
        """Extents of the spatial axes, outermost first."""
        return tuple(extent_of(axis) for axis in self.spatial)

    @property
    def reduction_extents(self) -> tuple[int, ...]:
        """Extents of the reduction axes, outermost first."""
        return tuple(extent_of(axis) for axis in self.reduction)

    @property
    def work(self) -> int:
        """Number of executions of the body."""
        return prod(self.spatial_extents) * prod(self.reduction_extents)

    @cached_property
    def domain(self) -> Domain:
        """The places of all axes."""
        return Domain.of_block((*self.spatial, *self.reduction))

    def analyzer(self) -> sym.Analyzer:
        """An analyzer that knows the extents of all axes."""
        return self.domain.analyzer

    def writes_its_axes(self) -> bool:
        """Whether the stage writes one buffer, at exactly its spatial axes in their order."""
        if len(self.block.writes) != 1:
            return False
        region = self.block.writes[0].region
        if len(region) != len(self.spatial):
            return False
        return all(_is_point(item, axis) for item, axis in zip(region, self.spatial, strict=True))

    def writes_along_its_axes(self) -> bool:
        """Whether each index of the one buffer written follows at most one spatial axis, all of them in their order.

        This also holds for overlapping blocks, where two places of an axis are one element, and where two axes became
        one.
        """
        if len(self.block.writes) != 1 or not all(is_one(item.extent) for item in self.block.writes[0].region):
            return False
        found: list[int] = []
        for item in self.block.writes[0].region:
            axes = [n for n, axis in enumerate((*self.spatial, *self.reduction)) if mentions(item.min, axis.var)]
            if len(axes) > 1 or (not axes and not is_zero(item.min)):
                return False
            found += axes
        wanted = [n for n, axis in enumerate(self.spatial) if extent_of(axis) > 1]
        return found == sorted(found) and set(wanted) <= set(found) and max(found, default=0) < len(self.spatial)

    def branches(self) -> bool:
        """Whether the value depends on a condition (padding, or another selection by position)."""
        return any(is_choice(node) for store in stores(self.block.body) for node in expressions(store.value))

    def branches_along(self, axis: IterVar) -> bool:
        """Whether the value depends on a condition that changes along `axis`, and selects by a branch, as padding."""
        values = (node for store in stores(self.block.body) for node in expressions(store.value))
        calls = (node for node in values if is_branch(node))
        return any(mentions(call.args[0], axis.var) for call in calls)

    def reads(self) -> tuple[Node, ...]:
        """Regions read, except those of the written buffers (a reduction reads its own output)."""
        written = [region.source for region in self.block.writes]
        return tuple(r for r in self.block.reads if not any(r.source.same_as(w) for w in written))


@dataclass(frozen=True)
class BlockAnalysis:
    """Stages in order of execution. `outputs` names stages that write a parameter of the function."""

    function: PrimFunc
    stages: tuple[BlockStage, ...]
    outputs: tuple[str, ...]

    @property
    def reductions(self) -> tuple[BlockStage, ...]:
        """Stages with a reduction axis (of any extent)."""
        return tuple(stage for stage in self.stages if stage.reduction)

    def stage(self, name: str) -> BlockStage:
        """The stage called `name`."""
        return next(stage for stage in self.stages if stage.name == name)

    def packed(self) -> tuple[TvmBuffer, ...]:
        """Parameters with a free layout: weights that are packed when the package is built."""
        free = self.function.attrs.get(FREE_LAYOUTS) if self.function.attrs else None
        return tuple(self.function.params[int(index)] for index in free or ())

    def attribute(self, name: str) -> int | None:
        """The value of one of the function attributes above; None if the function does not have it."""
        found = self.function.attrs.get(name) if self.function.attrs else None
        return None if found is None else int(found)

    def weights(self) -> tuple[TvmBuffer, ...]:
        """Buffers whose layout follows `packed`: these, and tensors computed from them element by element."""
        found = list(self.packed())
        for stage in self.stages:
            reads = stage.reads()
            if stage.reduction or len(reads) != 1 or not stage.writes_its_axes() or stage.branches():
                continue
            source, region = reads[0].source, reads[0].region
            same = len(region) == len(stage.spatial) and all(
                item.min.same_as(axis.var) for item, axis in zip(region, stage.spatial, strict=True)
            )
            if same and any(source.same_as(weight) for weight in found):
                found.append(stage.block.writes[0].source)
        return tuple(found)


@memoised(64)
def analyse_blocks(function: PrimFunc) -> BlockAnalysis | None:
    """The analysis of an unscheduled PrimFunc; None if it is not a sequence of plain stages with constant extents."""
    root = function.body
    if not isinstance(root, s_tir.SBlockRealize):
        return None
    stages: list[BlockStage] = []
    for statement in statements_of(root.block.body):
        stage = stage_of(statement)
        if stage is None:
            return None
        stages.append(stage)
    if not stages or len({stage.name for stage in stages}) != len(stages):
        return None
    params = set(function.params)
    outputs = tuple(s.name for s in stages if any(write.source in params for write in s.block.writes))
    return BlockAnalysis(function, tuple(stages), outputs)


def stage_of(statement: Stmt) -> BlockStage | None:
    """The plain stage that a statement is; None if it is anything else."""
    loops: list[For] = []
    while isinstance(statement, tirx.For):
        if int(statement.kind) != int(tirx.ForKind.SERIAL) or not is_zero(statement.min):
            return None
        loops.append(statement)
        statement = statement.body
    if not isinstance(statement, s_tir.SBlockRealize) or not is_one(statement.predicate):
        return None
    block = statement.block
    if len(loops) != len(block.iter_vars):
        return None
    for axis, value, loop in zip(block.iter_vars, statement.iter_values, loops, strict=True):
        if not value.same_as(loop.loop_var) or int(axis.iter_type) not in {_SPATIAL, _REDUCTION}:
            return None
        if not isinstance(axis.dom.extent, tirx.IntImm) or not is_zero(axis.dom.min):
            return None
    kinds = [int(axis.iter_type) for axis in block.iter_vars]
    if kinds != sorted(kinds):
        return None
    spatial = tuple(axis for axis in block.iter_vars if int(axis.iter_type) == _SPATIAL)
    return BlockStage(str(block.name_hint), block, spatial, tuple(block.iter_vars[len(spatial) :]))


def statements_of(body: Stmt) -> list[Stmt]:
    """The statements of a body in order."""
    return list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]


def block_of(statement: Stmt) -> SBlock:
    """The block inside perfectly nested loops."""
    while isinstance(statement, tirx.For):
        statement = statement.body
    return statement.block


def stores(statement: Stmt) -> Iterator[BufferStore]:
    """All stores in a block's body."""
    if isinstance(statement, tirx.BufferStore):
        yield statement
    elif isinstance(statement, tirx.SeqStmt):
        for child in statement.seq:
            yield from stores(child)
    else:
        for field in ("body", "then_case", "else_case"):
            child = getattr(statement, field, None)
            if child is not None:
                yield from stores(child)


def _is_point(item: Node, axis: IterVar) -> bool:
    """Whether a range of a region is exactly the one element that `axis` indexes."""
    return is_one(item.extent) and (item.min.same_as(axis.var) or (extent_of(axis) == 1 and is_zero(item.min)))


@memoised(64)
def widest_element_bytes(function: PrimFunc) -> int:
    """Bytes of the widest type in memory among the tensors of an unscheduled PrimFunc.

    Sums and other intermediate tensors count: int8 products are summed in int32.
    """
    analysis = analyse_blocks(function)
    written = [write.source for stage in analysis.stages for write in stage.block.writes] if analysis else []
    return max(map(element_bytes, (*function.params, *written)), default=4)


def lanes_in(bits: int, function: PrimFunc) -> int:
    """Elements of the widest type among the tensors of an unscheduled PrimFunc in a vector of `bits`; at least 1."""
    return max(1, bits // (8 * widest_element_bytes(function)))


def extent_of(axis: IterVar) -> int:
    """Constant extent of a block axis."""
    return int(axis.dom.extent.value)


def known_extent(sch: Schedule, loop: LoopRV) -> int | None:
    """Extent of a loop; None where it depends on other loops, as that over the part of a row that a window needs."""
    extent = sch.get(loop).extent
    return int(extent.value) if isinstance(extent, tirx.IntImm) else None


def loop_extent(sch: Schedule, loop: LoopRV) -> int:
    """Extent of a loop; raises RuntimeError, as TVM does for what it refuses, where it depends on other loops."""
    extent = known_extent(sch, loop)
    if extent is None:
        raise RuntimeError(f"the extent of a loop depends on other loops: {sch.get(loop).extent}")
    return extent
