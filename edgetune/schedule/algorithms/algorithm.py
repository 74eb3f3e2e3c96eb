"""The data types of an algorithm: a kernel's alternative function and the transforms of its constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from edgetune.tvm_types import PrimFunc


class ConstantTransform(Protocol):
    """The change of a constant when the package is built."""

    def apply(self, source: np.ndarray) -> np.ndarray:
        """`source`, with the shape that the kernel states, converted to what the algorithm or the schedule wants."""


@dataclass(frozen=True)
class Algorithm:
    """One way to compute a kernel: an unscheduled PrimFunc with the kernel's parameters in their order.

    `transforms` has, by parameter index, the transforms of constants before `function` reads them; all other constants
    are read unchanged.
    """

    name: str
    function: PrimFunc
    transforms: Mapping[int, ConstantTransform] = field(default_factory=dict)


@dataclass(frozen=True)
class Chain:
    """Several transforms, applied one after another."""

    steps: tuple[ConstantTransform, ...]

    def apply(self, source: np.ndarray) -> np.ndarray:
        """The result of the last step."""
        for step in self.steps:
            source = step.apply(source)
        return source
