"""Rebuilds a package with other schedules than the best of today: those of an earlier package, or with another model.

Nothing is measured and nothing is tested: such a package is compared with others, and never shipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from edgetune.config.settings import Settings
from edgetune.pipeline.compile_input import CompileInput, Events, assembled, device_of, load
from edgetune.pipeline.divisions import fastest_division
from edgetune.pipeline.link import Choice
from edgetune.pipeline.room import Room, fitting
from edgetune.pipeline.select import choose
from edgetune.records import RecordStore
from edgetune.schedule.algorithms.schedule_text import allowed_algorithms
from edgetune.target.target import with_cpu


def rebuild(settings: Settings, schedules: Mapping[str, Choice | None], out: Path, events: Events) -> None:
    """Write the package of `settings` to `out`; kernels whose workload is in `schedules` get that schedule.

    None stands for the default schedule. The other kernels get the best record of today. The program is divided into
    the kernels of `schedules` where they all are there, else into today's fastest. Raises what `api.build` raises, but
    for the errors of a self-test.
    """
    subject = load(settings, events)
    target, forms = with_cpu(settings.target), allowed_algorithms(settings.winograd)
    with RecordStore.open(settings.db, create=False, branch=settings.branch) as store:
        subject = _divided(subject, schedules) or fastest_division(subject, settings, store)

        def attempt(room: Room) -> None:
            def chosen(records: RecordStore | None) -> Sequence[Choice]:
                rules = (settings.min_trust, room.forms, settings.threads, room.arena)
                return choose(subject.program, target, records, events, *rules)

            best = chosen(store)
            default = chosen(None) if None in schedules.values() else best
            workloads = [kernel.workload for kernel in subject.program.kernels]
            choices = [
                schedules.get(workload, today) or fixed
                for workload, today, fixed in zip(workloads, best, default, strict=True)
            ]
            assembled(subject, replace(settings, out=out), choices, out, events)

        fitting(Room(forms, settings.arena_bytes), device_of(settings).ram, attempt)


def _divided(subject: CompileInput, schedules: Mapping[str, Choice | None]) -> CompileInput | None:
    """`subject` with the division whose kernels all are in `schedules`; None where there is none."""
    for program in (subject.program, *subject.program.divisions):
        if all(kernel.workload in schedules for kernel in program.kernels):
            return replace(subject, program=program)
    return None
