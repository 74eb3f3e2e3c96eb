"""From a model to a package: the search on a board, and the package of the schedules that are known."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from edgetune import assembly
from edgetune.choosing import choose
from edgetune.config.boards_file import ResolvedBoard
from edgetune.config.settings import Settings
from edgetune.errors import MemoryLimitExceeded, SelfTestFailed, WrongResult
from edgetune.events import Event
from edgetune.graph.memory_plan import plan, scratch_limits
from edgetune.graph.program import Program
from edgetune.in_package import streams
from edgetune.judging import judged_by_double
from edgetune.measure.options import MeasuringOptions
from edgetune.on_board import elsewhere
from edgetune.package.emit import Check, PackageSummary
from edgetune.rehearsal import rehearse_subject
from edgetune.self_test import SelfTest, not_written
from edgetune.subject import Events, Subject, assembled, limits_of
from edgetune.tuning.carrying import carry_over, known_to_older
from edgetune.tuning.forms.schedule_text import DIRECT, allowed_forms
from edgetune.tuning.options import TuneOptions
from edgetune.tuning.outcome import TuneOutcome
from edgetune.tuning.records import RecordStore
from edgetune.tuning.tune import tune as search


@dataclass(frozen=True)
class BuildResult:
    """A package: where it is, how large (bytes), and how many of its kernels have a measured schedule."""

    package: PackageSummary
    kernels: int
    measured_kernels: int
    reference: str

    def to_json(self) -> dict[str, object]:
        """Plain JSON values."""
        size, code = self.package.size, self.package.code
        return {
            "package": str(self.package.folder),
            "arena_bytes": size.arena_bytes,
            "arena_bound_bytes": size.bound_bytes,
            "weights_bytes": size.weights_bytes,
            "code_bytes": code.code_bytes if code else None,
            "kernels": self.kernels,
            "measured_kernels": self.measured_kernels,
            "reference": self.reference,
            "warnings": list(self.package.warnings),
        }


class VerifiedThere(Protocol):
    """Verifies a package, not yet in its place, on the board it was tuned for; False where the board was not asked."""

    def __call__(self, package: Path, *, interrupted: bool) -> bool:
        """`interrupted`: the search before was ended by the user."""
        ...


def tune_subject(
    subject: Subject, settings: Settings, events: Events, verified_there: VerifiedThere
) -> tuple[TuneOutcome, BuildResult]:
    """Searches for the fastest kernels of `subject` on the board of `settings`, then writes the package.

    `settings.model` is not read. A package that was not verified there is tested here. Raises what `build_subject`
    raises, and BoardUnavailable when the board cannot be measured from here.
    """
    program = subject.program
    _check_limits_early(program, settings)
    # Kernels are timed on one thread; in the package each thread has its own scratch.
    room = scratch_limits(program, settings.threads)
    limits = {program.kernels[i].workload: limit // settings.threads for i, limit in room.items()}
    options = TuneOptions(
        trials=settings.budget_trials,
        seconds=settings.budget_seconds,
        seed=settings.seed,
        scratch_limits=limits,
        forms=allowed_forms(settings.winograd),
        streamed=streams(program, settings.target),
    )
    if options.streamed:
        size = f"{program.constant_bytes / 1e6:.1f} MB"
        told = f"timing kernels with their weights in a cache; in a run of the package {size} of them come from memory"
        events(Event("phase", {"name": told}))
    with RecordStore.open(settings.db) as store:
        _carry_over(program, settings, store, events)
        measuring = MeasuringOptions(settings.addresses, settings.rpc, settings.min_trust)
        outcome = search(program, settings.target, store, options, events, measuring)
        apart = options.streamed or settings.threads > 1  # what kernels take alone is not what they take in a package
        here = not elsewhere(ResolvedBoard(settings.target, settings.addresses)) and not settings.target.emulated
        if apart and here and not outcome.interrupted and not rehearse_subject(subject, settings, store, events):
            outcome = replace(outcome, interrupted=True)
        self_test = SelfTest(settings.target, events)

        def check(package: Path, objects: Path) -> None:
            if not verified_there(package, interrupted=outcome.interrupted):
                self_test(package, objects)

        built = _build(subject, settings, store, events, check)
    return outcome, built


def build_subject(subject: Subject, settings: Settings, events: Events) -> BuildResult:
    """Writes the package of `subject` from the records there are; a kernel without one gets the fixed schedule.

    Raises KernelFailed, MemoryLimitExceeded, OutputRefused, DiskFull, DatabaseError, CompileFailed, SelfTestFailed,
    WrongResult, BoardBusy.
    """
    _check_limits_early(subject.program, settings)
    check = SelfTest(settings.target, events)
    if not settings.db.exists():
        events(Event("warning", {"message": f"there are no records at {settings.db}: all schedules are fixed ones"}))
        return _build(subject, settings, None, events, check)
    with RecordStore.open(settings.db, create=False) as store:
        return _build(subject, settings, store, events, check)


def _carry_over(program: Program, settings: Settings, store: RecordStore, events: Events) -> None:
    outdated = known_to_older(program.kernels, settings.target, store)
    if not outdated:
        return
    start = time.monotonic()
    events(Event("phase", {"name": f"looking at older records of {len(outdated)} kernels"}))
    carried = carry_over(outdated, settings.target, store)
    name = f"taking over {carried} records that were timed with the same C"
    events(Event("phase", {"name": name, "seconds": round(time.monotonic() - start, 3)}))


def _build(
    subject: Subject, settings: Settings, store: RecordStore | None, events: Events, check: Check
) -> BuildResult:
    forms = allowed_forms(settings.winograd)
    try:
        return _build_with(subject, settings, store, events, check, forms)
    except MemoryLimitExceeded as error:
        if settings.flash_limit is None or forms == {DIRECT}:
            raise
        # Else that error is the one to tell.
        built = _build_with(subject, settings, store, events, check, frozenset({DIRECT}))
        message = f"{error.message}; kernels are computed in their direct form, whose weights are the smallest"
        events(Event("warning", {"message": message}))
        return built


def _build_with(
    subject: Subject,
    settings: Settings,
    store: RecordStore | None,
    events: Events,
    check: Check,
    forms: frozenset[str],
) -> BuildResult:
    choices = choose(subject.program, settings.target, store, events, settings.min_trust, forms, settings.threads)
    try:
        try:
            summary = assembled(subject, settings, choices, settings.out, events, check)
        except WrongResult:
            judged = judged_by_double(subject, events)
            if judged is None:
                raise
            summary = assembled(judged, settings, choices, settings.out, events, check)
    except (SelfTestFailed, WrongResult) as error:
        names = [kernel.name for kernel in subject.program.kernels]
        raise type(error)(not_written(error, choices, names, settings)) from error
    measured = sum(choice.provenance.origin == "record" for choice in choices)
    return BuildResult(summary, len(choices), measured, subject.reference)


def _check_limits_early(program: Program, settings: Settings) -> None:
    """Refuses before the search what no schedule can make fit: scratch only adds to the arena planned here."""
    limits = limits_of(settings)
    try:
        assembly.check_limits(program, plan(program, {}), {}, limits, settings.threads)
    except MemoryLimitExceeded:
        if limits.ram is None:
            raise
        least = plan(program, {}, assembly.written_over_at_best(program, settings.target))
        assembly.check_limits(program, least, {}, limits, settings.threads)
