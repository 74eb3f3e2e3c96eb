"""What the rounds say: medians, spreads, ratios, and who won."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from benchmarks.side import Arrays, Loaded
from benchmarks.side_process import Sample

Verdict = Literal["win", "tie", "loss"]

# Smaller differences are noise: 3 % for models below a millisecond, 10 % above.
TIE_SMALL, TIE_LARGE, LARGE_US = 0.03, 0.10, 1000.0
# Of the largest output.
TOLERANCE = 1e-4
# One quantisation step, and what rounding to float adds to it.
_STEP = 1.001


@dataclass(frozen=True)
class SideResult:
    """One side with one model. Times in microseconds; `ratio`: its median over ours, more than 1 means we are faster.

    `difference`: largest difference from the reference, as a share of the largest output; `correct`: it is at most
    `allowed`.
    """

    name: str
    version: str
    settings: str
    median_us: float
    low_us: float
    high_us: float
    min_us: float
    calls: int
    rounds_us: tuple[float, ...]
    difference: float
    allowed: float
    correct: bool
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    verdict: Verdict | None = None

    @property
    def spread(self) -> float:
        """Largest minus smallest round, as a share of the median."""
        return (self.high_us - self.low_us) / self.median_us


@dataclass(frozen=True)
class ModelResult:
    """One model: the sides that ran, ours first, and why the others did not."""

    model: str
    sides: tuple[SideResult, ...]
    missing: Mapping[str, str]

    def to_json(self) -> dict[str, object]:
        """Plain JSON values."""
        return asdict(self)


def difference(answer: Arrays, reference: Arrays) -> float:
    """Largest difference over all outputs, each as a share of the largest of that output; infinite if shapes differ."""
    worst = 0.0
    for name, wanted in reference.items():
        got = answer.get(name)
        if got is None or got.shape != wanted.shape:
            return float("inf")
        gap = np.abs(got.astype(np.float64) - wanted.astype(np.float64))
        scale = float(np.max(np.abs(wanted), initial=0.0)) or 1.0
        largest = float(np.max(gap, initial=0.0))
        worst = max(worst, float("inf") if np.isnan(largest) else largest / scale)
    return worst


def tolerance(reference: Arrays, steps: Mapping[str, float]) -> float:
    """Largest difference that is no error: 1e-4, or one step for outputs straight out of quantisation (`steps`)."""
    allowed = TOLERANCE
    for name, step in steps.items():
        scale = float(np.max(np.abs(reference[name]), initial=0.0)) or 1.0
        allowed = max(allowed, step * _STEP / scale)
    return allowed


def side_result(
    name: str, loaded: Loaded, samples: Sequence[Sample], gap: float, allowed: float = TOLERANCE
) -> SideResult:
    """Bring together what is known of one side."""
    rounds = tuple(sample.median_ns / 1e3 for sample in samples)
    return SideResult(
        name=name,
        version=loaded.version,
        settings=loaded.settings,
        median_us=statistics.median(rounds),
        low_us=min(rounds),
        high_us=max(rounds),
        min_us=min(sample.min_ns for sample in samples) / 1e3,
        calls=sum(sample.calls for sample in samples),
        rounds_us=rounds,
        difference=gap,
        allowed=allowed,
        correct=gap <= allowed,
    )


def compared(ours: SideResult, peer: SideResult) -> SideResult:
    """`peer` with its ratio to `ours`, the range of the ratios of single rounds, and the verdict."""
    pairs = [theirs / mine for theirs, mine in zip(peer.rounds_us, ours.rounds_us, strict=True)]
    ratio = peer.median_us / ours.median_us
    tie = TIE_SMALL if min(ours.median_us, peer.median_us) < LARGE_US else TIE_LARGE
    verdict: Verdict = "tie" if 1 / (1 + tie) <= ratio <= 1 + tie else "win" if ratio > 1 else "loss"
    facts = {**peer.__dict__, "ratio": ratio, "ratio_low": min(pairs), "ratio_high": max(pairs), "verdict": verdict}
    return SideResult(**facts)


def model_result(model: str, sides: Sequence[SideResult], missing: Mapping[str, str], ours: str) -> ModelResult:
    """All sides of one model, with ratios where `ours` is among them."""
    mine = next((side for side in sides if side.name == ours), None)
    if mine is None:
        return ModelResult(model, tuple(sides), dict(missing))
    peers = sorted((compared(mine, side) for side in sides if side is not mine), key=lambda side: side.median_us)
    return ModelResult(model, (mine, *peers), dict(missing))


def within(result: ModelResult, most: float) -> bool:
    """Whether our median is at most `most` times that of the fastest peer; not so where no peer answers rightly."""
    ratios = [side.ratio for side in result.sides if side.ratio is not None and side.correct]
    return bool(ratios) and min(ratios) >= 1 / most
