"""Sub-pixel convolution: a transposed convolution as dense ones, one for each phase of the output.

With stride s, outputs o with (o + pad) mod s = t read the taps t, t + s, t + 2 s ... alone. So output s j + t is a
dense convolution at j with every s-th tap, and the s phases are written interleaved (Shi et al., Is the deconvolution
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
    """One spatial axis: input extent, taps, stride, pads of the transposed convolution, and output extent."""

    extent: int
    taps: int
    stride: int
    begin: int
    output: int

    @property
    def depth(self) -> int:
        """Most taps of a phase."""
        return -(-self.taps // self.stride)

    @property
    def first(self) -> int:
        """The first place of each phase that is computed."""
        return min(self.begin // self.stride, self.depth - 1)

    @property
    def count(self) -> int:
        """How many places of each phase are computed."""
        last = (self.output - 1 + self.begin) // self.stride
        return max(last, self.extent - 1) - self.first + 1

    def taps_of(self, phase: int) -> int:
        """Taps of a phase; 0 where the stride exceeds the kernel."""
        return -(-(self.taps - phase) // self.stride) if phase < self.taps else 0

    def pads(self, taps: int) -> tuple[int, int]:
        """Pads of the dense convolution of a phase with `taps` taps; the first may be negative."""
        return taps - 1 - self.first, self.first + self.count - self.extent


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
    if any(axis.output < 1 for axis in axes):
        return _with_pads(b, node, begin, end, spare)
    b.output(0, _interleaved(b, axes, weights, bias))
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
    wanted = list(attributes.get("output_shape", [e * s for e, s in zip(spatial, strides, strict=True)]))[-rank:]
    begin, end, spare = [], [], []
    for i in range(rank):
        full = strides[i] * (spatial[i] - 1) + extra[i] + (kernel[i] - 1) * dilations[i] + 1
        total = max(full - wanted[i], 0)
        begin.append(total // 2 if automatic == "SAME_UPPER" else total - total // 2)
        end.append(total - begin[i])
        spare.append(extra[i] + max(wanted[i] - full, 0))
    return begin, spare, end


def _interleaved(b: Builder, axes: Sequence[_Axis], weights: np.ndarray, bias: np.ndarray | None) -> str:
    """All phases, interleaved and cut to the output's shape."""
    groups = int(b.attributes.get("group", 1))
    strides = [axis.stride for axis in axes]
    channels = groups * weights.shape[1]
    useful = prod(axis.taps for axis in axes)
    together = prod(axis.depth * axis.stride for axis in axes)
    apart = together > _MOST_WASTE * useful and all(
        axis.taps_of(phase) - 1 >= axis.first for axis in axes for phase in range(axis.stride)
    )
    if apart:
        parts = [_phase(b, axes, weights, bias, phase) for phase in product(*map(range, strides))]
        phases = b.op("Concat", *parts, axis=1)
        cells = [*strides, 1, channels]
    else:
        phases = _all_phases(b, axes, weights, bias)
        cells = [groups, *strides, weights.shape[1]]
    if max(strides) > 1:
        phases = _spread(b, phases, axes, cells, phases_first=apart)
    for number, axis in enumerate(axes):
        start = axis.begin - axis.stride * axis.first
        if (start, axis.output) != (0, axis.stride * axis.count):
            phases = b.part(phases, start, start + axis.output, number + 2)
    return phases


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


def _all_phases(b: Builder, axes: Sequence[_Axis], weights: np.ndarray, bias: np.ndarray | None) -> str:
    """One convolution; output channels are (group, phase of each axis, channel of the group)."""
    groups, rank = int(b.attributes.get("group", 1)), len(axes)
    inner, outer = weights.shape[0] // groups, weights.shape[1]
    short = [(0, axis.depth * axis.stride - axis.taps) for axis in axes]
    whole = np.pad(weights, [(0, 0), (0, 0), *short])
    split = whole.reshape(groups, inner, outer, *(n for axis in axes for n in (axis.depth, axis.stride)))
    taps, phases = [3 + 2 * n for n in range(rank)], [4 + 2 * n for n in range(rank)]
    dense = np.flip(split, tuple(taps)).transpose(0, *phases, 2, 1, *taps)
    dense = dense.reshape(-1, inner, *(axis.depth for axis in axes))
    every = None
    if bias is not None:
        count = prod(axis.stride for axis in axes)
        every = np.broadcast_to(bias.reshape(groups, 1, outer), (groups, count, outer)).reshape(-1)
    return _convolved(b, dense, every, [axis.pads(axis.depth) for axis in axes])


def _phase(
    b: Builder, axes: Sequence[_Axis], weights: np.ndarray, bias: np.ndarray | None, phase: Sequence[int]
) -> str:
    """The convolution of one phase; output channels are those of the transposed convolution."""
    groups = int(b.attributes.get("group", 1))
    taps = tuple(slice(t, None, axis.stride) for t, axis in zip(phase, axes, strict=True))
    every = np.flip(weights[(slice(None), slice(None), *taps)], tuple(range(2, weights.ndim)))
    split = every.reshape(groups, weights.shape[0] // groups, *every.shape[1:])
    dense = split.swapaxes(1, 2).reshape(-1, weights.shape[0] // groups, *every.shape[2:])
    pads = [axis.pads(axis.taps_of(t)) for t, axis in zip(phase, axes, strict=True)]
    return _convolved(b, dense, bias, pads)


def _convolved(b: Builder, weights: np.ndarray, bias: np.ndarray | None, pads: Sequence[tuple[int, int]]) -> str:
    inputs = [b.input(0), b.constant(np.ascontiguousarray(weights))]
    inputs += [b.constant(np.ascontiguousarray(bias))] if bias is not None else []
    sides = [*(begin for begin, _ in pads), *(end for _, end in pads)]
    group = int(b.attributes.get("group", 1))
    return b.op("Conv", *inputs, kernel_shape=list(weights.shape[2:]), pads=sides, group=group)
