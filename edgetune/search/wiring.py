"""Wiring of the search: gives the loop our sketches as the space and a measuring session as the measurer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgetune.boards.opening import boards_of
from edgetune.boards.options import MeasuringOptions
from edgetune.events import Event
from edgetune.records import RecordStore
from edgetune.schedule.algorithms.algorithm import Algorithm
from edgetune.schedule.algorithms.schedule_text import DIRECT
from edgetune.schedule.default_algorithms import algorithms_of, default_schedule, form_for_odd_extents
from edgetune.schedule.default_schedule import best_guess
from edgetune.schedule.sketches import design_spaces, module_of, mutator_probs, postprocs, tvm_target
from edgetune.search.loop import SearchParts
from edgetune.search.search import SearchSpace
from edgetune.search.session_measurer import SessionMeasurer
from edgetune.search.task import TuneTask
from edgetune.target.target import Target


def wire_search(
    tasks: Sequence[TuneTask],
    target: Target,
    store: RecordStore,
    on_event: Callable[[Event], None],
    measuring: MeasuringOptions,
) -> SearchParts:
    """Parts that time candidates of `tasks` on the boards of `measuring`."""

    def fixed(task: TuneTask) -> str:
        function = task.kernel.function
        return default_schedule(function, target, task.scratch_limit, task.forms, streamed=task.streamed)[0]

    boards = boards_of(measuring.boards)
    return SearchParts(
        measurer=SessionMeasurer(tasks, target, store.seen, on_event, boards, measuring=measuring),
        space=lambda task: space_of(task, target),
        fixed_trace=fixed,
        other_forms=lambda task: other_spaces(task, target),
    )


def space_of(task: TuneTask, target: Target, form: Algorithm | None = None) -> SearchSpace:
    """All programs that our sketches reach from an algorithm of the task (the direct one) within its scratch limit.

    The best guess is proposed first, unless it certainly equals the default schedule, which is measured in any case.
    """
    form = form or Algorithm(DIRECT, task.kernel.function)
    streamed = task.streamed
    fixed = form.name == DIRECT and form_for_odd_extents(form.function, task.forms, target) is None
    guess = None if fixed else best_guess(form.function, target, task.scratch_limit, streamed=streamed)
    refused: list[None] = []
    designs = design_spaces(form.function, target, streamed=streamed, on_refused=lambda: refused.append(None))
    return SearchSpace(
        module=module_of(form.function),
        target=tvm_target(target),
        designs=designs,
        postprocs=postprocs(target, task.scratch_limit),
        mutators=mutator_probs(),
        form=form.name,
        first=(guess[0],) if guess else (),
        refused=len(refused),
    )


def other_spaces(task: TuneTask, target: Target) -> list[SearchSpace]:
    """The spaces of the other algorithms that are allowed for the task."""
    forms = algorithms_of(task.kernel.function, task.forms, target)
    return [space_of(task, target, form) for form in forms if form.name != DIRECT]
