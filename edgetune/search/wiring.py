"""Wiring of the search: gives the loop our sketches as the space and a measuring session as the measurer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from edgetune.boards.opening import boards_of
from edgetune.boards.options import MeasuringOptions
from edgetune.events import Event
from edgetune.records import RecordStore
from edgetune.schedule.algorithms.algorithm import Algorithm
from edgetune.schedule.algorithms.catalogue import direct_algorithm
from edgetune.schedule.algorithms.schedule_text import DIRECT
from edgetune.schedule.default_algorithms import algorithms_of
from edgetune.schedule.default_schedule import guesses
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.schedule.sketches import design_spaces, module_of, mutator_probs, postprocs, tvm_target
from edgetune.search.loop import SearchParts
from edgetune.search.search import SearchSpace
from edgetune.search.session_measurer import SessionMeasurer
from edgetune.search.task import TuneTask
from edgetune.target.target import Target

_GUESSES = 6
"""Most schedules of one algorithm that a formula chooses for the first trials."""


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
        measurer=SessionMeasurer(tasks, target, store.measured, on_event, boards, measuring=measuring),
        space=lambda task: space_of(task, target),
        fixed_trace=fixed,
        other_forms=lambda task: other_spaces(task, target),
    )


def space_of(task: TuneTask, target: Target, form: Algorithm | None = None) -> SearchSpace:
    """All programs that our sketches reach from an algorithm of the task (the direct one) within its scratch limit.

    The formula's best schedules of each structure are proposed first. One that equals the default schedule, which is
    measured in any case, costs no trial.
    """
    form = form or direct_algorithm(task.kernel.function)
    streamed = task.streamed
    first = islice(guesses(form.function, target, task.scratch_limit, streamed=streamed), _GUESSES)
    refused: list[None] = []
    designs = design_spaces(form.function, target, streamed=streamed, on_refused=lambda: refused.append(None))
    return SearchSpace(
        module=module_of(form.function),
        target=tvm_target(target),
        designs=designs,
        postprocs=postprocs(target, task.scratch_limit),
        mutators=mutator_probs(),
        form=form.name,
        first=tuple(guess.trace for guess in first),
        refused=len(refused),
    )


def other_spaces(task: TuneTask, target: Target) -> list[SearchSpace]:
    """The spaces of the other algorithms that are allowed for the task."""
    forms = algorithms_of(task.kernel.function, task.forms, target)
    return [space_of(task, target, form) for form in forms if form.name != DIRECT]
