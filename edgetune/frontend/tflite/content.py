"""The content of a `.tflite` file: its first subgraph as plain values."""

from __future__ import annotations

from collections.abc import Mapping
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
    """The first subgraph of a file, in the order in which it runs."""

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
