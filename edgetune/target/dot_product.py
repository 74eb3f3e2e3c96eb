"""Dot products: the instructions of a core that add several products of integers to each lane of 32 bits."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import ConfigDict, Field, model_validator

from edgetune.yaml_reader.checked import Checked

_BITS: dict[int, Literal[8, 16]] = {2: 16, 4: 8, 16: 8}
"""Of a factor where none are stated, by the products of a lane."""

_OF_BYTES = frozenset(elements for elements, bits in _BITS.items() if bits == min(_BITS.values()))
"""Products of a lane whose other factors are bytes, whatever the data are."""


def at_words(function: str) -> str:
    """The name of a dot product whose integers begin at multiples of 4 bytes, by that of one for any."""
    return function.replace("dot", "dot_aligned", 1)


def order_of_factors(data: str, elements: int) -> tuple[int, ...]:
    """The order in which the data of a lane is multiplied by the other factors, which lie in turn.

    SXTB16 makes 16 bits of every second of four bytes, so the first two of these meet the first and the third number.
    """
    return (0, 2, 1, 3) if (data, elements) == ("int16", 4) else tuple(range(elements))


class DotProduct(Checked):
    """One instruction that adds products of neighbouring integers to lanes of 32 bits."""

    model_config = ConfigDict(frozen=True)

    elements: Literal[2, 4, 16] = Field(
        description="Products of a lane: 2 (PMADDWD of 16 bits, SMULL and SADALP of 8 bits), 4 of 8 bits (SDOT), 4 of "
        "16 bits by 8 (two SXTB16 and two SMLAD), or 16 of 8 bits for a number (VMLADAVA)."
    )
    bits: Literal[8, 16] | None = Field(
        default=None, description="Bits of a factor. By default 16 where a lane has 2 products, 8 where it has 4."
    )
    signs: Literal["ss", "us"] = Field(
        default="ss", description="Signs of the factors: ss (both have one), us (the first one has none: VPDPBUSD)."
    )

    @model_validator(mode="after")
    def _exists(self) -> Self:
        """Products of 16 bits have signs, and those of two elements too."""
        if self.bits == max(_BITS.values()) and self.signs != "ss":
            raise ValueError(f"products of 16 bits have signs: write 'signs: ss', not 'signs: {self.signs}'")
        if self.elements == min(_BITS) and self.signs != "ss":
            raise ValueError(f"products of two elements have signs: write 'signs: ss', not 'signs: {self.signs}'")
        return self

    @property
    def function(self) -> str:
        """The function of `VectorInstructions.dot` that multiplies its data by factors with a sign."""
        bits = int(self.data.removeprefix("uint").removeprefix("int"))
        own = min(_BITS.values()) if self.elements in _OF_BYTES else bits
        return f"dot_{self.data[0]}{bits}_i{own}_{self.elements}"

    @property
    def data(self) -> str:
        """The type of the first factor."""
        return f"{'u' if self.signs[0] == 'u' else ''}int{self.bits or _BITS[self.elements]}"
