"""Tune and build: searches for schedules on a board, and writes the package of the best known schedules.

A self-test runs before the package is put in its place; a package that fails it is not written.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from edgetune.boards.options import MeasuringOptions
from edgetune.config.settings import Settings
from edgetune.errors import (
    MemoryLimitExceeded,
    SelfTestFailed,
    WrongResult,
)
from edgetune.events import Event
from edgetune.graph.precision import STORED
from edgetune.graph.program import Program, StateTensor
from edgetune.graph.states import with_states_overwritten
from edgetune.package.emit import PackageSummary
from edgetune.pipeline import link
from edgetune.pipeline.backends import backend_of
from edgetune.pipeline.boards import measured_boards
from edgetune.pipeline.compile_input import CompileInput, Events, assembled, device_of
from edgetune.pipeline.departure import departure_of
from edgetune.pipeline.divisions import fastest_division, search_divisions
from edgetune.pipeline.double_precision_reference import judged_by_double, judged_by_storage
from edgetune.pipeline.end_to_end_ranking import rank_end_to_end
from edgetune.pipeline.in_model_cost import streams
from edgetune.pipeline.kernel_scratch import kernel_scratch
from edgetune.pipeline.link import Choice
from edgetune.pipeline.room import Room, fitting
from edgetune.pipeline.select import choose, default_choice, imported_choice
from edgetune.pipeline.self_test import PackageCheck, SelfTest, ThereOrHere, VerifiedThere
from edgetune.records import RecordStore
from edgetune.records.database import database_exists
from edgetune.schedule.algorithms.schedule_text import allowed_algorithms
from edgetune.search.migrate import carry_over, known_to_older, outdated, still_valid
from edgetune.search.options import TuneOptions
from edgetune.search.outcome import TuneOutcome
from edgetune.search.tune import tune as search
from edgetune.target.target import with_cpu


@dataclass(frozen=True)
class PackageBuild:
    """A built package: its folder, its sizes (bytes), and how many of its kernels have a measured schedule.

    `not_tested` is the reason why its self-test did not run here, "" where it did, or ran on the board. `states` are
    what it keeps from run to run.
    """

    package: PackageSummary
    kernels: int
    measured_kernels: int
    reference: str
    not_tested: str = ""
    states: tuple[StateTensor, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Plain JSON values."""
        size, code = self.package.size, self.package.code
        states = [f"{one.name_in} ({one.nbytes:,} bytes)" for one in self.states if one.of_model]
        return {
            "package": str(self.package.folder),
            "arena_bytes": size.arena_bytes,
            "arena_bound_bytes": size.bound_bytes,
            "weights_bytes": size.weights_bytes,
            "code_bytes": code.code_bytes if code else None,
            "kernels": self.kernels,
            "measured_kernels": self.measured_kernels,
            "reference": self.reference,
            **({"states": states} if states else {}),
            **({"not_tested": self.not_tested} if self.not_tested else {}),
            "warnings": list(self.package.warnings),
        }


def tune_input(
    subject: CompileInput, settings: Settings, events: Events, verified_there: VerifiedThere
) -> tuple[TuneOutcome, PackageBuild]:
    """Searches for the fastest kernels of `subject` on the board of `settings`, then writes the package.

    `settings.model` is not read. A package that was not verified on its board is tested here. Raises what `build_input`
    raises, and BoardUnavailable when the board cannot be measured from here.
    """
    program = subject.program
    boards = measured_boards(settings)
    target = with_cpu(settings.target)
    _check_limits_early(program, settings)
    limits = {
        division.kernels[i].workload: limit
        for division in (program, *program.divisions)
        for i, limit in kernel_scratch(division, target, settings.threads, settings.arena_bytes).items()
    }
    options = TuneOptions(
        trials=settings.budget_trials,
        seconds=settings.budget_seconds,
        seed=settings.seed,
        scratch_limits=limits,
        forms=allowed_algorithms(settings.winograd),
        streamed=streams(program, target),
    )
    if options.streamed:
        size = f"{program.constant_bytes / 1e6:.1f} MB"
        told = (
            f"timing kernels with their weights in a cache; in a run of the package, {size} of weights come from memory"
        )
        events(Event("phase", {"name": told}))
    with RecordStore.open(settings.db, branch=settings.branch) as store:
        _carry_over(program, settings, store, events)
        measuring = MeasuringOptions(boards, settings.min_trust)

        def search_one(division: Program, budget: TuneOptions, told: Events) -> TuneOutcome:
            return search(division, target, store, budget, told, measuring)

        subject, outcome = search_divisions(subject, settings, store, search_one, options, events)
        apart = options.streamed or settings.threads > 1  # a kernel's time alone differs from its time in a package
        here = all(access.carrier.here for access in boards)
        if apart and here and not outcome.interrupted and not rank_end_to_end(subject, settings, store, events):
            outcome = replace(outcome, interrupted=True)
        here_tested = SelfTest(target, events)
        check = ThereOrHere(verified_there, here_tested, outcome.interrupted)
        built = _build(subject, settings, store, events, check)
    return outcome, replace(built, not_tested=here_tested.not_tested)


def build_input(subject: CompileInput, settings: Settings, events: Events) -> PackageBuild:
    """Writes the package of `subject` from existing records; a kernel without a record gets the default schedule.

    Raises KernelFailed, MemoryLimitExceeded, OutputRefused, DiskFull, DatabaseError, CompileFailed, SelfTestFailed,
    WrongResult, BoardBusy.
    """
    check = SelfTest(settings.target, events)
    return replace(_build_of_records(subject, settings, events, check), not_tested=check.not_tested)


def _build_of_records(subject: CompileInput, settings: Settings, events: Events, check: PackageCheck) -> PackageBuild:
    _check_limits_early(subject.program, settings)
    if not backend_of(settings.target).searches:
        if not database_exists(settings.db):
            return _build(subject, settings, None, events, check)
        with RecordStore.open(settings.db, create=False, branch=settings.branch) as store:
            return _build(subject, settings, store, events, check)
    if not database_exists(settings.db):
        events(
            Event("warning", {"message": f"there are no records at {settings.db}: all kernels get default schedules"})
        )
        return _build(subject, settings, None, events, check)
    target = with_cpu(settings.target)
    with RecordStore.open(settings.db, create=False, branch=settings.branch) as store:
        older = known_to_older(subject.program.kernels, target, store)
        if lost := sum(not any(still_valid(kernel, target, store)) for kernel in older):
            events(Event("warning", {"message": outdated(lost, "`edgetune tune` times them anew")}))
        return _build(subject, settings, store, events, check)


def _carry_over(program: Program, settings: Settings, store: RecordStore, events: Events) -> None:
    target = with_cpu(settings.target)
    older = known_to_older(program.kernels, target, store)
    if not older:
        return
    start = time.monotonic()
    events(Event("phase", {"name": f"checking older records of {len(older)} kernels"}))
    carried = carry_over(older, target, store)
    name = f"migrated {carried} records that were timed with the same C"
    events(Event("phase", {"name": name, "seconds": round(time.monotonic() - start, 3)}))
    if lost := known_to_older(older, target, store):
        events(Event("warning", {"message": outdated(len(lost), "this search times them anew")}))


def _build(
    subject: CompileInput, settings: Settings, store: RecordStore | None, events: Events, check: PackageCheck
) -> PackageBuild:
    first = Room(allowed_algorithms(settings.winograd), settings.arena_bytes)

    def attempt(room: Room) -> PackageBuild:
        return _build_with(subject, settings, store, events, check, room)

    if not backend_of(settings.target).searches:
        return attempt(first)
    built, room = fitting(first, device_of(settings).ram, attempt)
    if room.forms != first.forms:
        reason = room.too_large or f"the workspace may take {settings.ram_limit or 0:,} bytes"
        events(Event("warning", {"message": f"{reason}; kernels use forms with smaller weights, which are slower"}))
    if room.arena is not None:
        target = with_cpu(settings.target)
        chosen, usual = (
            choose(
                subject.program, target, store, lambda _: None, settings.min_trust, room.forms, settings.threads, one
            )
            for one in (room.arena, None)
        )
        _tell_scratch(chosen, usual, settings, events)
    return built


def _build_with(
    subject: CompileInput,
    settings: Settings,
    store: RecordStore | None,
    events: Events,
    check: PackageCheck,
    room: Room,
) -> PackageBuild:
    backend = backend_of(settings.target)
    if backend.searches:
        subject = subject if store is None else fastest_division(subject, settings, store)
        cpu = with_cpu(settings.target)
        rules = (settings.min_trust, room.forms, settings.threads, room.arena)
        choices = choose(subject.program, cpu, store, events, *rules)
    else:
        choices = _imported(subject.program, settings, store)
    try:
        try:
            summary = assembled(subject, settings, choices, settings.out, events, check)
        except WrongResult:
            judge = judged_by_storage if settings.precision in STORED else judged_by_double
            judged = judge(subject, events)
            if judged is None:
                raise
            subject = judged
            summary = assembled(subject, settings, choices, settings.out, events, check)
    except (SelfTestFailed, WrongResult) as error:
        failed = error

        def explained(package: Path, _: Path) -> None:
            where = departure_of(package, subject, failed, partial(check.layers, package))
            raise type(failed)(f"{failed.message}; {where}; nothing is written to {settings.out}") from failed

        assembled(subject, settings, choices, settings.out, lambda _: None, explained)
        raise
    measured = sum(choice.provenance.origin == "record" for choice in choices)
    return PackageBuild(summary, len(choices), measured, subject.reference, states=subject.program.states)


def _tell_scratch(chosen: Sequence[Choice], usual: Sequence[Choice], settings: Settings, events: Events) -> None:
    """A warning where kernels are others than without a limit of RAM."""
    others = sum(one.trace != other.trace for one, other in zip(chosen, usual, strict=True))
    if others:
        count = "1 kernel uses" if others == 1 else f"{others} kernels use"
        limit = f"the workspace may take {settings.ram_limit or 0:,} bytes ({settings.origins['ram']})"
        events(Event("warning", {"message": f"{count} less or more scratch memory than is usual: {limit}"}))


def _imported(program: Program, settings: Settings, store: RecordStore | None) -> list[Choice]:
    """The fastest imported record of each kernel, else its default schedule."""
    backend = backend_of(settings.target)
    choices = []
    for kernel, default in zip(program.kernels, backend.default_schedules(program, settings.target), strict=True):
        found = backend.imported_records(kernel, settings.target, store, settings.min_trust) if store else ()
        records = list(found)
        choices.append(imported_choice(kernel, records) if records else default_choice(kernel, *default))
    return choices


def _check_limits_early(program: Program, settings: Settings) -> None:
    """Fails before the search where no schedule can fit the limits: scratch only adds to the arena planned here."""
    device = device_of(settings)
    try:
        link.check_limits(program, link.plan_memory(program, {}, {}, device), {}, device)
    except MemoryLimitExceeded:
        if device.ram is None:
            raise
        over = backend_of(settings.target).in_place_at_best(program, settings.target)
        program, rest = with_states_overwritten(program, over)
        link.check_limits(program, link.plan_memory(program, {}, rest, device), {}, device)
