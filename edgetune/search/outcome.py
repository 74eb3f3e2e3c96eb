"""Search outcome: what a search reports when it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from edgetune.records import Record

Ending = Literal["budget", "exhausted", "excluded"]


@dataclass(frozen=True)
class TaskOutcome:
    """One task: its fastest record (None without a valid one), and the time of the default schedule.

    `records` counts all records of the task in the store, `rounds` the rounds of all runs.
    """

    workload: str
    name: str
    weight: int
    best: Record | None
    fixed_ns: float | None
    records: int
    rounds: int
    ending: Ending

    @property
    def counted(self) -> bool:
        """Whether the board counted instructions: the record stores one instruction as one nanosecond."""
        return self.best is not None and self.best.environment.get("clock") == "instructions"

    def to_json(self) -> dict[str, object]:
        """Plain JSON values; times in microseconds, or whole instructions where the board counted them."""
        return {
            "workload": self.workload,
            "name": self.name,
            "weight": self.weight,
            **_cost("best", self.best.median_ns if self.best else None, counted=self.counted),
            **_cost("fixed", self.fixed_ns, counted=self.counted),
            "records": self.records,
            "rounds": self.rounds,
            "ending": self.ending,
        }


@dataclass(frozen=True)
class TuneOutcome:
    """The whole search. Counts and times are of this run, except `records`, which the budget counts.

    `measured` includes candidates measured again, which are no new records.
    `seconds` is the time by activity: "search", "lower", "compile", "timing", "playoff" (sums over processes, so they
    may exceed `elapsed`) and "waiting" (the search was idle until measurements came).
    `ended` is why the search ended before its budget because no board was left, empty otherwise. `refused` counts
    refused candidates by reason. `programs` counts the programs that the search tried before it proposed candidates:
    those made, and those dropped, by reason; also the designs that a rule or TVM refused before. `board_counts` counts
    the events of boards by name and kind. `board_events` lists them, equal ones once ("board", "what", "times", the
    last "detail"). `boards` is the account of each board, `bottleneck` a phrase that says where their time went.
    """

    tasks: tuple[TaskOutcome, ...]
    records: int
    measured: int
    failed: Mapping[str, int]
    duplicates: int
    elapsed: float
    seconds: Mapping[str, float]
    interrupted: bool = False
    warnings: tuple[str, ...] = ()
    ended: str = ""
    refused: Mapping[str, int] = field(default_factory=dict)
    board_counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    board_events: tuple[Mapping[str, object], ...] = ()
    boards: Mapping[str, object] = field(default_factory=dict)
    bottleneck: str = ""
    programs: Mapping[str, int] = field(default_factory=dict)

    @property
    def before_ns(self) -> float | None:
        """Time of a run with the default schedules: the weighted sum over the tasks, None when one is missing."""
        return _total([(task.weight, task.fixed_ns) for task in self.tasks])

    @property
    def after_ns(self) -> float | None:
        """Time of a run with the best records."""
        return _total([(task.weight, task.best.median_ns if task.best else None) for task in self.tasks])

    @property
    def pace_per_minute(self) -> float:
        """Candidates measured per minute, including those measured again."""
        return 60 * self.measured / self.elapsed if self.elapsed > 0 else 0.0

    def to_json(self) -> dict[str, object]:
        """Plain JSON values; times of calls in microseconds (or instructions, where counted), work times in seconds."""
        counted = any(task.counted for task in self.tasks)
        return {
            **_cost("before", self.before_ns, counted=counted),
            **_cost("after", self.after_ns, counted=counted),
            "records": self.records,
            "measured": self.measured,
            "failed": dict(sorted(self.failed.items())),
            "duplicates": self.duplicates,
            "elapsed_s": round(self.elapsed, 3),
            "pace_per_minute": round(self.pace_per_minute, 1),
            "seconds": {name: round(value, 3) for name, value in sorted(self.seconds.items())},
            "interrupted": self.interrupted,
            "ended": self.ended,
            "bottleneck": self.bottleneck,
            "warnings": list(self.warnings),
            "refused": dict(self.refused),
            "programs": dict(sorted(self.programs.items())),
            "boards": {name: self.boards[name] for name in sorted(self.boards)},
            "board_counts": {name: dict(counts) for name, counts in self.board_counts.items()},
            "board_events": [dict(event) for event in self.board_events],
            "tasks": [task.to_json() for task in self.tasks],
        }


def _total(items: list[tuple[int, float | None]]) -> float | None:
    total = 0.0
    for weight, time in items:
        if time is None:
            return None
        total += weight * time
    return total


def _cost(name: str, time_ns: float | None, *, counted: bool) -> dict[str, object]:
    if counted:
        return {f"{name}_instructions": None if time_ns is None else round(time_ns)}
    return {f"{name}_us": None if time_ns is None else round(time_ns / 1000, 4)}
