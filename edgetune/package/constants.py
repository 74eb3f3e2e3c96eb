"""Weight storage: deduplicates constants by content, and places them in C arrays or in one aligned binary image."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from edgetune.errors import KernelFailed
from edgetune.graph.program import Program
from edgetune.package.ctext import c_type

TEXT_LIMIT_BYTES = 2 * 1024 * 1024
ALIGNMENT = 64
Placement = Literal["text", "binary", "external"]


@dataclass(frozen=True, eq=False)
class Weight:
    """One distinct constant: `index` is its number, `offset` its place in the binary image, in order of first use."""

    index: int
    offset: int
    array: np.ndarray
    label: str

    @property
    def c_type(self) -> str:
        """Element type of the C array."""
        return c_type(str(self.array.dtype))

    @property
    def elements(self) -> int:
        """Length of the C array, at least 1."""
        return max(1, self.array.size)


@dataclass(frozen=True, eq=False)
class Weights:
    """All constants; `uses` maps (call index, parameter index) to the number of a weight.

    `firsts` does so for the buffers of constants that arguments are in a first iteration alone.
    """

    items: tuple[Weight, ...]
    uses: Mapping[tuple[int, int], int]
    placement: Placement
    firsts: Mapping[int, int] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of the binary image, including the padding between constants."""
        return self.items[-1].offset + _padded(self.items[-1].array.nbytes) if self.items else 0

    def image(self) -> bytes:
        """Return the binary image, little-endian, every constant on a multiple of 64 bytes."""
        parts = []
        for item in self.items:
            data = _bytes(item.array)
            parts.append(data + bytes(_padded(len(data)) - len(data)))
        return b"".join(parts)


def place_weights(
    program: Program,
    packed: Mapping[tuple[int, int], np.ndarray],
    placement: Placement | None = None,
    text_limit: int = TEXT_LIMIT_BYTES,
) -> Weights:
    """Collect the constants of all calls; `packed` overrides the program's own array of the same (call, parameter).

    With `placement` None, up to `text_limit` bytes go to C text, more to the binary. Raises KernelFailed for a
    missing constant.
    """
    kinds = {buffer.id: buffer.kind for buffer in program.buffers}
    seen: dict[tuple[str, str], int] = {}
    items: list[Weight] = []
    uses: dict[tuple[int, int], int] = {}
    firsts: dict[int, int] = {}
    offset = 0
    for number, call in enumerate(program.calls):
        for position, place in call.places:
            buffer, is_first = place.buffer, (number, position) in uses or place.buffer != call.arguments[position]
            if kinds[buffer] != "constant":
                continue
            own = program.constants.get(buffer)
            array = own if is_first else packed.get((number, position), own)
            if array is None:
                kernel = program.kernels[call.kernel].name
                raise KernelFailed(
                    f"constant {position} of call {number} (kernel {kernel}) has no value: report this model"
                )
            key = (str(array.dtype), hashlib.sha256(_bytes(array)).hexdigest())
            if key not in seen:
                seen[key] = len(items)
                items.append(Weight(len(items), offset, array, call.label))
                offset += _padded(array.nbytes)
            if is_first:
                firsts[buffer] = seen[key]
            else:
                uses[number, position] = seen[key]
    if placement is None:
        placement = "text" if offset <= text_limit else "binary"
    return Weights(tuple(items), uses, placement, firsts)


def _bytes(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).tobytes()


def _padded(nbytes: int) -> int:
    return max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)
