"""Divisions of a program: the same work in other kernels, compared by the measured sums of their times.

The first one is built without records; `Program.divisions` has the others. Of an expression, a formula decides which
comes first, the whole or its parts. Of a model, the first has the kernels of the partition, and the other has them
after all passes. A search times a few candidates of each, and spends the rest of its trials on the faster one. A build
compares the best records of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from edgetune.config.settings import Settings
from edgetune.errors import KernelFailed
from edgetune.events import Event
from edgetune.graph.loops import times_called
from edgetune.graph.program import Program
from edgetune.pipeline.compile_input import CompileInput, Events
from edgetune.pipeline.select import choose
from edgetune.records import RecordStore
from edgetune.schedule.algorithms.schedule_text import allowed_algorithms
from edgetune.search.counters import EventCounters
from edgetune.search.joined_outcome import joined
from edgetune.search.options import TuneOptions
from edgetune.search.outcome import TuneOutcome
from edgetune.target.target import with_cpu

_SHARE = 8
"""Each division gets this part of the budget before they are compared."""

_UNLIMITED = 16
"""Trials of a kernel before the comparison, where the budget has no number of trials."""

Search = Callable[[Program, TuneOptions, Events], TuneOutcome]


def fastest_division(subject: CompileInput, settings: Settings, store: RecordStore) -> CompileInput:
    """`subject` with the division whose best records add up to the least time; its own where none has all records."""
    programs = _all(subject.program)
    times = [_time(program, settings, store) for program in programs] if len(programs) > 1 else []
    known = [(time, number) for number, time in enumerate(times) if time is not None]
    return replace(subject, program=programs[min(known)[1]]) if known else subject


def search_divisions(
    subject: CompileInput, settings: Settings, store: RecordStore, search: Search, options: TuneOptions, events: Events
) -> tuple[CompileInput, TuneOutcome]:
    """Searches the divisions of `subject` in turn, then the fastest with the trials that are left.

    Returns the subject with that division, and the outcome of all searches together, which is the event "summary".
    With fewer trials than kernels, only the first division is searched. Raises what `search` raises; KernelFailed of
    another division than the first is a warning.
    """
    programs = _all(subject.program)
    kernels = len({kernel.workload for program in programs for kernel in program.kernels})
    if len(programs) == 1 or (options.trials is not None and options.trials < kernels):
        return subject, search(subject.program, options, events)
    counters = EventCounters()
    outcomes: list[TuneOutcome] = []

    def told(event: Event) -> None:
        if event.kind != "summary":
            counters.take(event)
            events(event)

    def whole() -> TuneOutcome:
        outcome = joined(outcomes, counters)
        events(Event("summary", outcome.to_json()))
        return outcome

    for number, program in enumerate(programs):
        events(Event("phase", {"name": f"timing {_named(program, programs)}"}))
        try:
            outcomes.append(search(program, _first(options, program), told))
        except KernelFailed as error:
            if number == 0:
                raise
            events(Event("warning", {"message": f"{_named(program, programs)} cannot be compared: {error.message}"}))
            continue
        if outcomes[-1].interrupted or outcomes[-1].ended:
            return fastest_division(subject, settings, store), whole()
    chosen = fastest_division(subject, settings, store)
    times = [_time(program, settings, store) for program in programs]
    counted = any(task.counted for outcome in outcomes for task in outcome.tasks)
    _tell(programs, chosen.program, times, "instructions" if counted else "us", events)
    outcomes.append(search(chosen.program, _rest(options, outcomes, chosen.program), told))
    return chosen, whole()


def _rest(options: TuneOptions, outcomes: Sequence[TuneOutcome], chosen: Program) -> TuneOptions:
    """What searches left of the budget; `chosen`'s own records are counted again by its search."""
    records = {task.workload: task.records for outcome in outcomes for task in outcome.tasks}
    own = {kernel.workload for kernel in chosen.kernels}
    spent = sum(count for workload, count in records.items() if workload not in own)
    seconds = sum(outcome.elapsed for outcome in outcomes)
    return replace(
        options,
        trials=None if options.trials is None else max(options.trials - spent, 0),
        seconds=None if options.seconds is None else max(options.seconds - seconds, 1.0),
    )


def _all(program: Program) -> tuple[Program, ...]:
    return (program, *program.divisions)


def _first(options: TuneOptions, program: Program) -> TuneOptions:
    """The budget of one division before the comparison: at least the default schedule of each kernel."""
    kernels = len(program.kernels)
    trials = _UNLIMITED * kernels if options.trials is None else max(kernels, options.trials // _SHARE)
    seconds = None if options.seconds is None else options.seconds / _SHARE
    return replace(options, trials=trials, seconds=seconds, playoff=0)


def _time(program: Program, settings: Settings, store: RecordStore) -> float | None:
    """The sum of the best records of the calls (us, or instructions where they are counted); None without one of them.

    Times are those of one thread.
    """
    forms = allowed_algorithms(settings.winograd)
    rules = (settings.min_trust, forms, 1, settings.arena_bytes)
    choices = choose(program, with_cpu(settings.target), store, lambda _: None, *rules)
    costs = [choice.provenance.median_us or choice.provenance.instructions for choice in choices]
    known = [
        cost * times_called(program, number)
        for number, call in enumerate(program.calls)
        if (cost := costs[call.kernel]) is not None
    ]
    return sum(known) if len(known) == len(program.calls) else None


def _tell(
    programs: Sequence[Program], chosen: Program, times: Sequence[float | None], unit: str, events: Events
) -> None:
    said = [
        f"{_named(program, programs)} {'have no time' if time is None else f'{time:.2f} {unit}'}"
        for program, time in zip(programs, times, strict=True)
    ]
    events(
        Event("phase", {"name": f"best times: {', '.join(said)}; the search goes on with {_named(chosen, programs)}"})
    )


def _named(program: Program, programs: Sequence[Program]) -> str:
    """A division in words: by the number of its kernels, or else by those that the first one has in another form."""
    count = len(program.kernels)
    words = "one kernel" if count == 1 else f"{count} kernels"
    if [len(one.kernels) for one in programs].count(count) == 1:
        return words
    first = {kernel.workload for kernel in programs[0].kernels}
    if program is programs[0]:
        return f"{words} as they are"
    other = [kernel.name for kernel in program.kernels if kernel.workload not in first]
    return f"{words} with {', '.join(other)} after the passes"
