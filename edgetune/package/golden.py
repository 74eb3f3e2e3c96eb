"""Golden vectors: inputs with the outputs of the reference, and the tolerance for the outputs of a package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import ml_dtypes
import numpy as np

from edgetune.graph.accuracy import FLOAT_TOLERANCE, Tolerance
from edgetune.graph.layout.axis_order import exchanged, given_back
from edgetune.target.preferences import Layout

_ROUNDED = 1.001
"""One step, plus the error of rounding to float."""
_MARGIN = 1.5
"""Safety factor: the largest of few observed differences is not the largest possible one."""
_OF_ROUNDING = 4.0
"""The same for the largest of three runs that round each tensor once more: a kernel rounds each of its terms."""
_LEAST = {**FLOAT_TOLERANCE, "float32": 8e-5}
"""Share of the largest element, by type, that is allowed where rounding is known to do less: sums of thousands of
terms, one after the other, stay below. For float32 it is less than usual, so that 1 % more in one weight of each layer
is seen (`make seeded-faults`)."""
MOST_ALLOWED = 0.5
"""Share of the largest element, and of integers that may differ; the error of an answer unrelated to the model is 1 to
2."""
MOST_MOVED = MOST_ALLOWED / _OF_ROUNDING
"""Share of the largest element, or of integers, that rounding may move: more leaves nothing to judge by."""
_OF_SMALL = 4e-4
"""Share of the largest element that this may be: an output near zero must still tell a wrong model from a right one."""


class Golden(NamedTuple):
    """One case: arrays by the model's names of inputs and outputs, also of those that are states.

    Where it `goes_on`, its states are what the case before left.
    """

    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]
    goes_on: bool = False

    def exchanged(self, layouts: Mapping[str, Layout]) -> Golden:
        """Return a case of the model as the package has it, where the interface has other `layouts` by name."""
        return Golden(exchanged(self.inputs, layouts), exchanged(self.outputs, layouts), self.goes_on)

    def given_back(self, layouts: Mapping[str, Layout]) -> Golden:
        """Return a case of the package, with interface `layouts` by name, as the model has it."""
        return Golden(given_back(self.inputs, layouts), given_back(self.outputs, layouts), self.goes_on)


@dataclass(frozen=True)
class OutputTolerance(Tolerance):
    """How far an output may be from its golden, and the origin of that number.

    1.0 for `absolute` of an integer output allows one quantisation step. Quantised outputs have, in the same unit,
    `step`, and how much evaluators of the reference differ among themselves (`disagreement`, in a share `disagreeing`
    of the elements). If the output is computed in float, `behind` is the number of quantised tensors before it, and
    `step` is what moving each of their elements by one step does to it.

    The other origins are shares of the largest magnitude. `rounding_error` is how far rounding each inner tensor of the
    model by one unit in the last place moves the output (of an integer output: the largest difference).
    `reference_error` is set where an output is judged by double: the error of the float32 reference. `storage_error` is
    set where 16 bits are too few: how far storing constants and tensors between kernels in them moves the output, in
    exact sums.
    """

    step: float = 0.0
    disagreement: float = 0.0
    disagreeing: float = 0.0
    behind: int = 0
    rounding_error: float = 0.0
    reference_error: float = 0.0
    storage_error: float = 0.0

    @classmethod
    def quantised(cls, step: float, disagreement: float = 0.0, disagreeing: float = 0.0) -> OutputTolerance:
        """Return one step; where evaluators of the reference differ by more, one step plus 1.5 times the difference."""
        one = step * _ROUNDED
        absolute = one if disagreement <= one else one + _MARGIN * disagreement
        return cls(absolute=absolute, step=step, disagreement=disagreement, disagreeing=disagreeing)

    def carried(self, dtype: str, behind: int, moving: float) -> OutputTolerance:
        """Return this tolerance, whose step is that of `behind` quantised tensors, for an output computed from them.

        Floats are never held to less than usual. Of integers, such as the place of a maximum, at most 1.5 times the
        larger share may differ: the `moving` one, or that in which evaluators differ. Where that is all of them, as in
        a tie of a single maximum, they stay exact. A bool is exact.
        """
        usual = self.default(dtype)
        if dtype == "bool":
            return usual
        if usual.relative:
            return replace(self, relative=usual.relative, behind=behind)
        share = _MARGIN * max(moving, self.disagreeing)
        return replace(self, behind=behind, **({"share": share} if share < 1.0 else {"absolute": 0.0}))

    @classmethod
    def rounded(cls, dtype: str, largest: float, share: float) -> OutputTolerance:
        """Return four times the effect of rounding, or what is allowed to floats at least where that is more.

        `largest` and `share` are the largest difference that rounding makes, and in how many elements. An effect that
        leaves nothing to judge (`chaotic`) allows no more than usual. Integers are often places, between which there
        is no distance: four times as many may differ, none by more than was seen. A bool is exact.
        """
        usual = cls.default(dtype)
        if usual.relative:
            wide = _OF_ROUNDING * largest
            relative = max(_LEAST[dtype], wide) if wide <= MOST_ALLOWED else usual.relative
            return cls(relative=relative, rounding_error=min(1.0, largest))
        if dtype == "bool" or not share or not largest < np.inf:  # another number of elements is no rounding
            return usual
        wide = _OF_ROUNDING * share
        if wide >= MOST_ALLOWED:
            return cls(rounding_error=largest)
        return cls(absolute=largest, share=wide, rounding_error=largest)

    def with_floor(self, dtype: str, limit: float, smallest: float) -> OutputTolerance:
        """Return a tolerance for floats that never falls below what their operator's range can tell apart.

        `limit` is the largest magnitude that the operator of the output can give (0 if unknown), `smallest` the
        largest magnitude of the case in which that is least, 0 where all is zero. Half a unit in the last place of
        `limit` is allowed, but no more than 4e-4 of `smallest`, and in any case a number below the smallest normal one,
        since cores may flush those to zero.
        """
        if dtype not in FLOAT_TOLERANCE or not 0.0 < smallest < np.inf:
            return self
        of = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
        least = max(float(of.smallest_normal), min(float(of.eps) / 2 * limit, _OF_SMALL * smallest))
        return replace(self, absolute=max(self.absolute, least)) if least > self.relative * smallest else self

    def by_double(self, dtype: str, reference_error: float) -> OutputTolerance:
        """Return this tolerance for an output that is compared with double: at least 1.5 times the reference's error.

        Where that would leave nothing to judge, but rounding is known to do less, what rounding does is the tolerance.
        """
        usual = self.relative or self.default(dtype).relative
        wide = _MARGIN * reference_error
        known = self.rounding_error > 0.0 and not self.chaotic
        relative = usual if wide > MOST_ALLOWED and known else max(usual, wide)
        return replace(self, relative=relative, reference_error=reference_error)

    def stored(self, storage_error: float) -> OutputTolerance:
        """Return 1.5 times the error of storing tensors in 16 bits."""
        return replace(self, relative=_MARGIN * storage_error, storage_error=storage_error)

    @property
    def widened(self) -> bool:
        """Whether more than one step is allowed, because the evaluators of the reference differ by more."""
        return self.absolute > self.step * _ROUNDED > 0.0

    @property
    def capped(self) -> bool:
        """Whether less is allowed than what a step of the quantised tensors before the output makes."""
        return self.behind > 0 and self.absolute < self.quantised(self.step, self.disagreement).absolute

    @property
    def amplified(self) -> bool:
        """Whether more than usual is allowed, because the network amplifies rounding."""
        if not self.rounding_error or self.chaotic:
            return False
        return self.relative == 0.0 or _OF_ROUNDING * self.rounding_error >= self.relative

    @property
    def chaotic(self) -> bool:
        """Whether rounding moves floats so far, or so many integers, that right outputs cannot be told from wrong ones.

        Such integers stay exact.
        """
        if self.relative == 0.0:
            return self.rounding_error > 0.0 and self.absolute == 0.0
        return _OF_ROUNDING * self.rounding_error > MOST_ALLOWED

    def to_json(self) -> dict[str, float]:
        """Plain JSON values; fields that are 0 for floats are omitted, and so is a share of all elements."""
        numbers: dict[str, float] = {"relative": self.relative, "absolute": self.absolute}
        if self.share < 1.0:
            numbers["share"] = self.share
        if self.step:
            numbers |= {"step": self.step, "disagreement": self.disagreement, "disagreeing": self.disagreeing}
        for name in ("behind", "rounding_error", "reference_error", "storage_error"):
            if getattr(self, name):
                numbers[name] = getattr(self, name)
        return numbers


@dataclass(frozen=True, eq=False)
class GoldenCases:
    """Golden cases of a model; `reference` names the evaluator that computed them.

    `tolerances` are by output name, `OutputTolerance.default` for the rest.
    """

    cases: Sequence[Golden]
    reference: str = ""
    tolerances: Mapping[str, OutputTolerance] = field(default_factory=dict)
