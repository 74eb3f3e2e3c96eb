"""Which forms there are, and which of them a kernel can have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from edgetune.errors import KernelFailed
from edgetune.tuning.forms.form import Form
from edgetune.tuning.forms.overlapping.tiles import whole_tiles_form
from edgetune.tuning.forms.overlapping.vectors import whole_vectors_form
from edgetune.tuning.forms.schedule_text import DIRECT, TILES, VECTORS, WINOGRAD
from edgetune.tuning.forms.winograd.algorithm import rounding_note
from edgetune.tuning.forms.winograd.form import winograd_form

_DERIVATIONS: dict[str, Callable[[Any, str], Form | None]] = {
    **dict.fromkeys(WINOGRAD, winograd_form),
    **dict.fromkeys(VECTORS, whole_vectors_form),
    **dict.fromkeys(TILES, whole_tiles_form),
}


def forms_among(function: Any, names: Iterable[str]) -> Iterator[Form]:
    """The forms of an unscheduled PrimFunc among those called `names`, in that order; the direct one is not derived."""
    found = (_derived(function, name) for name in names if name in _DERIVATIONS)
    return (form for form in found if form is not None)


def form_named(function: Any, name: str) -> Form:
    """The form of a PrimFunc that is called `name`; raises KernelFailed where it has none."""
    if name == DIRECT:
        return Form(DIRECT, function)
    form = _derived(function, name) if name in _DERIVATIONS else None
    if form is None:
        raise KernelFailed(f"a recorded schedule is for the form {name!r}, which this kernel has not: tune again")
    return form


def rounding_of(name: str) -> str:
    """How far the results of a form may be off, in a sentence; "" for the direct one, and for a form of other times."""
    return rounding_note(name) if name in WINOGRAD else ""


@lru_cache(maxsize=64)
def _derived(function: Any, name: str) -> Form | None:
    try:
        return _DERIVATIONS[name](function, name)
    except RuntimeError:  # what TVM raises for a function that it does not take
        return None
