"""Winograd's minimal filtering: the matrices of F(m x m, 3 x 3) (Winograd 1980; Lavin and Gray 2015, arXiv 1509.09308).

A tile of m x m outputs is A^T [(G g G^T) * (B^T d B)] A, where d are the (m+2) x (m+2) inputs of the tile, g the 3 x 3
weights, and * multiplies element by element: (m+2)^2 products, while the direct sum takes 9 m^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from edgetune.schedule.algorithms.schedule_text import WINOGRAD

_TINY = 1e-9

KERNEL = 3
"""Height and width of the convolution's window."""


@dataclass(frozen=True)
class MinimalFiltering:
    """F(m x m, 3 x 3), interpolated at 0, plus and minus each of `points`, and infinity; m is twice their number.

    Points with a magnitude near 1 keep the powers in the matrices small, and so the rounding error (Barabasz, Anderson,
    Soodhalter, Gregg 2020, arXiv 1803.10986).
    """

    points: tuple[float, ...]

    @property
    def tile(self) -> int:
        """Outputs of a tile along one axis: m."""
        return 2 * len(self.points)

    @property
    def inputs(self) -> int:
        """Inputs of a tile along one axis, and products of one dimension: m + 2."""
        return self.tile + KERNEL - 1

    def input_transform(self) -> np.ndarray:
        """B^T, (m+2) x (m+2): row r has the coefficients of the product of (x - p) over all points p except the r-th.

        The last row, of infinity, is the product over all points.
        """
        finite = self._finite()
        rows = [np.poly([p for n, p in enumerate(finite) if n != row])[::-1] for row in range(len(finite))]
        rows.append(np.poly(finite)[::-1])
        return _clean(np.array([np.pad(row, (0, self.inputs - len(row))) for row in rows]))

    def weight_transform(self) -> np.ndarray:
        """G, (m+2) x 3: row r has the powers of its point, divided by the value of row r's polynomial at that point."""
        finite = self._finite()
        rows = []
        for number, point in enumerate(finite):
            scale = np.prod([point - other for n, other in enumerate(finite) if n != number])
            rows.append([float(point**power / scale) for power in range(KERNEL)])
        rows.append([0.0] * (KERNEL - 1) + [1.0])
        return np.array(rows)

    def output_transform(self) -> np.ndarray:
        """A^T, m x (m+2): column c has the powers of its point; that of infinity is nonzero only in the last row."""
        powers = [[point**power for point in self._finite()] for power in range(self.tile)]
        infinity = np.zeros((self.tile, 1))
        infinity[-1] = 1.0
        return _clean(np.hstack([np.array(powers), infinity]))

    def _finite(self) -> list[float]:
        return [0.0, *(sign * point for point in self.points for sign in (1.0, -1.0))]

    @property
    def amplification(self) -> float:
        """Greatest ratio, per channel, of the intermediate sums to one product of input and weight.

        It is the square, for two dimensions, of max_i sum_k |A^T_ik| (sum_j |B^T_kj|) (sum_l |G_kl|); the direct sum
        has 9.
        """
        outer = np.abs(self.output_transform())
        inner = np.abs(self.input_transform()).sum(axis=1) * np.abs(self.weight_transform()).sum(axis=1)
        return float((outer @ inner).max() ** 2)

    @property
    def roundings(self) -> int:
        """Roundings of a value, without the additions over channels: both transforms, weights, product."""
        return 2 + 2 * sum(_roundings(matrix) for matrix in (self.input_transform(), self.output_transform()))


def _roundings(matrix: np.ndarray) -> int:
    """Roundings in the longest sum: its additions, and its products with coefficients that are themselves rounded."""
    inexact = bool((~np.isin(np.abs(matrix), (0.0, 1.0))).any())
    return int((matrix != 0.0).sum(axis=1).max()) - 1 + 2 * inexact


def _clean(matrix: np.ndarray) -> np.ndarray:
    """`matrix` without the rounding errors of its computation: values near multiples of 1/4 become exact."""
    rounded = np.round(matrix * 4) / 4
    return np.where(np.abs(matrix - rounded) < _TINY, rounded + 0.0, matrix)


ALGORITHMS = dict(zip(WINOGRAD, (MinimalFiltering((1.0,)), MinimalFiltering((sqrt(0.5), sqrt(2.0)))), strict=True))
"""The matrices by the algorithm's name."""


def rounding_note(name: str) -> str:
    """The error bound of the algorithm called `name`, to first order in the unit roundoff (Higham, "Accuracy", 3.1)."""
    algorithm = ALGORITHMS[name]
    m, factor = algorithm.tile, np.ceil(algorithm.amplification)
    return (
        f"{m}x{m} outputs are computed together from transformed inputs and weights (Winograd). With C input "
        f"channels, a result is off by at most 2^-24 (C + {algorithm.roundings}) {factor:.0f} times the sum over the "
        "channels of the largest input times the largest weight; direct convolution by 2^-24 9 C 9 times that"
    )
