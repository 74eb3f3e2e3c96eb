"""A schedule in one line."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from edgetune.schedule.summary import summary


def test_tile_sizes_come_first_then_the_steps_that_tell() -> None:
    steps = [["GetSBlock"], ["SamplePerfectTile"], ["Split"], ["Vectorize"], ["Vectorize"], ["TransformLayout"]]
    assert summary(json.dumps([steps, [[1, [25, 5]]]])) == "25x5; 2 Vectorize, TransformLayout"


@given(st.text(max_size=40))
def test_anything_else_is_an_empty_line_not_an_error(text: str) -> None:
    assert isinstance(summary(text), str)
