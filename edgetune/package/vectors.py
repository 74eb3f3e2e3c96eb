"""Storage of golden vectors in the self-test: C text while they are small, otherwise one binary image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgetune.errors import WrongResult
from edgetune.package.golden import Golden
from edgetune.package.interface import Interface, PublicTensor

TEXT_LIMIT_BYTES = 512 * 1024
_ALIGNMENT = 64


@dataclass(frozen=True, eq=False)
class Vector:
    """One tensor of one case; `symbol` is its C expression, `offset` its place in the binary image."""

    case: int
    side: str
    tensor: PublicTensor
    array: np.ndarray
    symbol: str
    offset: int


@dataclass(frozen=True, eq=False)
class Vectors:
    """All golden vectors; each row holds the C expressions of one case, one per tensor, in struct order."""

    items: tuple[Vector, ...]
    binary: bool
    nbytes: int
    input_rows: tuple[tuple[str, ...], ...]
    output_rows: tuple[tuple[str, ...], ...]

    def image(self) -> bytes:
        """Return the binary image: little-endian, every tensor on a multiple of 64 bytes."""
        image = bytearray(self.nbytes)
        for item in self.items:
            data = np.ascontiguousarray(item.array.astype(item.array.dtype.newbyteorder("<"), copy=False)).tobytes()
            image[item.offset : item.offset + len(data)] = data
        return bytes(image)


def place_vectors(api: Interface, goldens: Sequence[Golden]) -> Vectors:
    """Lay out the golden vectors; raises WrongResult where one does not fit the model's inputs and outputs."""
    items: list[Vector] = []
    offset = 0
    for case, golden in enumerate(goldens):
        for side, tensors, arrays in (("input", api.inputs, golden.inputs), ("output", api.outputs, golden.outputs)):
            for number, tensor in enumerate(tensors):
                array = _fitting(case, side, tensor, arrays.get(tensor.name))
                items.append(Vector(case, side, tensor, array, f"{api.prefix}_{side}_{case}_{number}", offset))
                offset += max(_ALIGNMENT, -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT)
    binary = sum(item.array.nbytes for item in items) > TEXT_LIMIT_BYTES

    def rows(side: str) -> tuple[tuple[str, ...], ...]:
        return tuple(
            tuple(
                f"{api.prefix}__vectors + {item.offset}" if binary else item.symbol
                for item in items
                if item.case == case and item.side == side
            )
            for case in range(len(goldens))
        )

    return Vectors(tuple(items), binary, offset, rows("input"), rows("output"))


def _fitting(case: int, side: str, tensor: PublicTensor, array: np.ndarray | None) -> np.ndarray:
    if array is None:
        raise WrongResult(f"golden case {case} has no {side} '{tensor.name}'")
    if array.size != tensor.elements or str(array.dtype) != tensor.dtype:
        raise WrongResult(
            f"golden case {case}: {side} '{tensor.name}' is {array.shape} {array.dtype}, "
            f"the model has {tensor.shape} {tensor.dtype}"
        )
    return array
