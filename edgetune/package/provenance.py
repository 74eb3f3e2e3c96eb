"""Where a kernel of a package comes from: the record that won, on which board, how fast, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True)
class KernelProvenance:
    """The history of one kernel; all fields go to MANIFEST.json as they are, so none may hold a time of day or a path.

    `origin` is "record" for a measured winner and "fixed" for the schedule used where there is no record.
    Times are microseconds of one call of the kernel: the median, and the ends of its confidence interval. Where the
    `clock` counted instructions, `instructions` has their number in one call, and there are no times. `trust` is the
    grade of the measurement, A to D, "" where nobody graded it.
    `candidates` is how many correct candidates the winner was chosen from; `form` names the algorithm, "direct" for
    the operators as they stand, and `rounding` bounds the error of any other; `schedule` is the trace in short.
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
        """Instructions or microseconds of one call, as the clock has it; None where nothing was measured."""
        return self.instructions if self.clock == "instructions" else self.median_us

    def amount(self) -> str:
        """Return the cost of one call in figures, without its unit, "-" where it is not known."""
        return amount(self.clock, self.cost)

    def measured_by(self) -> str:
        """Return who measured the time, for a report: never more than is known."""
        if self.origin == "fixed" or self.cost is None:
            return "not measured (fixed schedule)"
        graded = f", trust {self.trust}" if self.trust else ""
        return f"record {self.record} on {self.board}{graded}"

    def to_json(self) -> dict[str, object]:
        """Plain JSON values, all fields but those of another clock."""
        absent = _TIMES if self.clock == "instructions" else ("clock", "instructions")
        return {name: value for name, value in asdict(self).items() if name not in absent}


_TIMES = ("median_us", "low_us", "high_us")


def amount(clock: str, cost: float | None) -> str:
    """Return instructions or microseconds in figures, "-" for None."""
    if cost is None:
        return "-"
    return f"{cost:,.0f}" if clock == "instructions" else f"{cost:.2f}"
