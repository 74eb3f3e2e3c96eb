"""Cycles of a core, estimated from how many instructions of each class it executes.

An estimate knows neither which instructions wait for one another nor what caches hold. It orders no candidates; it says
about how long a counted model takes on a part that is not here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, StrictFloat, StrictInt

from edgetune.yaml_reader.checked import Checked

Cycles = Annotated[StrictFloat | StrictInt, Field(ge=0)]

COUNTERS = ("instructions", "loads", "stores", "branches", "multiplications", "divisions", "floats", "vectors")
"""What the emulator's plugin counts, in its order (templates/image/plugin/regions.c); `CycleCosts` has these names."""


class CycleCosts(Checked):
    """Cycles of one instruction of any kind, and those that one of a class takes beyond that."""

    instructions: Cycles = Field(
        default=1, description="Cycles of an instruction of any kind: less than 1 where a core issues two at once."
    )
    loads: Cycles = Field(default=0, description="More cycles of a loaded word, or of a loaded vector.")
    stores: Cycles = Field(default=0, description="More cycles of a stored word, or of a stored vector.")
    branches: Cycles = Field(default=0, description="More cycles of a branch, of which most are taken.")
    multiplications: Cycles = Field(default=0, description="More cycles of a multiplication of integers.")
    divisions: Cycles = Field(default=0, description="More cycles of a division.")
    floats: Cycles = Field(default=0, description="More cycles of an operation on floats.")
    vectors: Cycles = Field(default=0, description="More cycles of an operation on vectors (Helium).")

    def estimate(self, counts: Sequence[int]) -> float:
        """Return the cycles of what was counted, one number for each of `COUNTERS`."""
        costs = self.model_dump()
        return float(sum(costs[name] * count for name, count in zip(COUNTERS, counts, strict=True)))
