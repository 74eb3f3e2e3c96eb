"""The cases of the search benchmark by name: operators of the paper, and expressions that nobody foresaw."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from benchmarks.search.everyday_layers import everyday_layers
from benchmarks.search.everyday_numbers import everyday_numbers
from benchmarks.search.everyday_pictures import everyday_pictures
from benchmarks.search.everyday_signals import everyday_signals
from benchmarks.search.expression import Expression
from benchmarks.search.fields_grids import grids
from benchmarks.search.fields_models import models
from benchmarks.search.fields_points import points
from benchmarks.search.fields_signals import signals
from benchmarks.search.held_out import held_out
from benchmarks.search.later import later
from benchmarks.search.losses import losses
from benchmarks.search.paper_operators import is_quick, paper_operators
from benchmarks.search.published import published
from benchmarks.search.short_rows import short_rows
from benchmarks.search.small_extents import small_extents
from benchmarks.search.unforeseen import unforeseen
from edgetune.errors import UsageError
from edgetune.yaml_reader.nearest import nearest


def _fields() -> Iterator[Expression]:
    """Expressions of other fields, from four files."""
    for cases in (grids, points, signals, models):
        yield from cases()


def _everyday() -> Iterator[Expression]:
    """What users of other fields may try first, from four files."""
    for cases in (everyday_signals, everyday_pictures, everyday_layers, everyday_numbers):
        yield from cases()


_LISTS = {
    "losses": losses,
    "published": published,
    "unforeseen": unforeseen,
    "held-out": held_out,
    "small-extents": small_extents,
    "later": later,
    "fields": _fields,
    "everyday": _everyday,
    "short-rows": short_rows,
}


@cache
def _by_name() -> dict[str, Expression]:
    lists = (paper_operators, *_LISTS.values())
    return {case.name: case for cases in lists for case in cases()}


def expression_named(name: str) -> Expression:
    """The case called `name`; raises KeyError."""
    return _by_name()[name]


def names_of(selection: str) -> Iterator[str]:
    """The names of a selection: "quick", "full", "second", another list ("held-out"), or names.

    The "second" are the second shapes of all operators, batch 1. Names are separated by commas; the start of a name
    stands for all of its cases, as "t2d".

    Raises UsageError for a name that stands for none.
    """
    if selection in ("quick", "full"):
        yield from (case.name for case in paper_operators() if selection == "full" or is_quick(case.name))
        return
    if selection in _LISTS:
        yield from (case.name for case in _LISTS[selection]())
        return
    if selection == "second":
        yield from (name for name in _by_name() if name.endswith("_2_b1"))
        return
    for part in selection.split(","):
        found = [name for name in _by_name() if f"{name}_".startswith(f"{part}_")]
        if not found:
            raise UsageError(f"there is no case '{part}': {nearest(part, _by_name())}")
        yield from found
