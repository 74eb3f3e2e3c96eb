"""Rebuilds a package with other schedules than the best of today: those of an earlier package, or with another model.

Nothing is measured and nothing is tested: such a package is compared with others, and never shipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from edgetune.config.settings import Settings
from edgetune.pipeline.compile_input import Events, assembled, load
from edgetune.pipeline.divisions import fastest_division
from edgetune.pipeline.link import Choice
from edgetune.pipeline.select import choose
from edgetune.records import RecordStore
from edgetune.schedule.algorithms.schedule_text import allowed_algorithms
from edgetune.target.target import with_cpu


def rebuild(settings: Settings, schedules: Mapping[str, Choice], out: Path, events: Events) -> None:
    """Write the package of `settings` to `out`; kernels whose workload is in `schedules` get that schedule.

    The others get the best record of today. Raises what `api.build` raises, but for the errors of a self-test.
    """
    subject = load(settings, events)
    target, forms = with_cpu(settings.target), allowed_algorithms(settings.winograd)
    with RecordStore.open(settings.db, create=False, branch=settings.branch) as store:
        subject = fastest_division(subject, settings, store)
        best = choose(subject.program, target, store, events, settings.min_trust, forms, settings.threads)
    kernels = subject.program.kernels
    choices = [schedules.get(kernel.workload, choice) for kernel, choice in zip(kernels, best, strict=True)]
    assembled(subject, replace(settings, out=out), choices, out, events)
