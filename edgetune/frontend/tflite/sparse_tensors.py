"""Sparse constants: the values that a file stores of one, at their places among zeros.

The format is that of TACO (Kjolstad et al. 2017), as `SparsityParameters` of TensorFlow Lite's schema has it: axes are
traversed in a given order, some of them in blocks. Of a dense axis every place is stored, of a sparse one those that
its row of `segments` names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Level:
    """One traversed axis: `size` places, or places by `segments` and `indices`."""

    size: int
    segments: np.ndarray | None = None
    indices: np.ndarray | None = None


def level_of(schema: Any, table: Any) -> Level:
    """An entry of `dim_metadata`; `schema` is the module of the schema's classes, whose exceptions pass."""
    if table.Format() == schema.DimensionType.DENSE:
        return Level(int(table.DenseSize()))
    names = {number: name for name, number in vars(schema.SparseIndexVector).items()}
    vectors = []
    for kind, union in (
        (table.ArraySegmentsType(), table.ArraySegments()),
        (table.ArrayIndicesType(), table.ArrayIndices()),
    ):
        vector = getattr(schema, names[kind])()
        vector.Init(union.Bytes, union.Pos)
        vectors.append(np.asarray(vector.ValuesAsNumpy(), np.int64).reshape(-1))
    return Level(0, *vectors)


def dense(
    values: np.ndarray, shape: Sequence[int], order: Sequence[int], blocked: Sequence[int], levels: Sequence[Level]
) -> np.ndarray:
    """The whole array of `shape`.

    `order` has, for each of `levels`, the axis that it traverses: one of `shape`, or, counted on from those, the inside
    of the blocks of axis `blocked[n]`. Raises ValueError where they contradict each other.
    """
    rank = len(shape)
    if sorted(order) != list(range(rank + len(blocked))) or len(levels) != len(order):
        raise ValueError("its axes are not traversed once each")
    if any(not 0 <= axis < rank for axis in blocked):
        raise ValueError("it has blocks along an axis that it lacks")
    entries, places = np.zeros(1, np.int64), np.zeros((1, 0), np.int64)
    for level in levels:
        rows, index = _children(entries, level, prod(shape))
        places = np.concatenate([places[rows], index[:, None]], axis=1)
        entries = entries[rows] * level.size + index if level.segments is None else _stored(entries, level)
    if len(places) != values.size:
        raise ValueError(f"it stores {values.size} values for {len(places)} places")
    at = [np.zeros(len(places), np.int64) for _ in range(rank)]
    for column, axis in enumerate(order):
        if axis < rank:
            at[axis] = at[axis] + places[:, column]
        else:
            own = blocked[axis - rank]
            at[own] = at[own] * levels[column].size + places[:, column]
    if any(np.any((index < 0) | (index >= extent)) for index, extent in zip(at, shape, strict=True)):
        raise ValueError("it stores a value outside its shape")
    result = np.zeros(tuple(shape), values.dtype)
    result[tuple(at)] = values
    return result


def _children(entries: np.ndarray, level: Level, most: int) -> tuple[np.ndarray, np.ndarray]:
    """For each place of the next level: the row of its parent, and its index; there are at most `most`."""
    if level.segments is None or level.indices is None:
        if level.size < 1 or len(entries) * level.size > most:
            raise ValueError("it has more places than its shape")
        return np.repeat(np.arange(len(entries)), level.size), np.tile(np.arange(level.size), len(entries))
    counts = np.diff(level.segments)[entries]
    if np.any(counts < 0) or counts.sum() > most:
        raise ValueError("its segments are not in order")
    return np.repeat(np.arange(len(entries)), counts), level.indices[_stored(entries, level)]


def _stored(entries: np.ndarray, level: Level) -> np.ndarray:
    """The numbers of the stored places of a sparse level, segment by segment."""
    segments = level.segments
    if segments is None:
        return entries
    starts, counts = segments[entries], np.diff(segments)[entries]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.asarray(np.repeat(starts, counts) + within)
