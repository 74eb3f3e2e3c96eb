"""What tiles of all rules share: choices of extents, and the loops of a block."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir
from tvm.s_tir import Schedule

from edgetune.affine.expressions import expressions, mentions
from edgetune.schedule.sketches.block_analysis import BlockStage, stores
from edgetune.schedule.tile_costs import divisors
from edgetune.tvm_types import BufferLoad, LoopRV, SBlockRV

FEWEST_LANES = 4
MAX_TILE = 8
MAX_UNROLLED = 4  # steps of the innermost loop
OPERANDS_AHEAD = 2  # operands that are loaded while others are used
_SHORT_STEP = 8  # operations, up to which a body has all unrolled steps
_TILED_AXES = 3  # more would make thousands of choices
_REDUCTION = 2  # tirx.IterVar.CommReduce


def steps_unrolled(sums: int) -> int:
    """Most steps of a loop over terms that are unrolled in a tile of so many sums: fewer where a step is long."""
    return max(1, MAX_UNROLLED * _SHORT_STEP // max(_SHORT_STEP, sums))


def tile_choices(extents: Sequence[int]) -> list[list[int]]:
    """Extents of a tile along each axis: divisors for the last axes that are longer than 1, 1 for all others."""
    tiled = [number for number, extent in enumerate(extents) if extent > 1][-_TILED_AXES:]
    return [divisors(extent, MAX_TILE) if number in tiled else [1] for number, extent in enumerate(extents)]


def loads_of(stage: BlockStage) -> list[BufferLoad]:
    """The different loads of a stage, except those of what it writes. One tensor may be read at several places."""
    written = [region.source for region in stage.block.writes]
    found: dict[str, BufferLoad] = {}
    for store in stores(stage.block.body):
        for node in expressions(store.value):
            if isinstance(node, ir.TensorLoad) and not any(node.source.same_as(one) for one in written):
                found.setdefault(f"{node.source.name}{list(node.indices)}", node)
    return list(found.values())


def axes_of(stage: BlockStage, load: BufferLoad) -> list[int]:
    """The spatial axes of a stage, by number, that the place of a load depends on."""
    return [n for n, axis in enumerate(stage.spatial) if any(mentions(index, axis.var) for index in load.indices)]


def own_loops(sch: Schedule, block: SBlockRV, around: int) -> tuple[list[LoopRV], list[LoopRV]]:
    """The loops of a block inside the first `around` ones: of its spatial axes, and of its reduction axes."""
    loops = sch.get_loops(block)[around:]
    realize = sch.get(loops[-1]).body
    axes = list(zip(realize.block.iter_vars, realize.iter_values, strict=True))
    spatial: list[LoopRV] = []
    summed: list[LoopRV] = []
    for loop in loops:
        variable = sch.get(loop).loop_var
        kinds = {int(axis.iter_type) for axis, value in axes if mentions(value, variable)}
        (summed if _REDUCTION in kinds else spatial).append(loop)
    return spatial, summed
