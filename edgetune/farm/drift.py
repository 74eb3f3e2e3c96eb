"""Drift: a lasting change of a board (its canary) or of software (its cost as a share of the board's pinned package).

The gate compares two packages in one night, so what creeps or steps between nights is not its business. Here a series
of nights is cut where its level changes, by kernel change point detection (Arlot, Celisse, Harchaoui: A kernel multiple
change-point algorithm, JMLR 20, 2019) as ruptures has it. What is found is a note and no alarm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

LEAST_NIGHTS, LEAST_SIDE = 14, 5
"""A series has so many nights at least, and so many on either side of a change."""
RECENT = 31
"""A change that began more nights ago is told no longer."""
PENALTY = 2.2
"""Penalty of a change point: that of A/A nights, of which at most 1 % show one (`benchmarks/nightly/drift.py`)."""
GAMMA = 0.1
"""Of the Gaussian kernel, for series in units of their noise: a night far from the others counts once, as others do."""
LEAST_CHANGE, LEAST_COUNT_CHANGE = 0.01, 0.001
_LEAST_NOISE = 1e-4


@dataclass(frozen=True)
class Drift:
    """A change of level: its first night, its size as a ratio, and the nights since then and before."""

    since: str
    ratio: float
    after: int
    before: int

    @property
    def sentence(self) -> str:
        """The change for people."""
        nights = f"{self.after} nights against the {self.before} before"
        return f"{100 * (self.ratio - 1):+.1f} % since {self.since} ({nights})"


def drift_of(nights: Sequence[str], costs: Sequence[float], *, counts: bool) -> Drift | None:
    """The last change of level in the costs of some nights, oldest first; None where there is no recent one."""
    if len(costs) < LEAST_NIGHTS:
        return None
    logs = np.log(np.asarray(costs, dtype=float))
    points = change_points(tuple(map(float, logs)))
    if not points or len(logs) - points[-1] > RECENT:
        return None
    begin, end = (points[-2] if len(points) > 1 else 0), points[-1]
    shift = float(np.median(logs[end:]) - np.median(logs[begin:end]))
    if abs(shift) < math.log1p(LEAST_COUNT_CHANGE if counts else LEAST_CHANGE):
        return None
    return Drift(nights[end], math.exp(shift), len(logs) - end, end - begin)


@lru_cache(maxsize=8192)
def change_points(logs: tuple[float, ...]) -> list[int]:
    """Indices at which another level of a series begins."""
    return cuts(np.asarray(logs), PENALTY)


def cuts(logs: np.ndarray, penalty: float) -> list[int]:
    """Indices at which another level of a series begins, with that penalty for each."""
    from ruptures import KernelCPD

    scaled = (logs - np.median(logs)) / noise_of(logs)
    found = KernelCPD(kernel="rbf", min_size=LEAST_SIDE, params={"gamma": GAMMA}).fit(scaled).predict(pen=penalty)
    return [int(point) for point in found[:-1]]


def noise_of(logs: np.ndarray) -> float:
    """Standard deviation of a night about its level, from the differences of neighbours: steps do not move it."""
    differences = np.diff(logs)
    middle = float(np.median(np.abs(differences - np.median(differences))))
    return max(1.4826 * middle / math.sqrt(2), _LEAST_NOISE)
