"""Axis order at the interface: the order of the model, or channels last, as cameras and displays use it.

A model's tensor (N, C, spatial...) is exchanged as (N, spatial..., C). This module knows shapes and arrays, no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from edgetune.target.preferences import Layout

LEAST_RANK = 3
"""Least number of axes of a tensor with a batch axis, a channel axis and at least one other axis."""

_Item = TypeVar("_Item")
_SPATIAL = {1: ("W",), 2: ("H", "W"), 3: ("D", "H", "W")}


def from_model(rank: int, layout: Layout) -> list[int]:
    """Axes of the model in the order of the interface, as `numpy.transpose` takes them."""
    return list(range(rank)) if layout == "model" else [0, *range(2, rank), 1]


def to_model(rank: int, layout: Layout) -> list[int]:
    """Axes of the interface in the order of the model: the inverse of `from_model`."""
    return list(range(rank)) if layout == "model" else [0, rank - 1, *range(1, rank - 1)]


def reordered(values: Sequence[_Item], axes: Sequence[int]) -> tuple[_Item, ...]:
    """One value per axis, such as a shape, in the order of `axes`."""
    return tuple(values[axis] for axis in axes)


def axis_names(rank: int) -> tuple[str, ...]:
    """Names of the axes of a model's image tensor: N, C and the spatial axes."""
    spatial = _SPATIAL.get(rank - 2) or tuple(f"D{axis}" for axis in range(1, rank - 1))
    return "N", "C", *spatial


def exchanged(arrays: Mapping[str, np.ndarray], layouts: Mapping[str, Layout]) -> dict[str, np.ndarray]:
    """The model's arrays by name, in the axis order of the interface; arrays not named in `layouts` stay unchanged."""
    return {
        name: _in_order(array, from_model(array.ndim, layouts.get(name, "model"))) for name, array in arrays.items()
    }


def given_back(arrays: Mapping[str, np.ndarray], layouts: Mapping[str, Layout]) -> dict[str, np.ndarray]:
    """The inverse of `exchanged`: the arrays in the axis order of the model."""
    return {name: _in_order(array, to_model(array.ndim, layouts.get(name, "model"))) for name, array in arrays.items()}


def _in_order(array: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    return array if axes == list(range(array.ndim)) else np.ascontiguousarray(array.transpose(axes))
