"""Turns a schedule trace of a kernel into the C text of a candidate, the same text that a package would hold."""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np

from edgetune.config.target import Target
from edgetune.measure.jobs import KernelSpec

if TYPE_CHECKING:
    import tvm

PREFIX = "edgetune"


class WeightLayout(Protocol):
    """How a schedule wants a weight laid out."""

    def apply(self, array: np.ndarray) -> np.ndarray:
        """Return the weight in that layout."""


@dataclass(frozen=True)
class CandidateSource:
    """C text of a candidate: `unit` is the kernel file as it ships, `shim` defines `edgetune_call(void *const *)`.

    `packing` is keyed by parameter index; `seconds` tells the phases "lower" and "emit". `least_cycles` of a core are
    needed for a call, whatever the schedule (see `codegen.least_work`).
    """

    unit: str
    shim: str
    scratch_bytes: int
    packing: Mapping[int, WeightLayout]
    seconds: dict[str, float]
    least_cycles: float = 0.0


def make_source(spec: KernelSpec, trace: str, target: Target) -> CandidateSource:
    """Schedule the form of the kernel that `trace` is for, split off weight packing, print; raises KernelFailed."""
    from edgetune.codegen.compile_unit import kernel_unit, shim
    from edgetune.codegen.emit import emit_kernel
    from edgetune.tuning.forms.realise import realise

    started = time.perf_counter()
    scheduled = realise(_function(spec), trace)
    lowered = time.perf_counter()
    source = emit_kernel(scheduled.module, target, spec.symbol)
    unit = kernel_unit(source, target, PREFIX)
    seconds = {"lower": lowered - started, "emit": time.perf_counter() - lowered}
    least_cycles = _least_cycles(spec, scheduled.form, target)
    return CandidateSource(unit, shim(source, PREFIX), source.scratch_bytes, scheduled.constants, seconds, least_cycles)


def warm_up() -> None:
    """Import all that `make_source` needs, so that the first candidate does not pay for it."""
    for module in ("codegen.compile_unit", "codegen.emit", "tuning.forms.realise"):
        importlib.import_module(f"edgetune.{module}")


@lru_cache(maxsize=256)
def _least_cycles(spec: KernelSpec, form: str, target: Target) -> float:
    from edgetune.codegen.least_work import least_work
    from edgetune.tuning.forms.catalogue import form_named

    outputs = [index for index, param in enumerate(spec.params) if param.role == "output"]
    return least_work(form_named(_function(spec), form).function, outputs).cycles(target)


@lru_cache(maxsize=256)
def _function(spec: KernelSpec) -> tvm.tirx.PrimFunc:
    import tvm

    return tvm.ir.load_json(spec.function_json)
