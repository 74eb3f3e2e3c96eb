"""Sparse constants against numpy: rows of stored places, blocks, and what contradicts itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.frontend.tflite.content import Level, dense


@given(rows=st.integers(1, 5), columns=st.integers(1, 6), seed=st.integers(0, 1 << 16))
def test_rows_of_stored_places(rows: int, columns: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    whole = draw.integers(-9, 9, (rows, columns)) * draw.integers(0, 2, (rows, columns))
    stored = [np.flatnonzero(row) for row in whole]
    segments = np.concatenate([[0], np.cumsum([len(row) for row in stored])])
    levels = [Level(rows), Level(0, segments, np.concatenate(stored))]
    assert np.array_equal(dense(whole[whole != 0], whole.shape, (0, 1), (), levels), whole)


def test_blocks_of_two_by_two() -> None:
    """The example of TensorFlow's description of the format: of four blocks, two are stored."""
    whole = np.array([[1, 0, 0, 0], [0, 2, 0, 0], [0, 0, 4, 3], [0, 0, 5, 0]])
    values = np.array([1, 0, 0, 2, 4, 3, 5, 0])
    levels = [Level(2), Level(0, np.array([0, 1, 2]), np.array([0, 1])), Level(2), Level(2)]
    assert np.array_equal(dense(values, (4, 4), (0, 1, 2, 3), (0, 1), levels), whole)


@pytest.mark.parametrize(
    ("order", "levels"),
    [
        ((0, 0), [Level(2), Level(2)]),
        ((0, 1), [Level(2)]),
        ((0, 1), [Level(1 << 40), Level(1 << 40)]),
        ((0, 1), [Level(2), Level(0, np.array([0, 9, 4]), np.array([0, 1, 0, 1]))]),
        ((0, 1), [Level(2), Level(0, np.array([0, 2, 4]), np.array([0, 1, 0, 7]))]),
        ((0, 1), [Level(2), Level(1)]),
    ],
    ids=["one axis twice", "too few levels", "more places than memory", "segments", "outside", "too few places"],
)
def test_what_contradicts_itself(order: tuple[int, ...], levels: list[Level]) -> None:
    with pytest.raises((ValueError, IndexError)):
        dense(np.arange(4), (2, 2), order, (), levels)
