"""Sub-pixel convolution: a transposed convolution as dense ones, one for each phase of the output.

With stride s, outputs s q + r read every s-th tap alone, from tap (r + pad) mod s on. So each phase r is a dense
convolution at q, and the s phases are written interleaved (Shi et al., Is the deconvolution
layer the same as a convolutional layer?, 2016). A kernel that computed the operator as it is defined would test every
tap.

The interleave is made of concatenations of channels-last tensors, one along each spatial axis. The graph passes remove
them: each convolution writes its own elements of the result (`edgetune.graph.views`). If channels alone fill no
vectors, adjacent phases of the last spatial axis that read the same inputs become channels of one convolution, because
their elements are adjacent in the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from edgetune.frontend.onnx.decompositions.builder import Builder
from edgetune.frontend.onnx.decompositions.known_weights import KnownWeights, known_weights
from edgetune.graph.layout.axis_order import from_model, to_model

_FULL = 16
"""Channels that fill the vectors of any instruction set; other numbers are joined with those of adjacent phases."""


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

    def runs(self) -> list[range]:
        """Adjacent phases that read the same input places, all phases in order."""
        found: list[range] = []
        for phase in range(self.stride):
            if found and self.reach(phase) == self.reach(found[-1].start):
                found[-1] = range(found[-1].start, phase + 1)
            else:
                found.append(range(phase, phase + 1))
        return found

    def is_cut_away(self, reach: tuple[int, int]) -> bool:
        """Whether a dense convolution that reads `reach` would read no element of the input."""
        return sum(max(0, -pad) for pad in self.pads(reach)) >= self.extent

    def pads(self, reach: tuple[int, int]) -> tuple[int, int]:
        """Pads of a dense convolution that reads `reach`; negative ones cut the input."""
        return -reach[0], self.count - 1 + reach[1] - (self.extent - 1)


def conv_transpose(b: Builder, node: onnx.NodeProto) -> bool:
    """Dense convolutions and an interleave, where the weights are known and not dilated; else the pads are computed."""
    weights = known_weights(b, b.input(1), axis=1)
    rank = len(b.shape(b.input(0))) - 2
    begin, spare, end = _pads(b, rank)
    dilations = b.attributes.get("dilations", [1] * rank)
    if weights is None or any(d != 1 for d in dilations):
        return _with_pads(b, node, begin, end, spare)
    strides = b.attributes.get("strides", [1] * rank)
    axes = []
    for i, (extent, taps) in enumerate(zip(b.shape(b.input(0))[2:], weights.array.shape[2:], strict=True)):
        output = strides[i] * (extent - 1) + spare[i] + taps - begin[i] - end[i]
        axes.append(_Axis(extent, taps, strides[i], begin[i], output))
    if not weights.array.size or any(axis.output < 1 for axis in axes):
        return _with_pads(b, node, begin, end, spare)
    result = _interleaved(b, axes, weights)
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


def _interleaved(b: Builder, axes: Sequence[_Axis], weights: KnownWeights) -> str:
    """All phases, interleaved and cut to the output's shape; "" where a phase has no taps or reads no input."""
    phases = [(axis, phase) for axis in axes for phase in range(axis.stride)]
    if any(not axis.taps_of(phase) or axis.is_cut_away(axis.reach(phase)) for axis, phase in phases):
        return ""
    rank = len(axes)
    if all(axis.stride == 1 for axis in axes):
        return _convolved(b, axes, weights, [[0] * rank])
    parts = _along(b, axes, weights, [])
    counts = [axis.count * axis.stride for axis in axes]
    channels = weights.array.shape[1] * _groups(b)
    whole = b.reshape(parts, b.shape(b.input(0))[0], *counts, channels)
    result = b.op("Transpose", whole, perm=to_model(rank + 2, "channels_last"))
    return b.first(result, b.shape(result)[0], channels, *(axis.output for axis in axes))


def _along(b: Builder, axes: Sequence[_Axis], weights: KnownWeights, outer: Sequence[int]) -> str:
    """The phases with the phases `outer` of the first axes: (n, places and phases of each axis, channels)."""
    number = len(outer)
    last = number == len(axes) - 1
    if not last:
        parts = [_along(b, axes, weights, [*outer, phase]) for phase in range(axes[number].stride)]
    else:
        joins = _groups(b) == 1 and weights.array.shape[1] % _FULL
        runs = axes[number].runs() if joins else [range(r, r + 1) for r in range(axes[number].stride)]
        parts = [_run(b, axes, weights, [[*outer, phase] for phase in run]) for run in runs]
    return parts[0] if len(parts) == 1 else b.op("Concat", *parts, axis=2 * number + 2)


def _run(b: Builder, axes: Sequence[_Axis], weights: KnownWeights, phases: Sequence[Sequence[int]]) -> str:
    """Phases that read the same input: (n, places and 1 of each axis, channels), but their number on the last axis."""
    found = _convolved(b, axes, weights, phases)
    rank = len(axes)
    shape = [extent for axis in axes for extent in (axis.count, 1)]
    shape[-1] = len(phases)
    channels_last = b.op("Transpose", found, perm=from_model(rank + 2, "channels_last"))
    return b.reshape(channels_last, b.shape(found)[0], *shape, weights.array.shape[1] * _groups(b))


def _groups(b: Builder) -> int:
    return int(b.attributes.get("group", 1))


def _dense(weights: np.ndarray, axes: Sequence[_Axis], phase: Sequence[int], groups: int) -> np.ndarray:
    """The kernel of the dense convolution of a phase."""
    inner, outer = weights.shape[0] // groups, weights.shape[1]
    split = weights.reshape(groups, inner, *weights.shape[1:]).swapaxes(1, 2)
    every = [np.arange(extent) for extent in (groups, outer, inner)]
    taps = [np.array(axis.taps_of(t)[::-1], int) for t, axis in zip(phase, axes, strict=True)]
    dense: np.ndarray = split[np.ix_(*every, *taps)]
    return dense.reshape(groups * outer, inner, *(len(each) for each in taps))


def _convolved(b: Builder, axes: Sequence[_Axis], weights: KnownWeights, phases: Sequence[Sequence[int]]) -> str:
    """The dense convolution of phases that read the same input, which is cut where a pad is negative."""
    x = b.input(0)
    sides = []
    for number, (axis, place) in enumerate(zip(axes, phases[0], strict=True)):
        begin, end = axis.pads(axis.reach(place))
        if begin < 0 or end < 0:
            x = b.part(x, max(0, -begin), axis.extent - max(0, -end), number + 2)
        sides.append((max(begin, 0), max(end, 0)))
    taps = np.concatenate([_dense(weights.array, axes, phase, _groups(b)) for phase in phases])
    channels = np.tile(np.arange(weights.array.shape[1]), _groups(b) * len(phases))
    inputs = [x, weights.part(b, taps, channels)]
    if b.input(2):
        bias = [b.input(2)] * len(phases)
        inputs.append(bias[0] if len(bias) == 1 else b.op("Concat", *bias, axis=0))
    pads = [*(begin for begin, _ in sides), *(end for _, end in sides)]
    return b.op("Conv", *inputs, kernel_shape=list(taps.shape[2:]), pads=pads, group=_groups(b))
