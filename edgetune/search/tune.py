"""`tune`: the entry point of the search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from edgetune.boards.options import MeasuringOptions
from edgetune.events import Event
from edgetune.graph.program import Program
from edgetune.measure.jobs import first_constants
from edgetune.records import RecordStore
from edgetune.search.options import TuneOptions
from edgetune.search.outcome import TuneOutcome
from edgetune.search.search_process import SearchSetup, search
from edgetune.search.supervise import SupervisedSearch
from edgetune.target.programs import require_programs
from edgetune.target.target import Target


def tune(
    program: Program,
    target: Target,
    store: RecordStore,
    options: TuneOptions,
    events: Callable[[Event], None],
    measuring: MeasuringOptions,
) -> TuneOutcome:
    """Search for fast schedules of the program's kernels by timing them on `target`; all results go to `store`.

    `measuring` has the boards, at least one, and the trust that their times need.
    Ends when the budget of `options` is used, when nothing new is left to try, or at Ctrl-C (`interrupted` in the
    outcome). Called again with the same arguments it continues from there, however it ended. Raises
    ToolchainMissing, BoardUnavailable, DiskFull, DatabaseError, and KernelFailed when a kernel cannot be measured.
    """
    require_programs(program for access in measuring.boards for program in access.programs)
    options = replace(options, min_trust=measuring.min_trust)
    setup = SearchSetup(
        program.kernels,
        target,
        store.location,
        options,
        constants=first_constants(program),
        measuring=measuring,
        branch=store.branch,
    )
    if options.isolated:
        return SupervisedSearch(setup, events).run()
    return search(setup, events, lambda _: None)
