"""Where a kernel of a package comes from: the record that won, on which board, how fast, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class KernelProvenance:
    """The history of one kernel; all fields go to MANIFEST.json as they are, so none may hold a time of day or a path.

    `origin` is "record" for a measured winner and "fixed" for the schedule used where there is no record.
    Times are microseconds of one call of the kernel: the median, and the ends of its confidence interval.
    `candidates` is how many correct candidates the winner was chosen from; `schedule` is the trace in
    short, for reading.
    """

    workload: str
    origin: Literal["record", "fixed"]
    board: str | None = None
    record: str | None = None
    trace_sha256: str | None = None
    median_us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    samples: int = 0
    candidates: int = 0
    codegen_version: int = 0
    toolchain: str | None = None
    schedule: str = ""
    why: str = ""

    def measured_by(self) -> str:
        """Return who measured the time, for a report: never more than is known."""
        if self.origin == "fixed" or self.median_us is None:
            return "not measured (fixed schedule)"
        return f"record {self.record} on {self.board}"
