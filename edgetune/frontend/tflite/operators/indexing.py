"""Elements at computed places."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import TensorProto

from edgetune.frontend.tflite.step import OperatorStep, Translator
from edgetune.frontend.tflite.translation import MisfitError


def gather(step: OperatorStep) -> None:
    """GATHER along an axis, for each of the first axes apart where `BatchDims` says so."""
    axis, batch = int(step.option("Axis", 0)), int(step.option("BatchDims", 0))
    axis, batch = axis % max(step.rank(), 1), batch + step.rank(1) if batch < 0 else batch
    places = step.raw(1)
    if batch == 0:
        step.move(lambda value: step.op("Gather", value, places, axis=axis))
        return
    if axis < batch:
        raise MisfitError(f"gathers along axis {axis} with {batch} axes of its batch")
    last = step.op("Unsqueeze", step.op("Cast", places, to=TensorProto.INT64), step.constant([-1], np.int64))
    rank, between = step.rank(), axis - batch
    # GatherND reads along the axis that follows the batch, so the axes between both follow those of the places.
    forth = [*range(batch), axis, *range(batch, axis), *range(axis + 1, rank)]
    first = step.rank(1)
    back = [
        *range(batch),
        *range(first, first + between),
        *range(batch, first),
        *range(first + between, first + rank - batch - 1),
    ]

    def made_of(value: str) -> str:
        value = step.op("Transpose", value, perm=forth) if between else value
        value = step.op("GatherND", value, last, batch_dims=batch)
        return step.op("Transpose", value, perm=back) if between else value

    step.move(made_of)


def gather_nd(step: OperatorStep) -> None:
    """GATHER_ND."""
    places = step.numbers(1)
    step.move(lambda value: step.op("GatherND", value, places))


def embedding_lookup(step: OperatorStep) -> None:
    """EMBEDDING_LOOKUP: rows of a table, which may be quantised by row."""
    made = step.op("Gather", step.real(1), step.raw(0), axis=0)
    step.give(made)


def scatter_nd(step: OperatorStep) -> None:
    """SCATTER_ND: adds updates to zeros."""
    zero = step.constant(np.zeros((), step.input(1).dtype), step.input(1).dtype)
    zeros = step.op("Expand", zero, step.numbers(2))
    step.give_raw(step.op("ScatterND", zeros, step.numbers(0), step.raw(1), reduction="add"))


def one_hot(step: OperatorStep) -> None:
    """ONE_HOT: places, how many, the values on and off."""
    last = step.constant([-1], np.int64)
    values = step.op(
        "Concat",
        *(step.op("Reshape", step.raw(position), last) for position in (3, 2)),
        axis=0,
    )
    depth, places = step.constant(step.value(1, "depth").reshape(1), np.int64), step.numbers(0)
    # A negative place is none, where ONNX counts it from the end.
    outside = step.op("Less", places, step.constant(0, np.int64))
    places = step.op("Where", outside, depth, places)
    step.give_raw(step.op("OneHot", places, depth, values, axis=int(step.option("Axis", -1))))


TRANSLATORS: Mapping[str, Translator] = {
    "EMBEDDING_LOOKUP": embedding_lookup,
    "GATHER": gather,
    "GATHER_ND": gather_nd,
    "ONE_HOT": one_hot,
    "SCATTER_ND": scatter_nd,
}
"""Operators that read or write at computed places."""
