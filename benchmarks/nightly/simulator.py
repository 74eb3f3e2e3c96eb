"""Simulates starts of two packages on one board. It was written before the gate that it judges.

The noise of a start is drawn from starts that were recorded on a real machine (`starts.json`), and varied: a level per
night, a second mode that a start either falls into or not, drift and steps within a turn, heavy tails. The true ratio
of the new package to the old one is known, so each verdict can be called right or wrong.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

RECORDED = Path(__file__).with_name("starts.json")


@dataclass(frozen=True)
class Noise:
    """How starts vary, as shares of the cost.

    `between_nights`: standard deviation of a night's level, common to both packages. `mode`: how much slower the second
    mode is, which a start falls into with a probability that each cell draws anew up to `mode_share`. `drift`: most
    that the board changes from one start to the next, in one direction for a whole cell. `step`: with `step_share`, a
    start begins a lasting change of the board by up to this. `tail`: with `tail_share`, a start is longer by a Pareto
    distributed share of this scale.
    """

    between_nights: float = 0.02
    mode: float = 0.06
    mode_share: float = 0.5
    drift: float = 0.0005
    step: float = 0.0
    step_share: float = 0.0
    tail: float = 0.0
    tail_share: float = 0.0


ORDINARY = Noise()
ROUGH = Noise(step=0.04, step_share=0.05, tail=0.05, tail_share=0.1)


@lru_cache(maxsize=1)
def recorded() -> np.ndarray:
    """Logarithms of the recorded starts about their median, (n,), without what the machine drifted meanwhile."""
    costs = np.log(np.array(json.loads(RECORDED.read_text(encoding="utf-8"))["starts"], dtype=float))
    window = 9
    padded = np.pad(costs, window // 2, mode="edge")
    level = np.median(np.lib.stride_tricks.sliding_window_view(padded, window), axis=1)
    return np.asarray(costs - level)


class SimulatedCell:
    """One cell in one night: call it with "old" or "new" for the cost of the next start in nanoseconds."""

    def __init__(self, generator: np.random.Generator, noise: Noise = ORDINARY, ratio: float = 1.0) -> None:
        self._random = generator
        self._noise = noise
        self._ratio = {"old": 0.0, "new": float(np.log(ratio))}
        self._level = np.log(1e6) + generator.normal(0.0, noise.between_nights)
        self._in_mode = generator.uniform(0.0, noise.mode_share)
        self._drift = generator.uniform(-noise.drift, noise.drift)

    def __call__(self, which: str) -> float:
        """Return the cost of one start, and let the board change."""
        noise, draw = self._noise, self._random
        self._level += self._drift
        if draw.random() < noise.step_share:
            self._level += draw.uniform(-noise.step, noise.step)
        cost = self._level + self._ratio[which] + draw.choice(recorded())
        if draw.random() < self._in_mode:
            cost += np.log1p(noise.mode)
        if draw.random() < noise.tail_share:
            cost += noise.tail * draw.pareto(2.5)
        return float(np.exp(cost))
