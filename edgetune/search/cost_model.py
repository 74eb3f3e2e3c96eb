"""Cost model: predicts which candidates are fast from features of their stores; one model per target for all tasks.

A candidate is a matrix with one row of features for each store of its scheduled function; TVM computes these features.
As in the Ansor paper, the score of a candidate is the sum of a tree ensemble's outputs over its rows. Gradient boosting
trains the ensemble towards the normalised speed (best time of the task over its own time; 0 for a failure). The
square error is weighted by that speed, because telling fast from fastest matters more than slow from slowest.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.logging import get_logging_func

_ffi_api = ms._ffi_api  # noqa: SLF001 (see make_context)


@cache
def _extractor() -> Any:
    return ms.feature_extractor.PerStoreFeature()


def extract(context: Any, schedule: Any) -> Features | None:
    """Features (stores, 164); None for a program without stores. Raises RuntimeError where TVM's analysis fails."""
    candidate = ms.search_strategy.MeasureCandidate(schedule, [])
    (tensor,) = _extractor().extract_from(context, [candidate])
    features: Features = tensor.numpy().astype(np.float32)
    return features if len(features) else None


def make_context(module: Any, target: Any, postprocs: Sequence[Any], mutators: Mapping[Any, float]) -> Any:
    """A TuneContext on one thread, which initialises `postprocs` and `mutators`.

    TVM's own constructor imports all tensor intrinsics, which takes some 30 s of CPU; none of them ends in printable C.
    """
    space = ms.space_generator.ScheduleFn(
        lambda schedule: schedule, sch_rules=[], postprocs=list(postprocs), mutator_probs=dict(mutators)
    )
    logger = logging.getLogger("edgetune.search.tvm")
    logger.setLevel(logging.ERROR)
    context = ms.TuneContext.__new__(ms.TuneContext)
    context.__init_handle_by_constructor__(
        _ffi_api.TuneContext, module, target, space, None, "main", 1, 1, get_logging_func(logger)
    )
    _ffi_api.TuneContextInitialize(context)
    return context


Features = npt.NDArray[np.float32]
"""Shape (stores, features per store)."""

Scores = npt.NDArray[np.float64]

FLOOR = 1e-3
"""Smallest score: the evolution draws parents by score, and each must have a chance."""


@dataclass(frozen=True)
class CostModelOptions:
    """Size and speed of the model: with these settings a fit takes a few tenths of a second.

    With fewer than `min_samples` valid measurements, scores are random. At most `max_samples` of all tasks together are
    used, the fastest and the newest. `failure_weight` is the weight of a failed candidate.
    """

    trees: int = 50
    depth: int = 6
    learning_rate: float = 0.2
    min_samples: int = 16
    max_samples: int = 2000
    failure_weight: float = 0.2


@dataclass(frozen=True)
class _Sample:
    task: str
    features: Features
    time: float | None


class CostModel:
    """Learns from measurements of all tasks of one target. Deterministic for a seed and an order of samples."""

    def __init__(self, seed: int = 0, options: CostModelOptions | None = None) -> None:
        self._options = options or CostModelOptions()
        self._seed = seed & 0x7FFFFFFF
        self._random = np.random.default_rng(seed)
        self._samples: list[_Sample] = []
        self._best: dict[str, float] = {}
        self._booster: Any = None
        self._stale = False

    @property
    def trained(self) -> bool:
        """Whether `score` predicts; until there are enough samples it returns random numbers."""
        return self._booster is not None

    def __len__(self) -> int:
        """Number of samples, failures included."""
        return len(self._samples)

    def add(self, task: str, features: Features, time: float | None) -> None:
        """Adds a measured candidate: its time per call, in any one unit for its task, None if it failed."""
        self._samples.append(_Sample(task, features, time))
        if time is not None:
            self._best[task] = min(time, self._best.get(task, time))
        self._stale = True

    def fit(self) -> bool:
        """Trains again if samples were added since the last fit; returns whether there is a model now."""
        valid = sum(sample.time is not None for sample in self._samples)
        if self._stale and valid >= self._options.min_samples:
            self._booster = self._train()
            self._stale = False
        return self.trained

    def score(self, candidates: Sequence[Features]) -> Scores:
        """One score per candidate, larger is faster, all at least `FLOOR`."""
        if not candidates:
            return np.zeros(0)
        if not self.trained:
            return self._random.uniform(0.5, 1.0, len(candidates))
        rows, owner = _stack(candidates)
        outputs = self._booster.inplace_predict(rows, predict_type="margin")
        return np.maximum(np.bincount(owner, weights=outputs, minlength=len(candidates)), FLOOR)

    def _train(self) -> Any:
        import xgboost

        options = self._options
        samples = self._selection()
        speeds = np.array([self._speed(sample) for sample in samples])
        weights = np.where(speeds > 0, np.maximum(speeds, options.failure_weight), options.failure_weight)
        rows, owner = _stack([sample.features for sample in samples])
        goal, weight = speeds[owner], weights[owner]

        def objective(outputs: Scores, _: Any) -> tuple[Scores, Scores]:
            sums = np.bincount(owner, weights=outputs, minlength=len(samples))
            return (sums[owner] - goal) * weight, weight

        parameters = {
            "tree_method": "hist",
            "max_depth": options.depth,
            "eta": options.learning_rate,
            "gamma": 0.001,
            "min_child_weight": 0.0,
            "base_score": 0.0,
            "max_bin": 64,
            "nthread": 1,
            "seed": self._seed,
            "verbosity": 0,
            "disable_default_eval_metric": True,
        }
        matrix = xgboost.QuantileDMatrix(rows, label=goal, max_bin=64, nthread=1)
        return xgboost.train(parameters, matrix, num_boost_round=options.trees, obj=objective)

    def _speed(self, sample: _Sample) -> float:
        return 0.0 if sample.time is None else self._best[sample.task] / sample.time

    def _selection(self) -> list[_Sample]:
        limit = self._options.max_samples
        if len(self._samples) <= limit:
            return self._samples
        newest = len(self._samples) - limit // 2
        older = sorted(range(newest), key=lambda place: (-self._speed(self._samples[place]), -place))
        kept = sorted(older[: limit - limit // 2])
        return [self._samples[place] for place in kept] + self._samples[newest:]


def _stack(candidates: Sequence[Features]) -> tuple[Features, npt.NDArray[np.int64]]:
    counts = [len(features) for features in candidates]
    return np.concatenate(candidates, axis=0, dtype=np.float32), np.repeat(np.arange(len(candidates)), counts)
