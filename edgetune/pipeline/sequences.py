"""Sequences: golden cases of models with states, of which each goes on from what the case before left."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edgetune.events import Event
from edgetune.frontend.model_format import Model
from edgetune.graph.layout.axis_order import given_back
from edgetune.graph.program import Program, StateTensor, TensorSpec
from edgetune.package.golden import Golden

Events = Callable[[Event], None]


def golden_cases(
    model: Model,
    inputs: Sequence[TensorSpec],
    states: Sequence[StateTensor],
    drawn: tuple[int, int],
    program: Callable[[], Program],
    events: Events,
) -> tuple[tuple[Golden, ...], str]:
    """Cases in the axes of `model`, and the name of the reference that computed them; `drawn` is number and seed.

    `inputs` are those that are no states. With states, the model runs step by step: its outputs are fed back, and the
    second half of the cases begins anew. Raises ModelError.
    """
    count, seed = drawn
    feeds = model.sample_inputs(inputs, count, seed)
    if not states:
        outputs, reference = model.reference_outputs(feeds, program, events)
        return tuple(Golden(i, o) for i, o in zip(feeds, outputs, strict=True)), reference
    cases: list[Golden] = []
    reference = ""
    for number, feed in enumerate(feeds):
        goes_on = number not in {0, (count + 1) // 2}
        kept = {one.name_in: cases[-1].outputs[one.name_out] for one in states} if goes_on else _first(states)
        whole = {**feed, **kept}
        found, reference = model.reference_outputs([whole], program, events if number == 0 else lambda _: None)
        cases.append(Golden(whole, found[0], goes_on))
    return tuple(cases), reference


def _first(states: Sequence[StateTensor]) -> dict[str, np.ndarray]:
    layouts = {one.name_in: one.layout for one in states}
    return given_back({one.name_in: one.first for one in states}, layouts)
