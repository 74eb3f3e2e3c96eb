"""A schedule in one line."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from edgetune.schedule.default_schedule import default_trace
from edgetune.schedule.summary import summary
from edgetune.target.target import load_target
from tests.sketch_samples import conv2d


def test_sizes_of_tiles_name_their_axes_then_come_the_other_steps() -> None:
    function = conv2d((8, 8, 4), 32)
    text, _ = default_trace(function, load_target("rpi4"))
    found = summary(text, function)
    assert found.startswith("tile oh "), found
    assert [word for word in ("ow ", "oc ", "kh ", "kw ", "ic ", "vectorise oc") if word not in found] == []


def test_without_the_function_sizes_have_no_names() -> None:
    steps = [["SamplePerfectTile", ["l0"], [2, 4], ["v0", "v1"]], ["ComputeInline", ["b0"], [], []]]
    assert summary(json.dumps([steps, [[0, [25, 5]]]])) == "tile 25x5; inline 1 stage"


@given(st.text(max_size=40))
def test_anything_else_is_an_empty_line_not_an_error(text: str) -> None:
    assert isinstance(summary(text), str)


def test_a_tile_without_an_epilogue_has_names_too() -> None:
    """The copy of its result from registers is a block that the schedule adds."""
    function = conv2d((8, 8, 16), 32, kernel=(1, 1), pad=(0, 0, 0, 0))
    text, _ = default_trace(function, load_target("rpi4"))
    assert summary(text, function).startswith("tile pixel ")
