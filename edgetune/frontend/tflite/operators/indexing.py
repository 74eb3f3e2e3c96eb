"""Elements at computed places."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgetune.frontend.tflite.step import Step, Translator
from edgetune.frontend.tflite.translation import MisfitError


def gather(step: Step) -> None:
    """GATHER along an axis, for each of the first axes apart where `BatchDims` says so."""
    axis, batch = int(step.option("Axis", 0)), int(step.option("BatchDims", 0))
    axis, batch = axis % max(step.rank(), 1), batch % (step.rank(1) + 1)
    places = step.raw(1)
    if batch == 0:
        step.move(lambda value: step.op("Gather", value, places, axis=axis))
        return
    if axis != batch:
        raise MisfitError(f"gathers along axis {axis} with {batch} axes of its batch")
    last = step.op("Unsqueeze", step.op("Cast", places, to=7), step.constant([-1], np.int64))
    step.move(lambda value: step.op("GatherND", value, last, batch_dims=batch))


def gather_nd(step: Step) -> None:
    """GATHER_ND."""
    places = step.numbers(1)
    step.move(lambda value: step.op("GatherND", value, places))


def embedding_lookup(step: Step) -> None:
    """EMBEDDING_LOOKUP: rows of a table, which may be quantised by row."""
    made = step.op("Gather", step.real(1), step.raw(0), axis=0)
    step.give(made)


def scatter_nd(step: Step) -> None:
    """SCATTER_ND: adds updates to zeros."""
    zero = step.constant(np.zeros((), step.input(1).dtype), step.input(1).dtype)
    zeros = step.op("Expand", zero, step.numbers(2))
    step.give_raw(step.op("ScatterND", zeros, step.numbers(0), step.raw(1), reduction="add"))


def one_hot(step: Step) -> None:
    """ONE_HOT: places, how many, the values on and off."""
    last = step.constant([-1], np.int64)
    values = step.op(
        "Concat",
        *(step.op("Reshape", step.raw(position), last) for position in (3, 2)),
        axis=0,
    )
    depth = step.constant(step.value(1, "depth").reshape(1), np.int64)
    step.give_raw(step.op("OneHot", step.raw(0), depth, values, axis=int(step.option("Axis", -1))))


TRANSLATORS: Mapping[str, Translator] = {
    "EMBEDDING_LOOKUP": embedding_lookup,
    "GATHER": gather,
    "GATHER_ND": gather_nd,
    "ONE_HOT": one_hot,
    "SCATTER_ND": scatter_nd,
}
"""Operators that read or write at computed places."""
