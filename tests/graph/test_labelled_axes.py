"""Labels say which axis of a source is which axis of an operand, whatever transposes and reshapes lie between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import relax

from edgetune.graph.labelled_axes import BatchAxes, labelled, shape_of, source_of
from edgetune.graph.rewrite import DefUse

ROWS, COLUMNS = 5, 7


def chain(source: list[int], steps: list[tuple[str, list[int]]]) -> tuple[Any, DefUse]:
    """The last variable of a function that applies steps to its parameter of shape `source`, and its chains."""
    builder = relax.BlockBuilder()
    value = x = relax.Var("x", relax.TensorType(source, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            for kind, numbers in steps:
                value = builder.emit(getattr(relax.op, kind)(value, numbers))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return value, DefUse(builder.get()["main"])


def evaluated(array: np.ndarray, steps: list[tuple[str, list[int]]]) -> np.ndarray:
    for kind, numbers in steps:
        made = {"permute_dims": np.transpose, "reshape": np.reshape, "broadcast_to": np.broadcast_to}[kind]
        array = made(array, numbers)  # type: ignore[operator]
    return array


@st.composite
def steps_to_operands(draw: st.DrawFn) -> tuple[list[int], list[tuple[str, list[int]]]]:
    """A source of (batch, rows, shared heads, columns), and ways to an operand of (batch, heads, rows, columns)."""
    batch, shared, group = (draw(st.integers(1, 4)) for _ in range(3))
    steps: list[tuple[str, list[int]]] = [("permute_dims", [0, 2, 1, 3])]
    if draw(st.booleans()):
        steps.append(("reshape", [batch, shared, 1, ROWS, COLUMNS]))
        steps.append(("broadcast_to", [batch, shared, group, ROWS, COLUMNS]))
    else:
        group = 1
    heads = shared * group
    steps.append(("reshape", [batch * heads, ROWS, COLUMNS]))
    if draw(st.booleans()):
        steps.append(("permute_dims", [0, 2, 1]))
        steps.append(("permute_dims", [0, 2, 1]))
    if draw(st.booleans()):
        steps.append(("reshape", [batch, heads, ROWS, COLUMNS]))
    return [batch, ROWS, shared, COLUMNS], steps


@given(steps_to_operands())
def test_the_source_is_the_operand_in_another_order(found: tuple[list[int], list[tuple[str, list[int]]]]) -> None:
    shape, steps = found
    value, chains = chain(shape, steps)
    batch = BatchAxes([[extent] for extent in shape_of(value)[:-2]])
    operand = source_of(labelled(value, batch.labels(), batch), chains, scaled=False)
    while batch.divided:
        batch.divided = False
        operand = source_of(labelled(value, batch.labels(), batch), chains, scaled=False)
    assert shape_of(operand.value) == shape
    array = np.arange(np.prod(shape)).reshape(shape)
    expected = evaluated(array, steps)
    listed = operand.listed()
    divided = array.reshape(operand.divided_shape()).transpose([listed.index(label) for label in range(len(listed))])
    full = [*batch.extents, ROWS, COLUMNS]
    np.testing.assert_array_equal(np.broadcast_to(divided, full).reshape(expected.shape), expected)


@pytest.mark.parametrize(("source", "shape"), [([6, 4, 5, 7], [24, 5, 7]), ([5, 8, 7], [2, 4, 5, 7])])
def test_axes_are_divided_where_both_sides_have_a_bound(source: list[int], shape: list[int]) -> None:
    steps = [("permute_dims", [1, 0, 2])] if len(source) == len(shape) - 1 else []
    value, chains = chain(source, [*steps, ("reshape", shape)])
    batch = BatchAxes([[extent] for extent in shape[:-2]])
    found = labelled(value, batch.labels(), batch)
    source_of(found, chains, scaled=False)
    assert batch.divided == (len(source) > len(shape))
    assert batch.extents == ([6, 4] if batch.divided else shape[:-2])


def test_a_reshape_across_rows_has_no_labels() -> None:
    value, chains = chain([4, 35], [("permute_dims", [1, 0]), ("reshape", [5, 28])])
    batch = BatchAxes([])
    found = source_of(labelled(value, [], batch), chains, scaled=False)
    assert found.value.same_as(value)
