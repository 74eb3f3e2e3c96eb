"""Kernel provenance: the record that won, its board, its time, and why it won."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True)
class KernelProvenance:
    """The origin of one kernel; all fields go to MANIFEST.json unchanged, so none may hold a time of day or a path.

    `origin` is "record" for a measured winner and "fixed" for the default schedule, used where there is no record.
    Times are microseconds of one call of the kernel: the median, and the ends of its confidence interval. Where the
    `clock` counted instructions, `instructions` has their number in one call, and there are no times. `trust` is the
    grade of the measurement, A to D, "" without a grade.
    `candidates` is how many correct candidates the winner was chosen from; `form` names the algorithm, "direct" for
    the operators unchanged, and `rounding` bounds the error of any other; `schedule` is a summary of the trace.
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
    form: str = "direct"
    rounding: str = ""
    schedule: str = ""
    why: str = ""
    clock: Literal["time", "instructions"] = "time"
    instructions: int | None = None
    trust: str = ""
    trust_reason: str = ""

    @property
    def cost(self) -> float | None:
        """Instructions or microseconds of one call, depending on the clock; None where nothing was measured."""
        return self.instructions if self.clock == "instructions" else self.median_us

    def amount(self) -> str:
        """Return the cost of one call as digits without a unit, "-" where it is unknown."""
        return amount(self.clock, self.cost)

    def measured_by(self) -> str:
        """Return what measured the time, for a report; states only what is known."""
        if self.origin == "fixed" or self.cost is None:
            return "not measured (default schedule)"
        graded = f", trust {self.trust}" if self.trust else ""
        return f"record {self.record} on {self.board}{graded}"

    def to_json(self) -> dict[str, object]:
        """Plain JSON values of all fields, except those of another clock."""
        absent = _TIMES if self.clock == "instructions" else ("clock", "instructions")
        return {name: value for name, value in asdict(self).items() if name not in absent}


_TIMES = ("median_us", "low_us", "high_us")


def amount(clock: str, cost: float | None) -> str:
    """Return instructions or microseconds as digits, "-" for None."""
    if cost is None:
        return "-"
    return f"{cost:,.0f}" if clock == "instructions" else f"{cost:.2f}"
