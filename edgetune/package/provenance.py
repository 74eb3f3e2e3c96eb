"""Kernel provenance: the record that won, its board, its time, and why it won."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class KernelProvenance:
    """The origin of one kernel; all fields go to MANIFEST.json unchanged, so none may hold a time of day or a path.

    `origin` is "record" for a measured winner and "fixed" for the default schedule, used where there is no record.
    Times are microseconds of one call of the kernel: the median, and the ends of its confidence interval. Where the
    `clock` counted instructions, `instructions` has their number in one call, and there are no times. `trust` is the
    grade of the measurement, A to D, "" without a grade.
    `candidates` is how many correct candidates the winner was chosen from; `form` names the algorithm, "direct" for
    the operators unchanged, and `rounding` bounds the error of any other; `schedule` is a summary of the trace.
    `roofline_us` is the least time that the limits of the board's core allow, `roofline_limit` names the limit that
    sets it; absent where the limits are not known. `predicted_share` is that of a default schedule: ideal cycles over
    predicted ones, 0 for plain loops, None without a prediction.
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
    roofline_us: float | None = None
    roofline_limit: str = ""
    predicted_share: float | None = None

    @property
    def cost(self) -> float | None:
        """Instructions or microseconds of one call, depending on the clock; None where nothing was measured."""
        return self.instructions if self.clock == "instructions" else self.median_us

    @property
    def roofline_share(self) -> float | None:
        """The roofline over the time; more than 1 is possible. None where either is not known."""
        if self.roofline_us is None or not self.median_us:
            return None
        return round(self.roofline_us / self.median_us, 3)

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
        """Plain JSON values of all fields, except those of another clock and limits that are not known."""
        absent = _TIMES if self.clock == "instructions" else ("clock", "instructions")
        told = {name: value for name, value in asdict(self).items() if name not in absent}
        told |= {"roofline_share": self.roofline_share}
        return {name: value for name, value in told.items() if name not in _LIMITS or value not in (None, "")}

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> KernelProvenance:
        """The provenance that `to_json` gave; raises TypeError where keys are missing or unknown."""
        return cls(**{name: value for name, value in told.items() if name != "roofline_share"})


_TIMES = ("median_us", "low_us", "high_us")
_LIMITS = ("roofline_us", "roofline_limit", "roofline_share", "predicted_share")


def amount(clock: str, cost: float | None) -> str:
    """Return instructions or microseconds as digits, "-" for None."""
    if cost is None:
        return "-"
    return f"{cost:,.0f}" if clock == "instructions" else f"{cost:.2f}"
