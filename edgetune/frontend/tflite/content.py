"""The content of a `.tflite` file: its subgraphs as plain values, and sparse constants with all their zeros.

The format of sparse constants is that of TACO (Kjolstad et al. 2017), as `SparsityParameters` of the schema has it:
axes are traversed in a given order, some of them in blocks. Of a dense axis every place is stored, of a sparse one
those that its row of `segments` names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

DTYPES: Mapping[str, np.dtype[Any]] = {
    name: np.dtype(kind)
    for name, kind in {
        "FLOAT32": np.float32,
        "FLOAT16": np.float16,
        "BFLOAT16": ml_dtypes.bfloat16,
        "FLOAT64": np.float64,
        "INT64": np.int64,
        "INT32": np.int32,
        "INT16": np.int16,
        "INT8": np.int8,
        "INT4": ml_dtypes.int4,
        "UINT64": np.uint64,
        "UINT32": np.uint32,
        "UINT16": np.uint16,
        "UINT8": np.uint8,
        "BOOL": np.bool_,
    }.items()
}
"""Element types of tensors by their names in the schema, without strings, resources, variants, complex numbers."""


@dataclass(frozen=True)
class Quantisation:
    """An integer stands for (integer - zero point) * scale; of several scales, each is for a place along `axis`."""

    scale: np.ndarray
    zero_point: np.ndarray
    axis: int = 0

    def __eq__(self, other: object) -> bool:
        """Whether equal integers have equal real values."""
        return (
            isinstance(other, Quantisation)
            and np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero_point, other.zero_point)
            and (self.scale.size == 1 or self.axis == other.axis)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Tensor:
    """A tensor of the subgraph. `name` is the file's, made unique; `signature` has -1 for axes of free extent.

    Its `data` are those of `buffer`, which others may have too.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    type: str
    buffer: int
    data: memoryview | None = None
    quantisation: Quantisation | None = None
    variable: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its elements."""
        return DTYPES[self.type]

    @cached_property
    def value(self) -> np.ndarray | None:
        """The elements of a constant; None of any other tensor."""
        if self.data is None:
            return None
        if self.type == "INT4":  # two a byte, the first one in the low half
            pairs = np.frombuffer(self.data, np.uint8)
            both = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(-1)[: prod(self.shape)].astype(np.int8)
            return np.where(both > 7, both - 16, both).astype(np.int8).reshape(self.shape)
        return np.frombuffer(self.data, self.dtype.newbyteorder("<")).astype(self.dtype).reshape(self.shape)


@dataclass(frozen=True)
class Operator:
    """An operator by its name in the schema, `custom` where it has another; tensors by number, -1 where left out."""

    index: int
    name: str
    custom: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TfliteContent:
    """A subgraph of a file, in the order in which it runs; `initial` has those that its CALL_ONCE run, by number."""

    path: Path
    data: bytes
    sha256: str
    version: int
    description: str
    subgraphs: int
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    initial: Mapping[int, TfliteContent] = field(default_factory=dict)


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
