"""Algorithms in words, for reports: what a form of a kernel computes with, and what it needs in memory."""

from __future__ import annotations

import re

from edgetune.schedule.algorithms.schedule_text import DIRECT, WIDE

_FAMILIES = (
    (r"winograd_f(\d)", r"Winograd's algorithm by tiles of \1x\1 outputs"),
    (r"vectors_(\d+)", r"whole vectors of \1 bits, of which the last one overlaps"),
    (r"tiles_(\d+)", r"tiles of \1 pixels, of which the last one overlaps"),
    (r"peeled_(\d+)", r"sums in whole vectors of \1 bits, and a rest"),
    (r"dot_u?int(\d+)_(\d+)", r"\2 products of \1-bit data a step in each lane"),
    (
        r"im2col_u?int(\d+)_(\d+)",
        r"\2 products of \1-bit data a step in each lane, the terms of a result copied (im2col)",
    ),
    (r"pairs_(\d+)", r"\1 neighbouring results a step, two taps at a time"),
    (r"lanes_(\d+)_int(\d+)", r"\1 neighbouring results a step, weights of \2 bits in memory"),
    ("|".join(WIDE), r"integers as floats"),
)


def describe_form(form: str) -> str:
    """Return an algorithm, by its name in a schedule's text, in words; the name itself where no words are known."""
    if form == DIRECT:
        return "the definition itself"
    return ", in ".join(_words(part) for part in form.split("+"))


def _words(name: str) -> str:
    for pattern, words in _FAMILIES:
        if match := re.fullmatch(pattern, name):
            return match.expand(words)
    return name
