"""Sub-pixel convolution: a transposed convolution as dense ones, one for each phase of the output.

With stride s, outputs s q + r read every s-th tap alone, from tap (r + pad) mod s on. So each phase r is a dense
convolution at q, and the s phases are written interleaved (Shi et al., Is the deconvolution
layer the same as a convolutional layer?, 2016). A kernel that computed the operator as it is defined would test every
tap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
import onnx

from edgetune.frontend.onnx.decompositions.builder import Builder

_MOST_WASTE = 1.3
"""Products with zeros that one convolution for all phases may add; above it each phase is a convolution of its own."""


@dataclass(frozen=True)
class _Axis:
    """One spatial axis: input extent, taps, stride, first pad of the transposed convolution, and output extent."""

    extent: int
    taps: int
    stride: int
    begin: int
    output: int

    @property
    def count(self) -> int:
        """Places of each phase; those beyond the output are cut off."""
        return -(-self.output // self.stride)

    def taps_of(self, phase: int) -> range:
        """The taps that outputs stride * q + phase read, in the order of falling input places."""
        return range((phase + self.begin) % self.stride, self.taps, self.stride)

    def reach(self, phase: int) -> tuple[int, int]:
        """The input places, relative to q, that a phase reads: the first and the last."""
        last = (phase + self.begin) // self.stride
        return last - len(self.taps_of(phase)) + 1, last

    def reaches(self) -> list[tuple[int, int]]:
        """What each phase reads."""
        return [self.reach(phase) for phase in range(self.stride)]

    @property
    def reach_of_all(self) -> tuple[int, int]:
        """The first and the last input place, relative to q, that any phase reads."""
        return min(first for first, _ in self.reaches()), max(last for _, last in self.reaches())

    def is_cut_away(self, reach: tuple[int, int]) -> bool:
        """Whether a dense convolution that reads `reach` would read no element of the input."""
        return sum(max(0, -pad) for pad in self.pads(reach)) >= self.extent

    def pads(self, reach: tuple[int, int]) -> tuple[int, int]:
        """Pads of a dense convolution that reads `reach`; negative ones cut the input."""
        return -reach[0], self.count - 1 + reach[1] - (self.extent - 1)


def conv_transpose(b: Builder, node: onnx.NodeProto) -> bool:
    """Dense convolutions and an interleave, where the weights are known and not dilated; else the pads are computed."""
    weights = b.value(b.input(1))
    bias = b.value(b.input(2)) if b.input(2) else None
    rank = len(b.shape(b.input(0))) - 2
    begin, spare, end = _pads(b, rank)
    dilations = b.attributes.get("dilations", [1] * rank)
    if weights is None or (b.input(2) and bias is None) or any(d != 1 for d in dilations):
        return _with_pads(b, node, begin, end, spare)
    strides = b.attributes.get("strides", [1] * rank)
    axes = []
    for i, (extent, taps) in enumerate(zip(b.shape(b.input(0))[2:], weights.shape[2:], strict=True)):
        output = strides[i] * (extent - 1) + spare[i] + taps - begin[i] - end[i]
        axes.append(_Axis(extent, taps, strides[i], begin[i], output))
    if not weights.size or any(axis.output < 1 for axis in axes):
        return _with_pads(b, node, begin, end, spare)
    result = _interleaved(b, axes, weights, bias)
    if not result:
        return _with_pads(b, node, begin, end, spare)
    b.output(0, result)
    return True


def _with_pads(b: Builder, node: onnx.NodeProto, begin: list[int], end: list[int], spare: list[int]) -> bool:
    """The node with the pads that give its `output_shape`; False where it states none."""
    if "output_shape" not in b.attributes:
        return False
    kept = {name: value for name, value in b.attributes.items() if name not in ("output_shape", "auto_pad")}
    b.output(0, b.op("ConvTranspose", *node.input, **kept | {"pads": begin + end, "output_padding": spare}))
    return True


def _pads(b: Builder, rank: int) -> tuple[list[int], list[int], list[int]]:
    """Pads at the beginning, extra elements at the end, and pads at the end of each axis."""
    attributes = b.attributes
    kernel = list(attributes.get("kernel_shape", b.shape(b.input(1))[2:]))
    strides = attributes.get("strides", [1] * rank)
    dilations = attributes.get("dilations", [1] * rank)
    extra = list(attributes.get("output_padding", [0] * rank))
    spatial = b.shape(b.input(0))[2:]
    automatic = b.text("auto_pad", "NOTSET")
    if "output_shape" not in attributes and automatic in ("NOTSET", "VALID"):
        pads = list(attributes.get("pads", [0] * 2 * rank)) if automatic == "NOTSET" else [0] * 2 * rank
        return pads[:rank], extra, pads[rank:]
    given = attributes.get("output_shape")
    wanted = list(given or [e * s for e, s in zip(spatial, strides, strict=True)])[-rank:]
    begin, end, spare = [], [], []
    for i in range(rank):
        full = strides[i] * (spatial[i] - 1) + extra[i] + (kernel[i] - 1) * dilations[i] + 1
        total = max(full - wanted[i], 0)
        begin.append(total // 2 if automatic == "SAME_UPPER" else total - total // 2)
        end.append(total - begin[i])
        spare.append(extra[i] + (max(wanted[i] - full, 0) if given else 0))
    return begin, spare, end


def _interleaved(b: Builder, axes: Sequence[_Axis], weights: np.ndarray, bias: np.ndarray | None) -> str:
    """All phases, interleaved and cut to the output's shape; "" where too many products would be with zeros."""
    groups = int(b.attributes.get("group", 1))
    strides = [axis.stride for axis in axes]
    phases = list(product(*map(range, strides)))
    reach = [axis.reach_of_all for axis in axes]
    together = prod((last - first + 1) * stride for (first, last), stride in zip(reach, strides, strict=True))
    apart = together > _MOST_WASTE * prod(axis.taps for axis in axes)
    if any(axis.is_cut_away(reach) for axis in axes for reach in axis.reaches()):
        return ""
    if not apart:
        parts = _convolved(b, _joined(weights, axes, groups), _repeated(bias, groups, len(phases)), axes, reach)
        cells = [groups, *strides, weights.shape[1]]
    elif all(axis.taps_of(phase) for axis in axes for phase in range(axis.stride)):
        every = [[axis.reach(t) for t, axis in zip(phase, axes, strict=True)] for phase in phases]
        dense = [_dense(weights, axes, groups, phase, near) for phase, near in zip(phases, every, strict=True)]
        both = zip(dense, every, strict=True)
        parts = b.op("Concat", *(_convolved(b, each, bias, axes, near) for each, near in both), axis=1)
        cells = [*strides, 1, groups * weights.shape[1]]
    else:
        return ""
    if max(strides) > 1:
        parts = _spread(b, parts, axes, cells, phases_first=apart)
    for number, axis in enumerate(axes):
        if axis.output < axis.stride * axis.count:
            parts = b.part(parts, 0, axis.output, number + 2)
    return parts


def _spread(b: Builder, phases: str, axes: Sequence[_Axis], cells: Sequence[int], *, phases_first: bool) -> str:
    """(n, channels of all phases, places) as (n, channels, stride x places): `cells` divides the channels."""
    rank = len(axes)
    batch = b.shape(b.input(0))[0]
    counts = [axis.count for axis in axes]
    places = [2 + rank + 1 + n for n in range(rank)]
    of_phase = [(1 if phases_first else 2) + n for n in range(rank)]
    of_channel = [rank + 1, rank + 2] if phases_first else [1, rank + 2]
    moved = b.op(
        "Transpose",
        b.reshape(phases, batch, *cells, *counts),
        perm=[0, *of_channel, *(axis for pair in zip(places, of_phase, strict=True) for axis in pair)],
    )
    channels = prod(cells) // prod(axis.stride for axis in axes)
    return b.reshape(moved, batch, channels, *(axis.count * axis.stride for axis in axes))


def _dense(
    weights: np.ndarray, axes: Sequence[_Axis], groups: int, phase: Sequence[int], reach: Sequence[tuple[int, int]]
) -> np.ndarray:
    """The kernel of the dense convolution of a phase that reads `reach`: zeros where the phase has no tap."""
    inner, outer = weights.shape[0] // groups, weights.shape[1]
    dense = np.zeros((groups, outer, inner, *(last - first + 1 for first, last in reach)), weights.dtype)
    taps = [axis.taps_of(t) for t, axis in zip(phase, axes, strict=True)]
    places = [
        [axis.reach(t)[1] - number - near[0] for number in range(len(one))]
        for t, axis, near, one in zip(phase, axes, reach, taps, strict=True)
    ]
    split = weights.reshape(groups, inner, *weights.shape[1:]).swapaxes(1, 2)
    every = tuple(np.arange(extent) for extent in (groups, outer, inner))
    dense[np.ix_(*every, *(np.array(each, int) for each in places))] = split[
        np.ix_(*every, *(np.array(each, int) for each in taps))
    ]
    return dense.reshape(groups * outer, inner, *dense.shape[3:])


def _joined(weights: np.ndarray, axes: Sequence[_Axis], groups: int) -> np.ndarray:
    """One kernel for all phases; output channels are (group, phase of each axis, channel of the group)."""
    reach = [axis.reach_of_all for axis in axes]
    phases = product(*(range(axis.stride) for axis in axes))
    every = [_dense(weights, axes, groups, phase, reach) for phase in phases]
    by_group = [each.reshape(groups, -1, *each.shape[1:]) for each in every]
    return np.stack(by_group, 1).reshape(-1, *every[0].shape[1:])


def _repeated(bias: np.ndarray | None, groups: int, phases: int) -> np.ndarray | None:
    """The bias of each output channel of `_joined`."""
    return None if bias is None else np.repeat(bias.reshape(groups, 1, -1), phases, 1).reshape(-1)


def _convolved(
    b: Builder,
    weights: np.ndarray,
    bias: np.ndarray | None,
    axes: Sequence[_Axis],
    reach: Sequence[tuple[int, int]],
) -> str:
    """A dense convolution of the input, which is cut where a pad is negative."""
    x = b.input(0)
    sides = []
    for number, (axis, near) in enumerate(zip(axes, reach, strict=True)):
        begin, end = axis.pads(near)
        if begin < 0 or end < 0:
            x = b.part(x, max(0, -begin), axis.extent - max(0, -end), number + 2)
        sides.append((max(begin, 0), max(end, 0)))
    inputs = [x, b.constant(np.ascontiguousarray(weights))]
    inputs += [b.constant(np.ascontiguousarray(bias))] if bias is not None else []
    pads = [*(begin for begin, _ in sides), *(end for _, end in sides)]
    group = int(b.attributes.get("group", 1))
    return b.op("Conv", *inputs, kernel_shape=list(weights.shape[2:]), pads=pads, group=group)
