"""Golden vectors: inputs with the outputs of the reference, and the tolerance for the outputs of a package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from edgetune.graph.accuracy import Tolerance
from edgetune.graph.layout.axis_order import exchanged
from edgetune.target.preferences import Layout

_ROUNDED = 1.001
"""One step, plus the error of rounding to float."""
_MARGIN = 1.5
"""Safety factor: the largest of few observed differences is not the largest possible one."""


class Golden(NamedTuple):
    """One case: arrays by the model's names of inputs and outputs."""

    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]

    def exchanged(self, layouts: Mapping[str, Layout]) -> Golden:
        """Return a case of the model as the package has it, where the interface has other `layouts` by name."""
        return Golden(exchanged(self.inputs, layouts), exchanged(self.outputs, layouts))


@dataclass(frozen=True)
class OutputTolerance(Tolerance):
    """How far an output may be from its golden, and the origin of that number.

    1.0 for `absolute` of an integer output allows one quantisation step. Quantised outputs have, in the same unit,
    `step`, and how much evaluators of the reference differ among themselves (`disagreement`, in a share `disagreeing`
    of the elements). `reference_error` is set where an output is judged by double: the error of the float32 reference,
    as a share of the largest magnitude. `storage_error` is set where 16 bits are too few: how far storing constants and
    tensors between kernels in them moves the output, in exact sums, as a share of the largest magnitude.
    """

    step: float = 0.0
    disagreement: float = 0.0
    disagreeing: float = 0.0
    reference_error: float = 0.0
    storage_error: float = 0.0

    @classmethod
    def quantised(cls, step: float, disagreement: float = 0.0, disagreeing: float = 0.0) -> OutputTolerance:
        """Return one step; where evaluators of the reference differ by more, one step plus 1.5 times the difference."""
        one = step * _ROUNDED
        absolute = one if disagreement <= one else one + _MARGIN * disagreement
        return cls(absolute=absolute, step=step, disagreement=disagreement, disagreeing=disagreeing)

    @classmethod
    def by_double(cls, dtype: str, reference_error: float) -> OutputTolerance:
        """Return the larger of the usual tolerance for floats and 1.5 times the reference's error against double."""
        usual = cls.default(dtype).relative
        return cls(max(usual, _MARGIN * reference_error), reference_error=reference_error)

    @classmethod
    def stored(cls, storage_error: float) -> OutputTolerance:
        """Return 1.5 times the error of storing tensors in 16 bits."""
        return cls(relative=_MARGIN * storage_error, storage_error=storage_error)

    @property
    def widened(self) -> bool:
        """Whether more than one step is allowed, because the evaluators of the reference differ by more."""
        return self.absolute > self.step * _ROUNDED > 0.0

    def to_json(self) -> dict[str, float]:
        """Plain JSON values; fields that are 0 for floats are omitted."""
        numbers = {"relative": self.relative, "absolute": self.absolute}
        if self.step:
            numbers |= {"step": self.step, "disagreement": self.disagreement, "disagreeing": self.disagreeing}
        if self.reference_error:
            numbers["reference_error"] = self.reference_error
        if self.storage_error:
            numbers["storage_error"] = self.storage_error
        return numbers


@dataclass(frozen=True, eq=False)
class GoldenCases:
    """Golden cases of a model; `reference` names the evaluator that computed them.

    `tolerances` are by output name, `OutputTolerance.default` for the rest.
    """

    cases: Sequence[Golden]
    reference: str = ""
    tolerances: Mapping[str, OutputTolerance] = field(default_factory=dict)
