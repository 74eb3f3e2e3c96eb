"""Joins the loop with the real rooms: our sketches for the space, a measuring session for the times."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgetune.config.target import Target
from edgetune.events import Event
from edgetune.measure.options import MeasuringOptions
from edgetune.tuning.fixed import best_guess
from edgetune.tuning.fixed_forms import fixed_schedule, forms_of, overlapping_form
from edgetune.tuning.forms.form import Form
from edgetune.tuning.forms.schedule_text import DIRECT
from edgetune.tuning.loop import Rooms
from edgetune.tuning.records import RecordStore
from edgetune.tuning.search import SearchSpace
from edgetune.tuning.session_measurer import SessionMeasurer
from edgetune.tuning.sketches import design_spaces, module_of, mutator_probs, postprocs, tvm_target
from edgetune.tuning.task import TuneTask


def make_rooms(
    tasks: Sequence[TuneTask],
    target: Target,
    store: RecordStore,
    on_event: Callable[[Event], None],
    measuring: MeasuringOptions | None = None,
) -> Rooms:
    """Rooms that time candidates of `tasks` on the boards of `measuring`, or on this machine."""

    def fixed(task: TuneTask) -> str:
        function = task.kernel.function
        return fixed_schedule(function, target, task.scratch_limit, task.forms, streamed=task.streamed)[0]

    return Rooms(
        measurer=SessionMeasurer(tasks, target, store.seen, on_event, measuring),
        space=lambda task: space_of(task, target),
        fixed_trace=fixed,
        other_forms=lambda task: other_spaces(task, target),
    )


def space_of(task: TuneTask, target: Target, form: Form | None = None) -> SearchSpace:
    """All programs that our sketches reach from a form of the task's function (the direct one) within its scratch.

    The best guess is proposed first, unless the fixed schedule is certain to be that, which is measured in any case.
    """
    form = form or Form(DIRECT, task.kernel.function)
    streamed = task.streamed
    fixed = form.name == DIRECT and overlapping_form(form.function, task.forms, target) is None
    guess = None if fixed else best_guess(form.function, target, task.scratch_limit, streamed=streamed)
    return SearchSpace(
        module=module_of(form.function),
        target=tvm_target(target),
        designs=design_spaces(form.function, target, streamed=streamed),
        postprocs=postprocs(target, task.scratch_limit),
        mutators=mutator_probs(),
        form=form.name,
        first=(guess[0],) if guess else (),
    )


def other_spaces(task: TuneTask, target: Target) -> list[SearchSpace]:
    """The spaces of the task's other forms, of those that are allowed for it."""
    forms = forms_of(task.kernel.function, task.forms, target)
    return [space_of(task, target, form) for form in forms if form.name != DIRECT]
