"""From a kernel's function and the text of a schedule to the scheduled module and what its constants need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgetune.codegen.packing import split_packing
from edgetune.tuning.forms.catalogue import form_named
from edgetune.tuning.forms.form import Chain, ConstantTransform
from edgetune.tuning.forms.schedule_text import form_and_trace
from edgetune.tuning.replay import replay


@dataclass(frozen=True)
class Scheduled:
    """A module of one scheduled function that is ready to be printed.

    `constants` says by parameter index how the array of the program is changed when the package is built: the form's
    transform, then the layout that the schedule wants. Those it does not name stay as they are.
    """

    form: str
    module: Any
    constants: Mapping[int, ConstantTransform]


def realise(function: Any, text: str) -> Scheduled:
    """The form that `text` names, derived from the kernel's unscheduled `function` and scheduled; always the same.

    Raises KernelFailed when the form is none of this kernel's, or the trace does not fit it.
    """
    name, trace = form_and_trace(text)
    form = form_named(function, name)
    module, layouts = split_packing(replay(form.function, trace))
    constants: dict[int, ConstantTransform] = {}
    for index in sorted(form.transforms.keys() | layouts.keys()):
        steps = [step for step in (form.transforms.get(index), layouts.get(index)) if step is not None]
        constants[index] = steps[0] if len(steps) == 1 else Chain(tuple(steps))
    return Scheduled(name, module, constants)
