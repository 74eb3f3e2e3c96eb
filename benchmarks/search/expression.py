"""One case of the search benchmark: a tensor expression for edgetune, and the same operator in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from edgetune.search.seeds import derive_seed

FLOAT = 4
"""Bytes of an element: all tensors are float32."""

Tensors = Mapping[str, Any]
"""PyTorch tensors by name."""


@dataclass(frozen=True)
class Expression:
    """An operator with its shapes.

    `compute(*inputs, *constants)` gets TVM tensors and returns one. `variants(torch, tensors)` gives the ways in which
    PyTorch can compute it, each a call whose result has the axes of the expression's output; the fastest one counts.
    `operations` counts additions and multiplications of the mathematical definition.
    """

    name: str
    inputs: Mapping[str, tuple[int, ...]]
    constants: Mapping[str, tuple[int, ...]]
    output: tuple[int, ...]
    operations: int
    compute: Callable[..., Any]
    variants: Callable[[Any, Tensors], Sequence[Callable[[], Any]]]

    @property
    def bytes_touched(self) -> int:
        """Bytes of all tensors, each counted once."""
        return FLOAT * (sum(map(prod, (*self.inputs.values(), *self.constants.values()))) + prod(self.output))

    def values(self, names: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
        """Normally distributed float32 values for tensors of this expression; equal in every process."""
        return {
            name: np.random.default_rng(derive_seed(0, self.name, name)).standard_normal(shape).astype(np.float32)
            for name, shape in names.items()
        }
