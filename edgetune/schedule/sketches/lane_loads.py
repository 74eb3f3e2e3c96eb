"""Loads along lanes: how the loads of a stage move with its last axis, and so whether vectors read neighbours."""

from __future__ import annotations

from tvm import ir, tirx

from edgetune.affine.access import Access
from edgetune.affine.domain import Domain
from edgetune.affine.expressions import expressions, is_branch
from edgetune.codegen.shuffles import steps_of_vectors
from edgetune.graph.element_type import type_of
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of, stores
from edgetune.tvm_types import BufferLoad, IterVar, SBlock

_FEWEST_SHUFFLED = 4
_SECOND = 2


def contiguous(block: SBlock, lanes: int = 1) -> bool:
    """Whether every load that depends on the last axis of `block` moves along its own last axis with stride one.

    With `lanes`, which divide the axis, the stride need be one only inside each vector of so many elements.
    """
    lane = block.iter_vars[-1].var
    values = (node for store in stores(block.body) for node in expressions(store.value))
    return all(Access.of(load).stays_or_follows(lane, lanes) for load in values if isinstance(load, ir.TensorLoad))


def in_vectors(block: SBlock, lanes: int = 1) -> bool:
    """Whether every load along the last axis of `block` is one or two vectors, at most with a shuffle.

    So are floats that lie side by side, every second one, and a row that is read from its end; `lanes` is as for
    `contiguous`.
    """
    lane = block.iter_vars[-1]
    long = extent_of(lane) >= _FEWEST_SHUFFLED
    values = (node for store in stores(block.body) for node in expressions(store.value))
    return all(
        Access.of(load).stays_or_follows(lane.var, lanes)
        or (long and _step(load, lane) in steps_of_vectors(type_of(load.source)))
        for load in values
        if isinstance(load, ir.TensorLoad)
    )


def uniform(block: SBlock) -> bool:
    """Whether each element depends only on elements at the same position of tensors of the same shape, no gaps."""
    axes = block.iter_vars
    shape = [extent_of(axis) for axis in axes]
    for region in (*block.reads, *block.writes):
        if [int(extent) for extent in region.source.shape] != shape:
            return False
        if not all(
            item.min.same_as(axis.var) or extent == 1
            for item, axis, extent in zip(region.region, axes, shape, strict=True)
        ):
            return False
    return True


def has_rows_of_terms(stage: BlockStage, *, every_second: bool = False) -> bool:
    """Whether neighbours along the last axis of a reduction's results are sums of neighbours.

    `every_second`: or of every second element of a row, which is two loads and a shuffle.
    """
    if not stage.spatial or not stage.writes_its_axes() or stage.branches_along(stage.spatial[-1]):
        return False
    lane = stage.spatial[-1]
    values = (node for store in stores(stage.block.body) for node in expressions(store.value))
    return all(
        Access.of(load).stays_or_follows(lane.var) or _step(load, lane) in (_taken_steps(load) if every_second else {1})
        for load in values
        if isinstance(load, ir.TensorLoad)
    )


def copies_every_second(block: SBlock) -> bool:
    """Whether a stage copies every second element of a row: two loads and a shuffle make a vector."""
    store = block.body
    if not isinstance(store, tirx.BufferStore) or not isinstance(store.value, ir.TensorLoad):
        return False
    return (
        _SECOND in steps_of_vectors(type_of(store.value.source))
        and Access.of(store.value).step(block.iter_vars[-1].var) == _SECOND
    )


def calls_function(block: SBlock) -> bool:
    """Whether the value needs more than copying and arithmetic: it calls a function of an element."""
    values = (node for store in stores(block.body) for node in expressions(store.value))
    return any(isinstance(node, ir.Call) and not is_branch(node) for node in values)


def _step(load: BufferLoad, lane: IterVar) -> int | None:
    """The elements by which a load moves with `lane`."""
    return Access.of(load, Domain.of_block([lane])).step(lane.var)


def _taken_steps(load: BufferLoad) -> frozenset[int]:
    return steps_of_vectors(type_of(load.source)) & {1, _SECOND}
