"""Nested sums: a reduction over the results of another one runs around it, so that these are never stored together.

In `sum(part[p, i] for p)` with `part[p, i] = sum(x[p, k, i] for k)`, one row of parts is computed for each p and added
to the row of results. Parts of very long sums are of this form (`graph/long_sums.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm.s_tir import Schedule

from edgetune.schedule.rules.tiling import axes_of, loads_of
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of
from edgetune.schedule.sketches.lane_loads import has_rows_of_terms
from edgetune.tvm_types import LoopRV


def find_nested(stages: Sequence[BlockStage]) -> dict[str, str]:
    """The reduction that runs around each nested one, by their names.

    Each place of the outer one's terms, then of its results, is one result of the nested stage, which nobody else
    reads.
    """
    found: dict[str, str] = {}
    for inner in stages:
        readers = [one for one in stages if one is not inner and _reads(one, inner)]
        if inner.reduction and inner.writes_its_axes() and len(readers) == 1 and _is_around(readers[0], inner):
            found[inner.name] = readers[0].name
    return found


def shares_nothing(stage: BlockStage) -> bool:
    """Whether a stage reads each element once, so that a tile of results has no use."""
    axes = [number for number, axis in enumerate(stage.spatial) if extent_of(axis) > 1]
    return all(set(axes_of(stage, load)) >= set(axes) for load in loads_of(stage))


def order_by_rows(sch: Schedule, outer: BlockStage) -> LoopRV:
    """Order the loops of a reduction: its terms outside, the row of its results inside. Returns the first one."""
    loops = sch.get_loops(sch.get_sblock(outer.name))[-len(outer.spatial) - len(outer.reduction) :]
    spatial, summed = loops[: len(outer.spatial)], loops[len(outer.spatial) :]
    sch.reorder(*summed, *spatial)
    return summed[0]


def nest(sch: Schedule, name: str, outer: BlockStage) -> None:
    """Compute block `name` inside the loops over the terms of `outer`, which `order_by_rows` has ordered."""
    loops = sch.get_loops(sch.get_sblock(outer.name))
    innermost = loops[-len(outer.spatial) - 1]
    sch.compute_at(sch.get_sblock(name), innermost, preserve_unit_loops=True)


def _is_around(outer: BlockStage, inner: BlockStage) -> bool:
    wanted = [*outer.reduction, *outer.spatial]
    regions = [region for region in outer.reads() if region.source.same_as(inner.block.writes[0].source)]
    if not outer.reduction or not outer.spatial or len(regions) != 1 or len(regions[0].region) != len(wanted):
        return False
    same = all(item.min.same_as(axis.var) for item, axis in zip(regions[0].region, wanted, strict=True))
    return same and has_rows_of_terms(outer)


def _reads(reader: BlockStage, stage: BlockStage) -> bool:
    return any(region.source.same_as(write.source) for region in reader.reads() for write in stage.block.writes)
