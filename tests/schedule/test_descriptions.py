"""Every algorithm has words, which say what its name says."""

from __future__ import annotations

import pytest

from edgetune.schedule.algorithms.descriptions import describe_form
from edgetune.schedule.algorithms.schedule_text import FORMS


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_words(form: str) -> None:
    words = describe_form(form)
    assert words != form
    assert "_" not in words


def test_words_have_the_sizes() -> None:
    assert describe_form("dot_int16_4+tiles_7") == (
        "4 products of 16-bit data a step in each lane, in tiles of 7 pixels, of which the last one overlaps"
    )
    assert describe_form("lanes_4_int8") == "4 neighbouring results a step, weights of 8 bits in memory"
    assert describe_form("another") == "another"
