"""What a measuring session says about one candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgetune.measure.environment import Reading
from edgetune.measure.jobs import BuildResult, Status
from edgetune.measure.statistics import Summary
from edgetune.measure.turn import Taken


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
    `board` is the name of the board that had it, `environment` that board's facts, its readings after the timing, and
    how far they let the time be trusted (`trust`, `trust_reason`).
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
    board: str = ""
    lost_boards: int = 0
    environment: Mapping[str, Reading] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)


def measured(
    built: BuildResult, taken: Taken, board: str, facts: Mapping[str, Reading], seconds: Mapping[str, float]
) -> Measurement:
    """Return the measurement of a candidate that had its turn on `board`; `seconds` were spent before it."""
    trust = {} if taken.trust is None else {"trust": taken.trust.grade, "trust_reason": taken.trust.reason}
    return Measurement(
        job_id=built.job_id,
        kernel_key=built.kernel_key,
        status=taken.status,
        reason=taken.reason,
        candidate_id=built.candidate_id,
        summary=taken.summary,
        samples_ns=taken.samples,
        attempts=taken.attempts,
        error_absolute=taken.ran.error_absolute,
        error_relative=taken.ran.error_relative,
        scratch_bytes=built.scratch_bytes,
        code_bytes=built.code_bytes,
        board=board,
        environment={"clock": "time", **facts, **taken.health, **trust},
        seconds={**seconds, **taken.seconds},
    )


def unmeasured(built: BuildResult, status: Status, reason: str, board: str = "", lost_boards: int = 0) -> Measurement:
    """Return the measurement of a candidate that was never run, or that lost its boards, the last of them `board`."""
    return Measurement(
        built.job_id,
        built.kernel_key,
        status,
        reason,
        built.candidate_id,
        scratch_bytes=built.scratch_bytes,
        code_bytes=built.code_bytes,
        board=board,
        lost_boards=lost_boards,
        seconds=built.seconds,
    )
