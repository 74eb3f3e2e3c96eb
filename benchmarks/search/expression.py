"""One case of the search benchmark: a tensor expression for edgetune, and the same operator in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from edgetune.codegen.operations import polynomial_operations
from edgetune.search.seeds import derive_seed

FLOAT = 4
"""Bytes of an element: all tensors are float32."""

EXP = polynomial_operations("exp")
"""Additions and multiplications of our polynomial for `exp` where the result is a normal number."""
LOG = polynomial_operations("log")
"""The same for `log`."""

Tensors = Mapping[str, Any]
"""PyTorch tensors by name."""

Checked = tuple[np.ndarray, np.ndarray]
"""A result in double precision, and for each element the sum of the absolute values of its terms."""

Reference = Callable[..., Checked]


def in_double(reference: Reference) -> Reference:
    """`reference` with all of its operands in double precision."""
    return lambda *operands: reference(*(operand.astype(np.float64) for operand in operands))


def multilinear(definition: Callable[..., np.ndarray]) -> Reference:
    """The reference of a sum of products: its terms are `definition` of the operands' absolute values."""
    return in_double(lambda *operands: (definition(*operands), definition(*map(np.abs, operands))))


@dataclass(frozen=True)
class Expression:
    """An operator with its shapes.

    `compute(*inputs, *constants)` gets TVM tensors and returns one. `variants(torch, tensors)` gives the ways in which
    PyTorch can compute it, each a call whose result has the axes of the expression's output; the fastest one counts.
    `operations` counts additions and multiplications of the mathematical definition. A case without `variants` has no
    PyTorch side: `reference(*inputs)` is what its result is checked against.
    """

    name: str
    inputs: Mapping[str, tuple[int, ...]]
    constants: Mapping[str, tuple[int, ...]]
    output: tuple[int, ...]
    operations: int
    compute: Callable[..., Any]
    variants: Callable[[Any, Tensors], Sequence[Callable[[], Any]]] | None = None
    reference: Reference | None = None

    def error(self, answer: np.ndarray) -> float:
        """The largest error of `answer`, as a share of its terms; infinite for another shape or a NaN.

        Raises ValueError for a case without a `reference`.
        """
        if self.reference is None:
            raise ValueError(f"'{self.name}' has no definition in double precision")
        value, terms = self.reference(*self.values(self.inputs).values())
        if answer.shape != value.shape:
            return float("inf")
        gap = np.abs(answer.astype(np.float64) - value)
        worst = float(np.max(gap / np.maximum(terms, np.finfo(np.float32).tiny), initial=0.0))
        return float("inf") if np.isnan(worst) else worst

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
