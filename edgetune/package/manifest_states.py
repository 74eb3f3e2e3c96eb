"""States in a manifest: each has as many bytes as its shape and type say, and a place of its own."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from math import prod
from typing import Annotated, Self

import ml_dtypes
import numpy as np
from pydantic import AfterValidator, Field, model_validator

from edgetune.errors import UnsupportedOperator
from edgetune.graph.program import Ring
from edgetune.package.ctext import c_type
from edgetune.package.manifest_part import Count, ManifestPart, ShapedPart
from edgetune.package.states import WORD_BYTES

_MOST_BYTES = 1 << 32
"""Of all states: C has their offsets in 32 bits."""


def _known(dtype: str) -> str:
    try:
        c_type(dtype)
    except UnsupportedOperator:
        raise ValueError(f"must be an element type of a package, not {dtype[:40]!r}") from None
    return dtype


def _bytes_of_base64(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        raise ValueError("must be in base64") from None
    return text


class RingPart(ManifestPart):
    """How a state lies in a ring buffer."""

    axis: Count
    rows: Annotated[int, Field(ge=1, lt=1 << 31)]
    count: Annotated[int, Field(ge=1)]
    position: str


class StatePart(ShapedPart):
    """A state."""

    input: str
    output: str
    dtype: Annotated[str, AfterValidator(_known)]
    zero: int
    first: Annotated[str, AfterValidator(_bytes_of_base64)] = ""
    copied: bool
    offset: Annotated[int, Field(ge=WORD_BYTES, multiple_of=WORD_BYTES)]
    nbytes: int = Field(alias="bytes", ge=0, le=_MOST_BYTES)
    ring: RingPart | None = None

    @property
    def is_position(self) -> bool:
        """Whether it is where the next rows of rings are written."""
        return not self.input and self.dtype == "int32" and not self.shape

    @model_validator(mode="after")
    def _whole(self) -> Self:
        size = np.dtype(self.dtype).itemsize
        memory = self.shape if self.ring is None else _memory(self.ring, self.shape)
        if self.nbytes != prod(memory) * size or prod(extent or 1 for extent in memory) * size > _MOST_BYTES:
            raise ValueError(f"has {self.nbytes} bytes, which its shape {self.shape} of {self.dtype} does not take")
        first = len(base64.b64decode(self.first))
        if first and first != prod(self.shape) * size:
            raise ValueError("must have as many first bytes as the state")
        if not _holds(self.dtype, self.zero):
            raise ValueError(f"begins with a number that {self.dtype} does not have")
        if not self.input and not self.is_position:
            raise ValueError("lacks the name of an input")
        return self

    @property
    def end(self) -> int:
        """The byte behind it."""
        return self.offset + self.nbytes


def _memory(ring: RingPart, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of the memory of a ring for a state of this shape; raises ValueError where it does not hold it."""
    if ring.axis >= len(shape) or ring.rows % ring.count or ring.rows < shape[ring.axis]:
        raise ValueError(f"has a ring of {ring.rows} rows along axis {ring.axis}, which its shape {shape} does not fit")
    return Ring(ring.axis, ring.rows, ring.count).shape(tuple(shape))


def _holds(dtype: str, number: int) -> bool:
    """Whether an element can be `number` exactly."""
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        return np.iinfo(kind).min <= number <= np.iinfo(kind).max
    if kind.kind == "b":
        return number in {0, 1}
    most = int(ml_dtypes.finfo(kind).max)  # type: ignore[no-untyped-call]
    return abs(number) <= most and int(np.full(1, number, kind)[0]) == number


def require_places(states: Sequence[StatePart]) -> None:
    """Raise ValueError unless the names of all states differ, none lies upon another, and rings have their position."""
    for what, names in (("input", [one.input for one in states]), ("output", [one.output for one in states])):
        twice = next((name for name in names if name and names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"has the {what} {twice!r} twice")
    end = WORD_BYTES
    for one in states:
        if one.offset < end or one.end > _MOST_BYTES:
            raise ValueError(f"has {one.output!r} at byte {one.offset}, where it has no place")
        end = one.end
    positions = {one.output for one in states if one.is_position}
    for one in states:
        if one.ring is not None and one.ring.position not in positions:
            raise ValueError(f"has the ring {one.output!r}, whose position {one.ring.position!r} is no state")
