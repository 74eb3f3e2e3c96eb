"""A view of a view is where both say: as with numpy's strides, along any axes; what fits no axes is refused."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgetune.graph.views.strided_view import StridedView, rows_of, shape_with_gaps


def places(view: StridedView) -> np.ndarray:
    """The elements of a view in its buffer, in order."""
    found = np.array([view.offset])
    for extent, stride in view.axes:
        found = (found[:, None] + np.arange(extent) * stride).reshape(-1)
    return found


@st.composite
def windows(draw: st.DrawFn, shape: list[int]) -> tuple[StridedView, list[int]]:
    """A part of a dense tensor, and its shape."""
    part = [draw(st.integers(1, extent)) for extent in shape]
    start = [draw(st.integers(0, extent - size)) for extent, size in zip(shape, part, strict=True)]
    strides = [prod(shape[n + 1 :]) for n in range(len(shape))]
    offset = sum(place * stride for place, stride in zip(start, strides, strict=True))
    return StridedView.of_axes(0, offset, list(zip(part, strides, strict=True))), part


@given(st.data())
def test_a_view_in_a_view_has_the_elements_that_both_say(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4), "shape")
    outer, part = data.draw(windows(shape), "outer")
    inner, _ = data.draw(windows(part), "inner")
    found = inner.inside(outer)
    assert found is not None
    assert np.array_equal(places(found), places(outer)[places(inner)])


@given(st.data())
def test_other_axes_are_exact_or_refused(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4), "shape")
    outer, part = data.draw(windows(shape), "outer")
    size = prod(part)
    split = data.draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]), "rows")
    inner, _ = data.draw(windows([split, size // split]), "inner")
    found = inner.inside(outer)
    if found is not None:
        assert np.array_equal(places(found), places(outer)[places(inner)])


@given(st.data())
def test_a_shape_with_gaps_has_the_same_elements(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4), "shape")
    view, part = data.draw(windows(shape), "part")
    enlarged = shape_with_gaps(tuple(part), view)
    assert enlarged is not None or part[-1] == 1
    if enlarged is None:
        return
    own = np.arange(prod(enlarged)).reshape(enlarged)[tuple(slice(extent) for extent in part)].reshape(-1)
    assert np.array_equal(own + view.offset, places(view))
    if enlarged != tuple(part):
        assert np.array_equal(rows_of(tuple(part), enlarged).elements(prod(enlarged)), own)
