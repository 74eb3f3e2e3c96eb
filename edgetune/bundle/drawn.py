"""Inputs and weights that the runner of a bundle draws itself: a line of the plan instead of a file.

Element `i` comes from a hash of the seed and `i` (splitmix64), so that a packed weight is drawn in the order of its
packed layout. Numbers are few bits times a power of two: no value is rounded, here or there, and both have the same
bits. A checksum in the plan proves it before the first launch. `templates/bundle/draw.c` has the same in C.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import floor, log2, prod

import ml_dtypes  # noqa: F401  numpy knows bfloat16 by it
import numpy as np

from edgetune.graph.program import Param
from edgetune.measure.reference import integer_range

_STEP, _FIRST, _SECOND = (np.uint64(word) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_FRACTIONS = {"float64": ("d", 53), "float32": ("o", 24), "float16": ("h", 11), "bfloat16": ("b", 8)}
"""The letter of a type in the plan, and how many bits its fraction has."""

_MOST_AXES = 12  # of a packed layout, as in the runner
_SMALLEST = -13  # of the exponents below: a float16 of that size has all its bits
_QUANTISED = 2  # bytes; wider integers are no quantised values


@dataclass(frozen=True)
class Axis:
    """A dimension of a layout: its extent, how much of it is not padding, and its step in the array before packing."""

    extent: int
    inside: int
    step: int


@dataclass(frozen=True)
class Drawn:
    """An array of a kernel: its shape and type, its seed, and the range of its values.

    Floats lie between -2**low and 2**low and are never zero. Integers lie between `low` and `high`, both included;
    those of one or two bytes are sums of four, most of them near the middle.
    """

    shape: tuple[int, ...]
    dtype: str
    seed: int
    low: int
    high: int

    @cached_property
    def array(self) -> np.ndarray:
        """All elements."""
        random = _mixed(np.arange(1, prod(self.shape) + 1, dtype=np.uint64) * _STEP + _mixed(np.uint64(self.seed)))
        kind = np.dtype(self.dtype)
        if self.dtype in _FRACTIONS:
            bits = _FRACTIONS[self.dtype][1]
            odd = (random >> np.uint64(64 - bits)).astype(np.int64) * 2 + 1 - (1 << bits)
            return (odd.astype(np.float64) * 2.0 ** (self.low - bits)).astype(kind).reshape(self.shape)
        size = np.uint64(self.high - self.low + 1)
        if self.high - self.low > 1 and kind.itemsize <= _QUANTISED:
            parts = [(random >> np.uint64(shift)) & np.uint64(0xFFFF) for shift in (0, 16, 32, 48)]
            offset = (sum(parts, np.uint64(0)) >> np.uint64(2)) * size >> np.uint64(16)
        else:
            offset = (random >> np.uint64(32)) * size >> np.uint64(32)
        return (offset.astype(np.int64) + self.low).astype(kind).reshape(self.shape)

    def line(self, packed: np.ndarray, axes: tuple[Axis, ...]) -> str:
        """The line of the plan that stands for `packed`, this array in the layout of `axes`."""
        kind = np.dtype(self.dtype)
        letter = _FRACTIONS[self.dtype][0] if self.dtype in _FRACTIONS else str(kind.itemsize)
        layout = "".join(f" {axis.extent}:{axis.inside}:{axis.step}" for axis in axes)
        head = f"drawn {letter} {packed.nbytes} {self.seed} {self.low} {self.high} {checksum(packed)}"
        return f"{head} {len(axes)}{layout}"


def drawn_input(param: Param, others: tuple[Param, ...], seed: int) -> Drawn:
    """How an input or constant is drawn: in the ranges of `random_input`, so that outputs are meaningful."""
    if param.dtype in _FRACTIONS:
        weight = param.role == "constant" and len(param.shape) > 1
        fan_in = max(1, prod(param.shape[1:])) if weight else 1
        return Drawn(param.shape, param.dtype, seed, max(_SMALLEST, floor(1.3 - log2(fan_in) / 2)), 0)
    kind = np.dtype(param.dtype)
    low, high = (0, 1) if kind == np.bool_ else integer_range(param, others, positive=False)
    return Drawn(param.shape, param.dtype, seed, low, high)


def axes_of(places: np.ndarray) -> tuple[Axis, ...] | None:
    """The axes of a layout whose elements have these numbers, from 1, in the array before packing; 0 is padding.

    None where no steps along its axes give them.
    """
    if places.ndim > _MOST_AXES or not places.size or places.flat[0] != 1:
        return None
    axes = []
    for number, extent in enumerate(places.shape):
        along = places[tuple(slice(None) if axis == number else 0 for axis in range(places.ndim))]
        inside = int(np.count_nonzero(along))
        axes.append(Axis(extent, inside, int(along[1]) - 1 if inside > 1 else 0))
    wanted = np.ones(places.shape, np.int64)
    for index, axis in zip(np.ogrid[tuple(map(slice, places.shape))], axes, strict=True):
        wanted += index * axis.step
    for number, axis in enumerate(axes):
        wanted[tuple(slice(axis.inside if at == number else 0, None) for at in range(places.ndim))] = 0
    return tuple(axes) if np.array_equal(wanted, places) else None


def checksum(array: np.ndarray) -> str:
    """The sum of hashes of all words of an array, each with its place: 16 hexadecimal digits."""
    data = np.ascontiguousarray(array).tobytes()
    words = np.frombuffer(data + bytes(-len(data) % 8), "<u8")
    places = np.arange(1, words.size + 1, dtype=np.uint64) * _STEP
    return f"{int(_mixed(words + _mixed(places)).sum(dtype=np.uint64)):016x}"


def _mixed(word: np.ndarray | np.uint64) -> np.ndarray:
    """The finaliser of splitmix64: Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014."""
    mixed = np.atleast_1d(np.asarray(word, np.uint64))
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return mixed ^ (mixed >> np.uint64(31))
