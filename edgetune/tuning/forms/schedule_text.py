"""A schedule as text: the form of a kernel that it schedules, and the trace of TVM that does it.

The text of the direct form is the trace's own JSON, as it was before there were others.
"""

from __future__ import annotations

import json

DIRECT = "direct"
"""The form that is the kernel's function as it is."""

WINOGRAD = ("winograd_f2", "winograd_f4")
"""Convolutions by tiles of 2x2 and 4x4 outputs; the larger the tile, the fewer products, and the less exact."""

VECTORS = ("vectors_512", "vectors_256", "vectors_128", "vectors_64")
"""Channels in whole vectors of so many bits, the widest first; the last vector overlaps the one before it."""

TILES = tuple(f"tiles_{pixels}" for pixels in range(2, 17))
"""Pixels in whole tiles of so many; the last tile overlaps the one before it."""

FORMS = (DIRECT, *WINOGRAD, *VECTORS, *TILES)
"""The names of all forms."""


def allowed_forms(winograd: str) -> frozenset[str]:
    """The forms that are allowed where `winograd`, "off", "f2" or "f4", is the largest tile that is."""
    largest = {"off": 0, "f2": 1, "f4": 2}[winograd]
    return frozenset((DIRECT, *WINOGRAD[:largest], *VECTORS, *TILES))


def size_of(name: str) -> int:
    """Bits of a vector of one of the forms `VECTORS`, pixels of a tile of one of `TILES`."""
    return int(name.rpartition("_")[2])


def schedule_text(form: str, trace: str) -> str:
    """The text of a schedule, `trace` being a trace's JSON."""
    return trace if form == DIRECT else f"{prefix_of(form)}{trace}}}"


def prefix_of(form: str) -> str:
    """What the text of every schedule of a form begins with; "" for the direct form."""
    return "" if form == DIRECT else f'{{"form":{json.dumps(form)},"trace":'


def form_and_trace(text: str) -> tuple[str, str]:
    """The name of the form, and the trace's JSON; text that names no form is a trace of the direct one."""
    form = form_of(text)
    return (form, text) if form == DIRECT else (form, text.removeprefix(prefix_of(form))[:-1])


def form_of(text: str) -> str:
    """The name of the form that a schedule is for."""
    start = prefix_of("?").partition("?")[0]
    if not text.startswith(start):
        return DIRECT
    name = text[len(start) :].partition('"')[0]
    return name if text.startswith(prefix_of(name)) and text.endswith("}") else DIRECT
