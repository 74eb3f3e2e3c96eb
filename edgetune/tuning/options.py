"""What the caller of `tune` decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgetune.tuning.forms.schedule_text import FORMS
from edgetune.tuning.records.ranking import GRADES
from edgetune.tuning.scheduler import GradientParameters
from edgetune.tuning.search import SearchOptions


@dataclass(frozen=True)
class TuneOptions:
    """Budget and manner of a search; only the budget matters to most.

    `trials` counts records over all tasks, those already in the store and failures included; `seconds` is the
    wall-clock time of this run; None for no limit. `scratch_limits` maps workload hashes to bytes.
    `batch` programs of a task are measured in a round (fewer when the budget is small for so many tasks).
    A task ends after `empty_rounds` rounds without a new program; with `early_stopping`, the search ends when
    no task gained for a while. `playoff` is how many of the fastest of a task are compared at the end (0: none).
    Recorded times graded below `min_trust` (A to D) neither count nor win: their candidates are measured again.
    Only `forms` (names) are searched and may win. `streamed`: the second cache keeps no weights from one run of the
    program to the next.
    With `isolated`, the search runs in a child process, so that a crash of the compiler stack loses nothing.
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
    """Changes the seed of single workloads, by a number per workload."""
