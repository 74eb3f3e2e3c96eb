"""Estimates of a kernel before anything is measured: its default schedule for a target is printed and read."""

from __future__ import annotations

from edgetune.codegen.emit import emit_kernel
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.default_algorithms import guessed_schedule
from edgetune.target.target import Target
from edgetune.tvm_types import PrimFunc

_SYMBOL = "kernel"


def estimated_instructions(function: PrimFunc, target: Target, scratch: int) -> float:
    """Instructions of a run of an unscheduled function under its default schedule, which may use bytes of scratch.

    Raises KernelFailed where it cannot be printed.
    """
    guess = guessed_schedule(function, target, scratch, FORMS)
    return emit_kernel(apply_schedule(function, guess.trace).module, target, _SYMBOL).instructions
