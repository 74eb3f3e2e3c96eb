"""Golden vectors: inputs with the outputs that the reference gave for them, and how near a package must come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

FLOAT_TOLERANCE = 1e-4


class Golden(NamedTuple):
    """One case: arrays by the name the model gives its inputs and outputs."""

    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Tolerance:
    """How far an output may be from its golden: `absolute` + `relative` * (largest finite magnitude of the golden).

    `absolute` is in the unit of the output: 1.0 on an integer output allows one quantisation step.
    """

    relative: float = 0.0
    absolute: float = 0.0

    @classmethod
    def default(cls, dtype: str) -> Tolerance:
        """Return 1e-4 of the largest output for floats, exact equality for everything else."""
        return cls(relative=FLOAT_TOLERANCE) if dtype.startswith("float") else cls()

    def bound(self, expected: np.ndarray) -> float:
        """Return the largest absolute error allowed; an all-zero float output is judged as if its largest were 1."""
        values = np.abs(expected.astype(np.float64))
        finite = values[np.isfinite(values)]
        largest = float(finite.max()) if finite.size else 0.0
        return self.absolute + self.relative * (largest or 1.0)
