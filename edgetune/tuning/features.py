"""TVM's features per store of scheduled programs, and the cost model in the form that TVM's evolution calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm_ffi import structural_hash

from edgetune.tuning.cost_model import FLOOR, CostModel, Features

_KEPT = 4096


class FeatureCache:
    """Features of schedules of one function, remembered by the structure of the scheduled program.

    Evolution meets the same program many times over; extracting costs some 10 ms, looking up 0.3 ms.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._extractor = ms.feature_extractor.PerStoreFeature()
        self._known: dict[int, Features | None] = {}

    def of(self, schedule: Any) -> Features | None:
        """Shape (stores, 164); None for a program without stores, or one that TVM fails to analyse."""
        name = structural_hash(schedule.mod)
        if name not in self._known:
            while len(self._known) >= _KEPT:
                del self._known[next(iter(self._known))]
            candidate = ms.search_strategy.MeasureCandidate(schedule, [])
            try:
                (tensor,) = self._extractor.extract_from(self._context, [candidate])
            except (RuntimeError, ValueError):  # TVM cannot analyse this one: it ranks last
                self._known[name] = None
                return None
            features = tensor.numpy().astype(np.float32)
            self._known[name] = features if len(features) else None
        return self._known[name]


@derived_object
class RankingModel(ms.cost_model.PyCostModel):
    """Lets TVM's evolution ask our cost model."""

    def __init__(self, cache: FeatureCache, model: CostModel) -> None:
        super().__init__()
        self._cache = cache
        self._model = model

    def predict(self, context: Any, candidates: Sequence[Any]) -> Any:
        """Scores of shape (candidates,), larger is faster."""
        del context
        features = [self._cache.of(candidate.sch) for candidate in candidates]
        scores = np.full(len(features), FLOOR)
        places = [place for place, item in enumerate(features) if item is not None]
        scores[places] = self._model.score([item for item in features if item is not None])
        return scores
