"""Attempt to measure one candidate on a board: copies its files, checks, times, repeats if useful, gives a verdict."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from edgetune.boards.environment import Reading, throttled
from edgetune.boards.misconduct import too_fast
from edgetune.boards.options import MeasuringOptions
from edgetune.boards.protocol import Board, RunRequest, RunResult
from edgetune.boards.round_trip import STEPS, allowed_s
from edgetune.boards.sampling import TimingPolicy
from edgetune.boards.statistics import Summary, retry_wanted, summarise
from edgetune.errors import BoardLost, ProtocolViolation
from edgetune.measure.jobs import CandidateBuild, Status
from edgetune.measure.trend import State
from edgetune.measure.trust import Conditions, Trust, trust_of

PATIENCE_S = 10.0
"""Seconds without a result, after a request's deadline and the link's round trips, that make a board lost."""

_FIRST_SHARE = 0.6  # of the timing budget; the rest is for a second attempt if the first one is noisy
_MOST_ATTEMPTS = 2
_NARROW = 0.02  # a second attempt cannot improve the grade of samples with a narrower interval
_PUT_S, _PUT_BYTES_PER_S = 60.0, 100e3
_STEP_S = 30.0
_TICK_S = 0.5
_IMPOSSIBLE = 0.5  # of the minimum time: no core is faster, so some calls did not compute
_MOST_NS = 1e15  # per call: more than a week

Refusal = Literal["", "throttled", "noisy", "trust"]


class ClosedError(Exception):
    """The session is being closed while a board measures."""


@dataclass
class Job:
    """A built candidate to measure; the paths in `request` are of this machine, times are of `time.monotonic`.

    `losses` counts the boards that were lost while measuring it; `lost_on` is the last of them.
    """

    built: CandidateBuild
    request: RunRequest
    ready: float
    again: bool = False
    started: bool = False
    losses: int = 0
    lost_on: str = ""
    queued_s: float = 0.0


@dataclass(frozen=True)
class AttemptResult:
    """The result of an attempt. `health` was read after it; `refusal` says in one word why samples are refused."""

    ran: RunResult
    status: Status
    reason: str
    summary: Summary | None
    samples: tuple[float, ...]
    attempts: int
    health: dict[str, Reading]
    trust: Trust | None = None
    refusal: Refusal = ""
    seconds: dict[str, float] = field(default_factory=dict)


class Attempt:
    """Runs requests on `board`; `mark` gets each step and its time limit in seconds; readable `stop` ends it."""

    def __init__(self, board: Board, options: MeasuringOptions, mark: Callable[[str, float], None], stop: int) -> None:
        self._board = board
        self._options = options
        self._mark = mark
        self._stop = stop

    def take(self, work: Job, canary: State) -> AttemptResult:
        """Check and time a candidate; raises BoardLost, and ClosedError when it is stopped."""
        timing = work.request.timing
        request = self.sent(replace(work.request, timing=_share(timing, _FIRST_SHARE)))
        before = self.health()
        samples: tuple[float, ...] = ()
        disturbed = 0
        spans: list[Conditions] = []
        seconds: dict[str, float] = {}
        for attempt in range(1, _MOST_ATTEMPTS + 1):
            ran = self.run(request)
            after = self.health()
            samples += ran.samples_ns
            disturbed += ran.disturbed
            for phase, value in ran.seconds.items():
                seconds[phase] = seconds.get(phase, 0.0) + value
            spans.append(Conditions(self._board.facts, before, after, canary, self._options.ceiling_c))
            taken = self._judged(ran, samples, attempt, spans, disturbed)
            least_ns = _IMPOSSIBLE * request.least_cycles * ran.cycle_ns
            if taken.summary is not None and taken.summary.median < least_ns and _is_time(self._board.facts):
                reason = too_fast(taken.summary.median, least_ns)
                return replace(taken, status="wrong_result", reason=reason, summary=None, refusal="", seconds=seconds)
            if not _worth_repeating(taken, request.best_ns):
                break
            before = after
            if taken.refusal == "throttled":  # none of the samples can be kept
                samples, spans, disturbed = (), [], 0
            request = replace(request, timing=_share(timing, 1 - _FIRST_SHARE))
        return replace(taken, seconds=seconds)

    def sent(self, request: RunRequest) -> RunRequest:
        """Copy the files of a request to the board; return the request with their paths there."""
        paths = []
        for path in (request.library, *request.arrays):
            local = Path(path)
            self._mark("put", _PUT_S + local.stat().st_size / _PUT_BYTES_PER_S)
            paths.append(self._board.put(local))
        return replace(request, library=paths[0], arrays=tuple(paths[1:]))

    def health(self) -> dict[str, Reading]:
        """Read the board's sensors."""
        self._mark("health", _STEP_S)
        return self._board.health()

    def run(self, request: RunRequest) -> RunResult:
        """Run one request, whose files are on the board, until its result or until the board counts as lost.

        Raises BoardLost, and ProtocolViolation when the reported times are impossible.
        """
        limit = request.deadline_s + allowed_s(PATIENCE_S, self._board.round_trip_s, STEPS)
        self._mark("begin", _STEP_S)
        self._board.begin(request)
        self._mark("measure", limit + PATIENCE_S)
        deadline = time.monotonic() + limit
        while (left := deadline - time.monotonic()) > 0:
            readable, _, _ = select.select([self._board.fileno(), self._stop], [], [], min(left, _TICK_S))
            if self._stop in readable:
                raise ClosedError
            ran = self._board.collect()
            if ran is not None:
                odd = [value for value in ran.samples_ns if not 0 < value <= _MOST_NS]
                if odd:
                    raise ProtocolViolation(f"board '{self._board.name}' reports that a call took {odd[0]:g} ns")
                return ran
        raise BoardLost(f"board '{self._board.name}' did not answer within {limit:.0f} s of measuring: check it")

    def _judged(
        self,
        ran: RunResult,
        samples: tuple[float, ...],
        attempts: int,
        spans: Sequence[Conditions],
        disturbed: int,
    ) -> AttemptResult:
        """Judge samples that were taken over `spans`, `disturbed` of them, under the worst conditions of all spans."""
        health = dict(spans[-1].after)
        if ran.status != "ok":
            return AttemptResult(ran, ran.status, ran.reason, None, samples, attempts, health)
        summary = summarise(samples)
        brief = ran.stopped == "slow"
        refusal, reason = _refused(spans, summary, brief=brief)
        grades = [
            trust_of(span, summary.relative_width, brief=brief, refused=reason, disturbed=disturbed / len(samples))
            for span in spans
        ]
        trust = max(grades, key=lambda one: one.grade)
        if not refusal and trust.below(self._options.min_trust):
            refusal, reason = "trust", f"trust {trust.grade} is below {self._options.min_trust}: {trust.reason}"
        if refusal:
            return AttemptResult(ran, "refused_noisy", reason, summary, samples, attempts, health, trust, refusal)
        return AttemptResult(
            ran,
            "ok",
            "far slower than the best: timed briefly" if brief else "",
            summary,
            samples,
            attempts,
            health,
            trust,
        )


def _refused(spans: Sequence[Conditions], summary: Summary, *, brief: bool) -> tuple[Refusal, str]:
    if any(throttled(span.before, span.after) for span in spans):
        return "throttled", "the core was throttled while timing"
    if summary.noisy and not brief and not _emulated_time(spans[-1].facts):
        return "noisy", f"the confidence interval of the median is {100 * summary.relative_width:.0f} % of it"
    return "", ""


def _emulated_time(facts: Mapping[str, Reading]) -> bool:
    """Whether the times come from an emulator: they always vary and get grade D at best, so none are refused."""
    return facts.get("emulated") == 1 and facts.get("clock") == "time"


def _is_time(facts: Mapping[str, Reading]) -> bool:
    """Whether the measured value is the time of a real core."""
    return facts.get("emulated") != 1 and facts.get("clock") == "time"


def _worth_repeating(taken: AttemptResult, best_ns: float) -> bool:
    """Whether to time again: the interval is too wide for the required grade, and the candidate may be the best."""
    if taken.status != "refused_noisy" or taken.summary is None or taken.attempts >= _MOST_ATTEMPTS:
        return False
    if retry_wanted(taken.summary, taken.attempts, best_ns, _MOST_ATTEMPTS):
        return True
    wide = taken.refusal == "trust" and taken.summary.relative_width > _NARROW
    return wide and (best_ns <= 0 or taken.summary.smallest < best_ns)


def _share(timing: TimingPolicy, share: float) -> TimingPolicy:
    return replace(timing, budget_ns=timing.budget_ns * share)
