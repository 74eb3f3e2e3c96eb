"""Which forms a search tries of a kernel, and the one that a package without records gets.

Of the forms that overlap there are many; the formula for register tiles says which one is worth a try.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain
from math import prod
from typing import Any

from edgetune.config.target import Target
from edgetune.tuning.fixed import best_guess, best_sizes, fixed_trace, has_empty_tensor, preferred
from edgetune.tuning.forms.catalogue import form_named, forms_among
from edgetune.tuning.forms.form import Form
from edgetune.tuning.forms.overlapping.tiles import pixel_axes
from edgetune.tuning.forms.schedule_text import DIRECT, TILES, VECTORS, WINOGRAD, schedule_text, size_of
from edgetune.tuning.sketches.spaces import tile_of
from edgetune.tuning.sketches.variants import Variant
from edgetune.tuning.tile_costs import cheapest

_GAIN = 0.92
"""Share of the direct form's cycles below which whole tiles are worth a form of their own: the formula is no clock."""

_GAIN_OVER_PARTS = 0.75
"""The same where the direct form sums in parts, which keeps operands in the second cache; overlapping tiles cannot."""


def forms_of(function: Any, allowed: Collection[str], target: Target) -> list[Form]:
    """The forms of an unscheduled PrimFunc that are worth a search, among those `allowed`; the direct one first."""
    winograd = forms_among(function, (name for name in WINOGRAD if name in allowed))
    overlapping = overlapping_form(function, allowed, target)
    return [Form(DIRECT, function), *winograd, *([] if overlapping is None else [overlapping])]


def overlapping_form(function: Any, allowed: Collection[str], target: Target) -> Form | None:
    """The widest whole vectors that the target's registers hold, else whole tiles where the formula sees a gain."""
    if has_empty_tensor(function):
        return None
    vectors = (name for name in VECTORS if name in allowed and size_of(name) <= target.vector_bits)
    return next(chain(forms_among(function, vectors), forms_among(function, _tiles(function, allowed, target))), None)


def _tiles(function: Any, allowed: Collection[str], target: Target) -> list[str]:
    """The name of the form of whole tiles that should be fastest, if it should be faster than the direct form."""
    # With more pixels than that a tile is narrow, and the addresses of its rows do not fit the other registers.
    names = [name for name in TILES if name in allowed and size_of(name) <= target.vector_registers // 2]
    costs, parts = _costs(function, names, target)
    best = min(costs, key=lambda name: costs[name], default=DIRECT)
    gain = _GAIN if parts == 1 else _GAIN_OVER_PARTS
    return [best] if costs and costs[best] < gain * costs[DIRECT] else []


def _costs(function: Any, names: Collection[str], target: Target) -> tuple[dict[str, float], int]:
    """Cycles by the formula, of a multiply-add of a vector that is needed: of the direct form, and of whole tiles.

    Of those called `names` which the function can have; none where the formula knows nothing of the function. The
    other answer is in how many parts the direct form sums.
    """
    found = tile_of(function, target)
    if found is None or found[1].overlaps or not (axes := pixel_axes(found[1])):
        return {}, 1
    anatomy, tile = found
    variant = preferred(tile, target, streamed=False)[0]
    sizes = best_sizes(anatomy, tile, variant, target)
    if not sizes:
        return {}, variant.parts
    costs = {DIRECT: cheapest(anatomy, tile, variant, target, [(sizes["row"], sizes["pixel"])])[0]}
    pixels = prod(tile.anchor.spatial_extents[axis] for axis in axes)
    plain = Variant(("channel", "pixel"))
    for name in names:
        size = size_of(name)
        if size < pixels and pixels % size:
            cost, _ = cheapest(anatomy, tile, plain, target, [(1, size)])
            costs[name] = cost * -(-pixels // size) * size / pixels
    return costs, variant.parts


def times_faster(function: Any, name: str, target: Target) -> float:
    """How many times as fast as the direct form the one called `name`, which overlaps, should be on one thread."""
    if name in TILES:
        costs, _ = _costs(function, [name], target)
        return costs[DIRECT] / costs[name]
    vectors = [_vectors(each, target) for each in (function, form_named(function, name).function)]
    return vectors[0] / vectors[1]


def _vectors(function: Any, target: Target) -> float:
    """Vectors of channels for one pixel."""
    found = tile_of(function, target)
    return 1.0 if found is None else found[1].anchor.spatial_extents[found[1].channel] / found[1].lanes


def fixed_schedule(
    function: Any, target: Target, scratch_limit: int, forms: Collection[str], *, streamed: bool = False
) -> tuple[str, str]:
    """Text of the best-guess schedule and a note for people: of the form that overlaps, if there is one, else direct.

    Arguments as for `fixed_trace`. Winograd's forms are never guessed: the clock must show that they are faster.
    """
    form = overlapping_form(function, forms, target)
    found = None if form is None else best_guess(form.function, target, scratch_limit, streamed=streamed)
    if form is None or found is None:
        return fixed_trace(function, target, scratch_limit, streamed=streamed)
    return schedule_text(form.name, found[0]), found[1]
