"""Golden vectors: inputs with the outputs that the reference gave for them, and how near a package must come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from edgetune.config.preferences import Layout
from edgetune.graph.accuracy import FLOAT_TOLERANCE
from edgetune.graph.axis_order import exchanged

_ROUNDED = 1.001
"""One step, and what rounding to float adds to it."""
_MARGIN = 1.5
"""The largest of few differences is not the largest there can be."""


class Golden(NamedTuple):
    """One case: arrays by the name the model gives its inputs and outputs."""

    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]

    def exchanged(self, layouts: Mapping[str, Layout]) -> Golden:
        """Return a case of the model as its package has it, where the interface has other `layouts` by name."""
        return Golden(exchanged(self.inputs, layouts), exchanged(self.outputs, layouts))


@dataclass(frozen=True)
class Tolerance:
    """How far an output may be from its golden: `absolute` + `relative` * (largest finite magnitude of the golden).

    `absolute` is in the unit of the output: 1.0 on an integer output allows one quantisation step. For quantised
    outputs the numbers behind it are kept, in the same unit: `step`, and by how much evaluators of the reference differ
    among themselves (`disagreement`, in a share `disagreeing` of the elements). `reference_error` is there where an
    output is judged by double: what the reference in float32 is off, as a share of the largest magnitude.
    """

    relative: float = 0.0
    absolute: float = 0.0
    step: float = 0.0
    disagreement: float = 0.0
    disagreeing: float = 0.0
    reference_error: float = 0.0

    @classmethod
    def quantised(cls, step: float, disagreement: float = 0.0, disagreeing: float = 0.0) -> Tolerance:
        """Return one step, or where evaluators of the reference are further apart: one step and 1.5 times that."""
        one = step * _ROUNDED
        if disagreement <= one:
            return cls(0.0, one, step, disagreement, disagreeing)
        return cls(0.0, one + _MARGIN * disagreement, step, disagreement, disagreeing)

    @classmethod
    def by_double(cls, dtype: str, reference_error: float) -> Tolerance:
        """Return what is usual for floats, or where the reference is further off double than that: 1.5 times it."""
        usual = cls.default(dtype).relative
        return cls(max(usual, _MARGIN * reference_error), reference_error=reference_error)

    @property
    def widened(self) -> bool:
        """Whether more than one step is allowed, because the references are further apart than that."""
        return self.absolute > self.step * _ROUNDED > 0.0

    def to_json(self) -> dict[str, float]:
        """Plain JSON values; what is 0 for floats is left out."""
        numbers = {"relative": self.relative, "absolute": self.absolute}
        if self.step:
            numbers |= {"step": self.step, "disagreement": self.disagreement, "disagreeing": self.disagreeing}
        if self.reference_error:
            numbers["reference_error"] = self.reference_error
        return numbers

    @classmethod
    def default(cls, dtype: str) -> Tolerance:
        """Return `FLOAT_TOLERANCE` of the largest output for floats, exact equality for everything else."""
        return cls(relative=FLOAT_TOLERANCE.get(dtype, 0.0))

    def bound(self, expected: np.ndarray) -> float:
        """Return the largest absolute error allowed; an all-zero float output is judged as if its largest were 1."""
        values = np.abs(expected.astype(np.float64))
        finite = values[np.isfinite(values)]
        largest = float(finite.max()) if finite.size else 0.0
        return self.absolute + self.relative * (largest or 1.0)
