"""Joins the loop with the real rooms: our sketches for the space, a measuring session for the times."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgetune.config.target import Target
from edgetune.events import Event
from edgetune.measure.options import MeasuringOptions
from edgetune.tuning.fixed import fixed_trace
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
    return Rooms(
        measurer=SessionMeasurer(tasks, target, store.seen, on_event, measuring),
        space=lambda task: space_of(task, target),
        fixed_trace=lambda task: fixed_trace(task.kernel.function, target, task.scratch_limit)[0],
    )


def space_of(task: TuneTask, target: Target) -> SearchSpace:
    """All programs that our sketches reach from the task's function within its scratch limit."""
    function = task.kernel.function
    return SearchSpace(
        module=module_of(function),
        target=tvm_target(target),
        designs=design_spaces(function, target),
        postprocs=postprocs(target, task.scratch_limit),
        mutators=mutator_probs(),
    )
