"""What a form of a kernel is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np


class ConstantTransform(Protocol):
    """What becomes of a constant when the package is built."""

    def apply(self, source: np.ndarray) -> np.ndarray:
        """`source`, of the shape that the kernel states, as the form or the schedule wants it."""


@dataclass(frozen=True)
class Form:
    """One way to compute a kernel: an unscheduled PrimFunc with the kernel's parameters in their order.

    `transforms` says by parameter index what is done to constants before `function` can read them; constants that it
    does not name are read as they are.
    """

    name: str
    function: Any
    transforms: Mapping[int, ConstantTransform] = field(default_factory=dict)


@dataclass(frozen=True)
class Chain:
    """Transforms one after another."""

    steps: tuple[ConstantTransform, ...]

    def apply(self, source: np.ndarray) -> np.ndarray:
        """The last step's answer."""
        for step in self.steps:
            source = step.apply(source)
        return source
