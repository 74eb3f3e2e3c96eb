"""Packing: which weights of an unscheduled kernel a schedule may lay out as it wants."""

from __future__ import annotations

from math import prod

import tvm_ffi
from tvm import s_tir

from edgetune.affine.expressions import mentions
from edgetune.schedule.sketches.block_analysis import extent_of
from edgetune.tvm_types import PrimFunc, SBlock


def may_be_packed(function: PrimFunc, parameter: int) -> bool:
    """Whether no stage reads a parameter at several places, or a part of it: TVM packs a whole tensor for one."""
    places: list[int] = []
    whole: list[bool] = []
    buffer = function.params[parameter]

    def look(block: SBlock) -> None:
        reads = [region for region in block.reads if region.source.same_as(buffer)]
        places.append(len(reads))
        for region in reads:
            used = (axis for axis in block.iter_vars if any(mentions(item.min, axis.var) for item in region.region))
            whole.append(prod(map(extent_of, used)) == prod(int(extent) for extent in buffer.ty.shape))

    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, look))
    return max(places, default=0) <= 1 and all(whole)
