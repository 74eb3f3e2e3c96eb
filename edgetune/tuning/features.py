"""TVM's features per store of scheduled programs, for the cost model."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.logging import get_logging_func

from edgetune.tuning.cost_model import Features

_ffi_api = ms._ffi_api  # noqa: SLF001 (see make_context)


@cache
def _extractor() -> Any:
    return ms.feature_extractor.PerStoreFeature()


def extract(context: Any, schedule: Any) -> Features | None:
    """Shape (stores, 164); None for a program without stores. Raises RuntimeError where TVM fails to analyse one."""
    candidate = ms.search_strategy.MeasureCandidate(schedule, [])
    (tensor,) = _extractor().extract_from(context, [candidate])
    features: Features = tensor.numpy().astype(np.float32)
    return features if len(features) else None


def make_context(module: Any, target: Any, postprocs: Sequence[Any], mutators: Mapping[Any, float]) -> Any:
    """A TuneContext on one thread, which makes `postprocs` and `mutators` ready for use.

    Its own constructor imports all tensor intrinsics, some 30 s of CPU, none of which ends in printable C.
    """
    space = ms.space_generator.ScheduleFn(
        lambda schedule: schedule, sch_rules=[], postprocs=list(postprocs), mutator_probs=dict(mutators)
    )
    logger = logging.getLogger("edgetune.tuning.tvm")
    logger.setLevel(logging.ERROR)
    context = ms.TuneContext.__new__(ms.TuneContext)
    context.__init_handle_by_constructor__(
        _ffi_api.TuneContext, module, target, space, None, "main", 1, 1, get_logging_func(logger)
    )
    _ffi_api.TuneContextInitialize(context)
    return context
