"""Slice recognition: kernels that only copy rows of a tensor, so that readers could read those rows in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from tvm import ir, sym, tirx

from edgetune.graph.concatenation import only_store
from edgetune.graph.program import Kernel


@dataclass(frozen=True)
class Slice:
    """The rows that a kernel copies of its one operand: `outer` rows, `pitch` elements apart, the first at `offset`."""

    offset: int
    outer: int
    pitch: int


def slice_of(kernel: Kernel) -> Slice | None:
    """The rows that `kernel` copies, if it only copies rows of one tensor with a constant distance; else None."""
    store = only_store(kernel.function)
    if store is None or [param.role for param in kernel.params] != ["input", "output"]:
        return None
    source, result = kernel.params
    load = store.value
    if not isinstance(load, ir.TensorLoad) or len(load.indices) != len(store.indices) or prod(result.shape) == 0:
        return None
    analyzer = sym.Analyzer()
    starts = [analyzer.simplify(index - place) for index, place in zip(load.indices, store.indices, strict=True)]
    if not all(isinstance(start, tirx.IntImm) for start in starts):
        return None
    return _rows(source.shape, result.shape, [int(start) for start in starts])


def _rows(whole: Sequence[int], part: Sequence[int], starts: Sequence[int]) -> Slice | None:
    """The part of a dense tensor that starts at `starts`, as rows; None if their distance is not constant."""
    strides = [prod(whole[axis + 1 :]) for axis in range(len(whole))]
    offset = sum(start * stride for start, stride in zip(starts, strides, strict=True))
    axes = [(extent, stride) for extent, stride in zip(part, strides, strict=True) if extent > 1]
    breaks = [stride for (_, stride), (extent, inner) in pairwise(axes) if stride != extent * inner]
    if not axes:
        return Slice(offset, 1, 1)
    if len(breaks) > 1 or axes[-1][1] != 1:
        return None
    outer = prod(extent for extent, stride in axes if breaks and stride >= breaks[0])
    return Slice(offset, outer, breaks[0] if breaks else prod(part))
