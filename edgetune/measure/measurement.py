"""The result of a measuring session for one candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgetune.boards.environment import Reading
from edgetune.boards.statistics import Summary
from edgetune.measure.attempt import AttemptResult
from edgetune.measure.jobs import CandidateBuild, Status


@dataclass(frozen=True)
class MeasureStart:
    """Sent right before a candidate is run for the first time."""

    job_id: str
    kernel_key: str
    candidate_id: str


@dataclass(frozen=True)
class Measurement:
    """The result of a job. `summary` (nanoseconds per call) is present for "ok" and "refused_noisy" only.

    `samples_ns` are all raw samples. `seconds` maps phases (`accounting.PHASES`)
    to durations, `board` is the name of the board that measured it. `environment` holds that board's facts, its
    readings after the timing, and how far these let the time be trusted (`trust`, `trust_reason`).
    """

    job_id: str
    kernel_key: str
    status: Status
    reason: str = ""
    candidate_id: str | None = None
    summary: Summary | None = None
    samples_ns: tuple[float, ...] = ()
    error_relative: float = 0.0
    scratch_bytes: int = 0
    code_bytes: int = 0
    board: str = ""
    lost_boards: int = 0
    environment: Mapping[str, Reading] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)


def measured(
    built: CandidateBuild, taken: AttemptResult, board: str, facts: Mapping[str, Reading], seconds: Mapping[str, float]
) -> Measurement:
    """Return the measurement of a candidate after its attempt on `board`; `seconds` were spent before the attempt."""
    trust = {} if taken.trust is None else {"trust": taken.trust.grade, "trust_reason": taken.trust.reason}
    return Measurement(
        job_id=built.job_id,
        kernel_key=built.kernel_key,
        status=taken.status,
        reason=taken.reason,
        candidate_id=built.candidate_id,
        summary=taken.summary,
        samples_ns=taken.samples,
        error_relative=taken.ran.error_relative,
        scratch_bytes=built.scratch_bytes,
        code_bytes=built.code_bytes,
        board=board,
        environment={"clock": "time", **facts, **taken.health, **trust},
        seconds={**seconds, **taken.seconds},
    )


def unmeasured(
    built: CandidateBuild, status: Status, reason: str, board: str = "", lost_boards: int = 0
) -> Measurement:
    """Return the measurement of a candidate that never ran, or that lost its boards, the last of them `board`."""
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
