"""Search options: what the caller of `tune` decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgetune.records.ranking import GRADES
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.search.scheduler import GradientParameters
from edgetune.search.search import SearchOptions


@dataclass(frozen=True)
class TuneOptions:
    """Budget and settings of a search; most callers need only the budget.

    `trials` counts records over all tasks, including failures and those already in the store; a task without a
    finished search gets its share even where those have used them up. `seconds` is the wall-clock time of this run.
    None means no limit. `scratch_limits` maps workload hashes to bytes.
    A round measures `batch` programs of a task (fewer when the budget is small for so many tasks).
    A task ends after `empty_rounds` rounds without a new program. With `early_stopping`, the search ends when
    no task has improved for a while. `playoff` is the number of finalists per task compared at the end (0: none).
    Recorded times graded below `min_trust` (A to D) neither count nor win: their candidates are measured again.
    Only `forms` (names of algorithms) are searched and may win. `streamed`: the second cache keeps no weights from one
    run of the program to the next. With `isolated`, the search runs in a child process, so that a crash of the compiler
    stack loses nothing.
    """

    trials: int | None = None
    seconds: float | None = None
    seed: int = 0
    scratch_limits: Mapping[str, int] = field(default_factory=dict)
    batch: int = 32
    smallest_batch: int = 8
    empty_rounds: int = 2
    early_stopping: bool = False
    playoff: int = 4
    forms: frozenset[str] = frozenset(FORMS)
    streamed: bool = False
    min_trust: str = GRADES[-1]
    isolated: bool = True
    search: SearchOptions = field(default_factory=SearchOptions)
    scheduling: GradientParameters = field(default_factory=GradientParameters)
    excluded: frozenset[str] = frozenset()
    """Workloads that are not searched, because they crashed the search before."""
    salts: Mapping[str, int] = field(default_factory=dict)
    """Number per workload that changes the seed of this workload alone."""
