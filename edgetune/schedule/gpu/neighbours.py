"""Neighbours of fast schedules for GPUs: traces that differ from a known one in one decision."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np

from edgetune.schedule.algorithms.schedule_text import trace_text
from edgetune.schedule.gpu.design import Design, Sizes, sizes_of
from edgetune.schedule.gpu.spaces import gpu_designs, scheduled
from edgetune.target.gpu import GpuTarget
from edgetune.tvm_types import PrimFunc

_TRIES = 100


def neighbours(
    function: PrimFunc, target: GpuTarget, fastest: Sequence[str], random: np.random.Generator
) -> Iterator[str]:
    """Traces near those of `fastest`, the first of which is the fastest and has most neighbours.

    Ends where no trace is one of a design of this function, or none has a neighbour that passes the decision test.
    """
    known = [found for text in fastest if (found := design_of(function, target, text)) is not None]
    for _ in range(_TRIES if known else 0):
        place = min(int(random.geometric(0.5)) - 1, len(known) - 1)
        changed = _changed(*known[place], random)
        sch = None if changed is None else scheduled(function, known[place][0], changed)
        if sch is not None:
            yield trace_text(sch.trace)


def design_of(function: PrimFunc, target: GpuTarget, text: str) -> tuple[Design, Sizes] | None:
    """The design and the decisions of which a trace is made; None where it is a trace of none."""
    try:
        decisions = [decision for _, decision in json.loads(text)[1]]
    except (ValueError, TypeError, IndexError, KeyError):
        return None
    for design in gpu_designs(function, target):
        if len(design.choices) == len(decisions):
            try:
                sizes = sizes_of(design, decisions)
            except (TypeError, ValueError):
                continue
            if all(sizes[choice.name] in set(choice.options()) for choice in design.choices):
                sch = scheduled(function, design, sizes)
                if sch is not None and trace_text(sch.trace) == text:
                    return design, sizes
    return None


def _changed(design: Design, sizes: Sizes, random: np.random.Generator) -> Sizes | None:
    """The sizes with another decision in one place; None where no draw passes the decision test."""
    places = [choice for choice in design.choices if len([*choice.options()]) > 1]
    for _ in range(_TRIES if places else 0):
        choice = places[int(random.integers(len(places)))]
        options = [option for option in choice.options() if option != sizes[choice.name]]
        changed = {**sizes, choice.name: options[int(random.integers(len(options)))]}
        if design.fault(changed) is None:
            return changed
    return None
