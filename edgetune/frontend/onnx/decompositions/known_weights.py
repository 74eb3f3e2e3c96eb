"""Known weights: constants that a decomposition divides, as plain numbers or as integers behind a DequantizeLinear.

Each part of weights that are integers stays integers, with the scales of its channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from edgetune.frontend.onnx.decompositions.builder import Builder
from edgetune.frontend.onnx.decompositions.scales import dequantised

_LEAST, _MOST = 2, 3


@dataclass(frozen=True)
class KnownWeights:
    """Numbers, or integers with `scale` and `zero`: one for all, or one for each channel; None where there are none.

    A Cast makes integers with neither numbers of the type `cast`.
    """

    array: np.ndarray
    scale: np.ndarray | None = None
    zero: np.ndarray | None = None
    cast: np.dtype[Any] | None = None

    def part(self, b: Builder, array: np.ndarray, channels: np.ndarray) -> str:
        """The constant of a part of the weights, whose first axis has these of their `channels`."""
        stored = b.constant(np.ascontiguousarray(array))
        if self.scale is None:
            return stored if self.cast is None else b.cast(stored, self.cast)
        scale, zero = (_of(one, channels) for one in (self.scale, self.zero))
        return dequantised(b, stored, b.constant(scale), "" if zero is None else b.constant(zero), axis=0)


def known_weights(b: Builder, name: str, axis: int) -> KnownWeights | None:
    """The value of an input whose channels are along `axis`; None where it is computed at run time."""
    value = b.value(name)
    if value is not None:
        return KnownWeights(value)
    node = b.made_by(name, "Cast", "DequantizeLinear")
    if node is not None and node.op_type == "Cast":
        integers = b.stored(node.input[0])
        return None if integers is None else KnownWeights(integers, cast=b.dtype(name))
    if node is None or not _LEAST <= len(node.input) <= _MOST:
        return None
    integers, scale = b.stored(node.input[0]), b.value(node.input[1])
    zero = b.value(node.input[2]) if len(node.input) == _MOST and node.input[2] else None
    attributes = {a.name: a.i for a in node.attribute}
    missing = len(node.input) == _MOST and node.input[2] and zero is None
    if integers is None or scale is None or missing or attributes.get("block_size", 0):
        return None
    if scale.size > 1 and attributes.get("axis", 1) % integers.ndim != axis:
        return None
    numbers = scale if scale.ndim <= 1 else None
    return None if numbers is None or prod(integers.shape) == 0 else KnownWeights(integers, numbers, zero)


def _of(numbers: np.ndarray | None, channels: np.ndarray) -> np.ndarray | None:
    return numbers if numbers is None or numbers.size == 1 else np.asarray(numbers[channels])
