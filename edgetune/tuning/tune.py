"""`tune`: the door to this room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from edgetune.config.programs import measuring_programs, require_programs
from edgetune.config.target import Target
from edgetune.config.toolchain import require_measurable
from edgetune.events import Event
from edgetune.graph.program import Program
from edgetune.measure.jobs import first_constants
from edgetune.measure.options import MeasuringOptions
from edgetune.tuning.options import TuneOptions
from edgetune.tuning.outcome import TuneOutcome
from edgetune.tuning.records import RecordStore
from edgetune.tuning.search_process import SearchSetup, search
from edgetune.tuning.supervise import SupervisedSearch


def tune(
    program: Program,
    target: Target,
    store: RecordStore,
    options: TuneOptions,
    events: Callable[[Event], None],
    measuring: MeasuringOptions | None = None,
) -> TuneOutcome:
    """Search for fast schedules of the program's kernels by timing them on `target`; all results go to `store`.

    `measuring` has the boards' addresses and how far their times must be trusted.
    Ends when the budget of `options` is used, or nothing new is left to try, or at Ctrl-C (`interrupted` in the
    outcome). Called again with the same arguments it goes on where it ended, however that was. Raises
    ToolchainMissing, BoardUnavailable, DiskFull, DatabaseError, and KernelFailed when a kernel cannot be measured.
    """
    measuring = measuring or MeasuringOptions()
    require_measurable(target, measuring.addresses)
    require_programs(measuring_programs(target))
    options = replace(options, min_trust=measuring.min_trust)
    setup = SearchSetup(
        program.kernels, target, store.path, options, constants=first_constants(program), measuring=measuring
    )
    if options.isolated:
        return SupervisedSearch(setup, events).run()
    return search(setup, events, lambda _: None)
