"""Strided views: where a tensor lies within a larger one, and functions whose parameters have gaps between elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import tvm_ffi
from tvm import ir, tirx

from edgetune.graph.program import Rows
from edgetune.tvm_types import PrimFunc, TvmBuffer

Axis = tuple[int, int]
"""Extent and stride, in elements."""


@dataclass(frozen=True)
class StridedView:
    """A tensor's place in the buffer `whole`: its first element is at `offset`, the others along `axes`.

    `axes` are from outer to inner, without those of extent 1, and as few as possible: a tensor without gaps has one.
    """

    whole: int
    offset: int
    axes: tuple[Axis, ...]

    @staticmethod
    def of_axes(whole: int, offset: int, axes: Sequence[Axis]) -> StridedView:
        """A tensor along any axes."""
        return StridedView(whole, offset, _simplified(axes))

    @staticmethod
    def of_rows(whole: int, offset: int, outer: int, pitch: int, length: int) -> StridedView:
        """A tensor of `outer` rows of `length` elements, `pitch` elements apart."""
        return StridedView.of_axes(whole, offset, [(outer, pitch), (length, 1)])

    @property
    def has_gaps(self) -> bool:
        """Whether not all elements are adjacent."""
        return len(self.axes) > 1 or any(stride != 1 for _, stride in self.axes)

    def inside(self, container: StridedView) -> StridedView | None:
        """This view of a tensor that itself is a view: the place in the larger buffer; None if axes do not fit."""
        extents = [extent for extent, _ in container.axes]
        blocks = [prod(extents[number + 1 :]) for number in range(len(extents))]
        start = [self.offset // block % extent for block, extent in zip(blocks, extents, strict=True)]
        last, axes = list(start), []
        for axis in self.axes:
            steps = _steps(axis, extents, blocks)
            if steps is None:
                return None
            for number, extent, step in steps:
                last[number] += (extent - 1) * step
                axes.append((extent, step * container.axes[number][1]))
        if any(place >= extent for place, extent in zip(last, extents, strict=True)):
            return None
        offset = sum(place * stride for place, (_, stride) in zip(start, container.axes, strict=True))
        return StridedView.of_axes(container.whole, container.offset + offset, axes)

    def strides(self, shape: Sequence[int]) -> list[int] | None:
        """Strides of a tensor of `shape` at this place, 0 for an extent of 1; None if an axis has no single stride."""
        found = []
        for number, extent in enumerate(shape):
            axes = StridedView.of_axes(0, 0, [(extent, prod(shape[number + 1 :]))]).inside(self)
            if axes is None or len(axes.axes) > 1:
                return None
            found.append(axes.axes[0][1] if axes.axes else 0)
        return found


def _steps(axis: Axis, extents: Sequence[int], blocks: Sequence[int]) -> list[tuple[int, int, int]] | None:
    """An axis of a dense tensor as parts along the axes of that tensor: number, extent, step; None if none fit.

    `blocks` are the numbers of elements in a step of each axis of the tensor.
    """
    extent, stride = axis
    found: list[tuple[int, int, int]] = []
    for number in reversed(range(len(extents))):
        block, room = blocks[number], extents[number]
        if extent == 1:
            break
        if stride >= block * room:
            continue
        if stride % block:
            return None
        step = stride // block
        part = extent if (extent - 1) * step < room else room // step
        if part < extent and (room % step or extent % part):
            return None
        found.insert(0, (number, part, step))
        extent, stride = extent // part, block * room
    return found if extent == 1 else None


def _simplified(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    found: list[Axis] = []
    for extent, stride in axes:
        if extent == 1:
            continue
        if found and found[-1][1] == extent * stride:
            found[-1] = (found[-1][0] * extent, stride)
        else:
            found.append((extent, stride))
    return tuple(found)


def shape_with_gaps(shape: tuple[int, ...], view: StridedView) -> tuple[int, ...] | None:
    """`shape` with larger extents, so that elements are where the view has them; None if no axes can grow like that.

    Of a row with gaps after it, the first axis grows. Indices of elements stay the same.
    """
    strides = view.strides(shape)
    if strides is None:
        return None
    wide = [number for number, extent in enumerate(shape) if extent > 1]
    grown = list(shape)
    if wide and strides[wide[-1]] != 1:
        if wide[-1] == len(shape) - 1:
            return None
        grown[-1] = strides[wide[-1]]
    for outer, inner in pairwise(wide):
        if strides[outer] % strides[inner] or strides[outer] < strides[inner] * shape[inner]:
            return None
        grown[inner] = strides[outer] // strides[inner]
    return tuple(grown)


def with_gaps(function: PrimFunc, shapes: Mapping[int, tuple[int, ...]]) -> PrimFunc:
    """`function` with larger shapes for some parameters (by number); it touches the same indices as before."""
    enlarged: dict[TvmBuffer, TvmBuffer] = {}
    for number, shape in shapes.items():
        old = function.params[number]
        extents = [tirx.IntImm(str(old.shape[0].ty.dtype), extent) for extent in shape]
        enlarged[old] = tirx.decl_buffer(extents, str(old.dtype), old.name)
    return tvm_ffi.structural_map(function, (ir.Var, lambda variable: enlarged.get(variable, variable)))


def rows_of(shape: tuple[int, ...], enlarged: tuple[int, ...]) -> Rows:
    """The elements that such a function touches of a parameter that had `shape` before, and is `enlarged` now."""
    rows: Rows | None = None
    for axis, inner in _grown(shape, enlarged):
        rows = Rows(shape[axis] * inner, enlarged[axis] * inner, rows)
    assert rows is not None, "a parameter with gaps is larger than without"  # noqa: S101
    return rows


def _grown(shape: tuple[int, ...], enlarged: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """The axes that grew, from inner to outer, and the elements in a step of each."""
    for axis in reversed(range(len(shape))):
        if enlarged[axis] != shape[axis]:
            yield axis, prod(enlarged[axis + 1 :])
