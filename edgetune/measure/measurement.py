"""What a measuring session says about one candidate, and how it comes to its verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgetune.measure.environment import Reading, throttled
from edgetune.measure.jobs import BuildResult, RunRequest, RunResult, Status
from edgetune.measure.statistics import Summary, summarise


@dataclass(frozen=True)
class MeasureStart:
    """Told right before a candidate is run for the first time."""

    job_id: str
    kernel_key: str
    candidate_id: str


@dataclass(frozen=True)
class Measurement:
    """What became of a job. `summary` (nanoseconds per call) is there for "ok" and "refused_noisy" only.

    `samples_ns` are all raw samples, `attempts` how often it was timed. `seconds` tells phases by `accounting.PHASES`,
    `environment` the board's readings after the timing.
    """

    job_id: str
    kernel_key: str
    status: Status
    reason: str = ""
    candidate_id: str | None = None
    summary: Summary | None = None
    samples_ns: tuple[float, ...] = ()
    attempts: int = 0
    error_absolute: float = 0.0
    error_relative: float = 0.0
    scratch_bytes: int = 0
    code_bytes: int = 0
    environment: Mapping[str, Reading] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)


class Running:
    """The candidate on the board, and what earlier attempts gave."""

    def __init__(
        self, built: BuildResult, request: RunRequest, seconds: dict[str, float], health: dict[str, Reading]
    ) -> None:
        self.built = built
        self.request = request
        self.seconds = seconds
        self.health = health
        self.samples: tuple[float, ...] = ()
        self.attempts = 0

    def add(self, ran: RunResult) -> None:
        """Take in the runner's answer to one attempt."""
        self.attempts += 1
        self.samples += ran.samples_ns
        for phase, value in ran.seconds.items():
            self.seconds[phase] = self.seconds.get(phase, 0.0) + value

    def verdict(self, ran: RunResult, health: dict[str, Reading]) -> tuple[Status, str, Summary | None]:
        """Return status, reason and statistics after the last attempt; `health` is read after it."""
        if ran.status != "ok":
            return ran.status, ran.reason, None
        summary = summarise(self.samples)
        if throttled(self.health, health):
            return "refused_noisy", "the core was throttled while timing", summary
        if summary.noisy and ran.stopped != "slow":
            width = f"{100 * summary.relative_width:.0f} %"
            return "refused_noisy", f"the confidence interval of the median is {width} of it", summary
        return "ok", "hopeless: timed briefly" if ran.stopped == "slow" else "", summary


def unmeasured(built: BuildResult, status: Status, reason: str) -> Measurement:
    """Return the measurement of a candidate that was never run."""
    return Measurement(
        built.job_id,
        built.kernel_key,
        status,
        reason,
        built.candidate_id,
        scratch_bytes=built.scratch_bytes,
        code_bytes=built.code_bytes,
        seconds=built.seconds,
    )
