"""Candidate generation: turns a kernel's schedule trace into the candidate's C text, the same text as in a package."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np

from edgetune.schedule.kernel_spec import KernelSpec, function_of
from edgetune.target.target import Target

if TYPE_CHECKING:
    import tvm

PREFIX = "edgetune"


class WeightLayout(Protocol):
    """The layout that a schedule wants for a weight."""

    def apply(self, array: np.ndarray) -> np.ndarray:
        """Return the weight in that layout."""


@dataclass(frozen=True)
class CandidateSource:
    """C text of a candidate: `unit` is the kernel file as it ships, `shim` defines `edgetune_call(void *const *)`.

    `packing` is by parameter index; `seconds` has the times of the phases "lower" and "emit". `least_cycles` is the
    number of cycles that a core needs at least for a call, with any schedule (see `codegen.least_work`).
    """

    unit: str
    shim: str
    scratch_bytes: int
    packing: Mapping[int, WeightLayout]
    seconds: dict[str, float]
    least_cycles: float = 0.0


def make_source(spec: KernelSpec, trace: str, target: Target) -> CandidateSource:
    """Schedule the algorithm that `trace` names, split off weight packing and print; raises KernelFailed."""
    from edgetune.codegen.compile_unit import kernel_unit, shim
    from edgetune.codegen.emit import emit_kernel
    from edgetune.schedule.algorithms.apply import apply_schedule

    started = time.perf_counter()
    scheduled = apply_schedule(_function(spec), trace)
    lowered = time.perf_counter()
    source = emit_kernel(scheduled.module, target, spec.symbol)
    unit = kernel_unit(source, target, PREFIX)
    seconds = {"lower": lowered - started, "emit": time.perf_counter() - lowered}
    least_cycles = _least_cycles(spec, scheduled.algorithm, target)
    packing = scheduled.constants_of(source)
    return CandidateSource(unit, shim(source, PREFIX), source.scratch_bytes, packing, seconds, least_cycles)


def warm_up() -> None:
    """Import all modules that `make_source` needs, so that the first candidate is not delayed."""
    from edgetune.codegen import compile_unit, emit  # noqa: F401
    from edgetune.schedule.algorithms import apply  # noqa: F401


@lru_cache(maxsize=256)
def _least_cycles(spec: KernelSpec, algorithm: str, target: Target) -> float:
    from edgetune.codegen.least_work import least_work
    from edgetune.schedule.algorithms.catalogue import algorithm_named

    outputs = [index for index, param in enumerate(spec.params) if param.role == "output"]
    return least_work(algorithm_named(_function(spec), algorithm).function, outputs).cycles(target)


@lru_cache(maxsize=256)
def _function(spec: KernelSpec) -> tvm.tirx.PrimFunc:
    return function_of(spec)
