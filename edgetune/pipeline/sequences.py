"""Sequences: golden cases of models with states, of which each goes on from what the case before left."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edgetune.events import Event
from edgetune.frontend.model_format import Model
from edgetune.graph.layout.axis_order import given_back
from edgetune.graph.program import Program, StateTensor, TensorSpec
from edgetune.graph.stream import WindowStream
from edgetune.package.golden import Golden

Events = Callable[[Event], None]

STREAM_STEPS = 50
"""Of a stream, with a reset in the middle."""
_BEYOND = 5
"""Steps after the first whole window, where only whole windows have results."""


def stream_lengths(stream: WindowStream) -> tuple[int, int]:
    """How many steps two sequences of a stream have: the first one has all frames of a window where that tells more.

    So it has steps in which each output counts.
    """
    half = STREAM_STEPS // 2
    of_window = any(output.axis < 0 for output in stream.outputs)
    known = max(output.settled for output in stream.outputs) + 1
    return max(half, max(known, stream.window_steps * of_window) + _BEYOND), half


def golden_cases(
    model: Model,
    inputs: Sequence[TensorSpec],
    states: Sequence[StateTensor],
    lengths: Sequence[int],
    seed: int,
    program: Callable[[], Program],
    events: Events,
) -> tuple[tuple[Golden, ...], str]:
    """Cases in the axes of `model`, and the name of the reference that computed them.

    `inputs` are those that are no states. With states, there are sequences of so many cases as `lengths` says: the
    model runs step by step, and its outputs are fed back. Raises ModelError.
    """
    feeds = model.sample_inputs(inputs, sum(lengths), seed)
    if not states:
        outputs, reference = model.reference_outputs(feeds, program, events)
        return tuple(Golden(i, o) for i, o in zip(feeds, outputs, strict=True)), reference
    pairs = {one.name_in: one.name_out for one in states}
    cases: list[Golden] = []
    reference = ""
    for length in lengths:
        sequence = feeds[len(cases) : len(cases) + length]
        outputs, evaluator = model.sequence_outputs(
            sequence, _first(states), pairs, program, events if not cases else lambda _: None
        )
        reference = reference or evaluator
        kept = _first(states)
        for number, (feed, found) in enumerate(zip(sequence, outputs, strict=True)):
            cases.append(Golden({**feed, **kept}, found, goes_on=number > 0))
            kept = {name_in: found[name_out] for name_in, name_out in pairs.items()}
    return tuple(cases), reference


def _first(states: Sequence[StateTensor]) -> dict[str, np.ndarray]:
    layouts = {one.name_in: one.layout for one in states}
    return given_back({one.name_in: one.first for one in states}, layouts)
