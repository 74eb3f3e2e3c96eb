"""The forms of a 3x3 convolution that filter tiles by a minimal algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from edgetune.errors import KernelFailed
from edgetune.tuning.forms.form import Form
from edgetune.tuning.forms.winograd.algorithm import ALGORITHMS, KERNEL, Algorithm
from edgetune.tuning.forms.winograd.convolution import find_convolution
from edgetune.tuning.forms.winograd.function import transformed_function
from edgetune.tuning.sketches.tile import lanes_for

_LEAST_LANES = 4


def winograd_form(function: Any, name: str) -> Form | None:
    """The form called `name`, one of `ALGORITHMS`, of an unscheduled PrimFunc.

    None for everything but a 3x3 convolution of stride 1 whose channels, in and out, come in vectors of four: the
    transforms are sums of such vectors.
    """
    convolution = find_convolution(function)
    if convolution is None:
        return None
    widths = (convolution.channels, convolution.output_shape[-1])
    if any(lanes_for(width, _LEAST_LANES) < _LEAST_LANES for width in widths):
        return None
    algorithm = ALGORITHMS[name]
    transform = WeightTransform(algorithm, convolution.weight_axes)
    return Form(name, transformed_function(function, convolution, algorithm), {convolution.weights: transform})


@dataclass(frozen=True)
class WeightTransform:
    """G g G^T for each pair of channels; `axes` are those of window row and column, input and output channel."""

    algorithm: Algorithm
    axes: tuple[int, int, int, int]

    def apply(self, source: np.ndarray) -> np.ndarray:
        """Shape (m+2, m+2, channels, filters), computed in double precision and rounded once to `source`'s dtype.

        Raises KernelFailed for weights whose window is not 3 x 3.
        """
        weights = source.transpose(self.axes)
        if weights.shape[:2] != (KERNEL, KERNEL):
            raise KernelFailed(f"weights of shape {source.shape} are no 3x3 window: a constant was taken for another")
        g = self.algorithm.weight_transform()
        # Written out, so that the order of the sums is the same with every version of numpy.
        rows = _sum_of_three([g[:, k, None, None, None] * weights[None, k].astype(np.float64) for k in range(KERNEL)])
        both = _sum_of_three([g[None, :, k, None, None] * rows[:, None, k] for k in range(KERNEL)])
        return np.ascontiguousarray(both, dtype=source.dtype)


def _sum_of_three(terms: list[np.ndarray]) -> np.ndarray:
    total: np.ndarray = terms[0] + terms[1] + terms[2]
    return total
