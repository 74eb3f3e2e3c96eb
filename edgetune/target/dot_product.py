"""Dot products: the instructions of a core that add several products of integers to each lane of 32 bits."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import ConfigDict, Field, model_validator

from edgetune.yaml_reader.checked import Checked

_BITS = {2: 16, 4: 8}
"""Of a factor, by the products of a lane."""
_SIGNED_ALONE = 2


class DotProduct(Checked):
    """One instruction that adds products of neighbouring integers to lanes of 32 bits."""

    model_config = ConfigDict(frozen=True)

    elements: Literal[2, 4] = Field(description="Products of a lane: 2 of 16 bits (PMADDWD), 4 of 8 bits (SDOT).")
    signs: Literal["ss", "us"] = Field(
        default="ss", description="Signs of the factors: ss (both have one), us (the first one has none: VPDPBUSD)."
    )

    @model_validator(mode="after")
    def _exists(self) -> Self:
        """No core has products of 16 bits without signs."""
        if self.elements == _SIGNED_ALONE and self.signs != "ss":
            raise ValueError(f"products of two elements have signs: write 'signs: ss', not 'signs: {self.signs}'")
        return self

    @property
    def data(self) -> str:
        """The type of the first factor."""
        return f"{'u' if self.signs[0] == 'u' else ''}int{_BITS[self.elements]}"
