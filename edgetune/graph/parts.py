"""Parts of tensors as arguments of calls: where in a buffer an argument begins, in each iteration of a loop and run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

_VECTOR_BYTES = 16


@dataclass(frozen=True)
class Part:
    """An argument that is a part of its buffer: it starts `offset` elements into it, and its `shape` has no gaps.

    With `movements`, it starts elsewhere in each iteration of the loops around its call, with `row` elsewhere in each
    run.
    """

    offset: int
    shape: tuple[int, ...]
    movements: tuple[Movement, ...] = ()
    row: NumberedRow | None = None

    def with_firsts(self, changed: Callable[[BufferPart], BufferPart]) -> Part:
        """This part with other places in the first iterations: what `changed` makes of each."""
        return replace(
            self,
            movements=tuple(m if m.first is None else replace(m, first=changed(m.first)) for m in self.movements),
        )

    def in_buffers(self, numbers: Mapping[int, int]) -> Part:
        """This part with new numbers of the buffers that it is in first iterations, and of the one that has its row."""
        row = None if self.row is None else replace(self.row, buffer=numbers[self.row.buffer])
        renumbered = self.with_firsts(lambda first: BufferPart(numbers[first.buffer], first.part.in_buffers(numbers)))
        return replace(renumbered, row=row)

    def is_unaligned(self, dtype: str) -> bool:
        """Whether it may begin at another place than a multiple of the widest access of one thread of a GPU."""
        steps = [self.offset, *(movement.elements for movement in self.movements)]
        steps += [] if self.row is None else [self.row.elements]
        firsts = (movement.first.part for movement in self.movements if movement.first is not None)
        size = np.dtype(dtype).itemsize
        return any(step * size % _VECTOR_BYTES for step in steps) or any(first.is_unaligned(dtype) for first in firsts)


@dataclass(frozen=True)
class Movement:
    """How an argument moves with a loop: iteration i adds `elements` * ((i + `ahead`) mod `rows`) to where it starts.

    Without `rows`, nothing is wrapped. Where there is a `first`, the argument is that instead in the first iteration:
    the value that a state has before the loop.
    """

    loop: int
    elements: int
    rows: int = 0
    ahead: int = 0
    first: BufferPart | None = None

    def at(self, iteration: int) -> int:
        """Elements that `iteration` adds."""
        row = iteration + self.ahead
        return self.elements * (row % self.rows if self.rows else row)


@dataclass(frozen=True)
class NumberedRow:
    """Which row of a tensor an argument begins at: the number (int32) in `buffer`, of rows of so many `elements`.

    A number that is none of the `rows` is taken for the nearest one.
    """

    buffer: int
    elements: int
    rows: int

    def at(self, number: int) -> int:
        """Elements that a number adds."""
        return min(max(number, 0), self.rows - 1) * self.elements


@dataclass(frozen=True)
class BufferPart:
    """A buffer, and the part of it that is meant."""

    buffer: int
    part: Part

    @property
    def all_places(self) -> Iterator[BufferPart]:
        """Itself, and where it is in first iterations."""
        yield self
        for movement in self.part.movements:
            if movement.first is not None:
                yield from movement.first.all_places
