"""Milliseconds of a counted run, as a report shows them."""

from __future__ import annotations

import pytest

from edgetune.package.counted_run import CountedRun


@pytest.mark.parametrize(
    ("cycles", "clock", "shown"),
    [
        (552_788_368, 25, "22,112"),
        (4_675_441, 25, "187"),
        (4_675_441, 120, "39"),
        (351_000, 120, "2.92"),
        (999, 480, "0.00208"),
        (1, None, ""),
        (None, 120, ""),
    ],
)
def test_milliseconds_have_three_digits_or_more(cycles: int | None, clock: float | None, shown: str) -> None:
    assert CountedRun("qemu", 1, (), cycles, (), clock).shown_milliseconds == shown
