"""Trial of one candidate: links its image, runs it, and says what that means; runs in a thread of its own."""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from edgetune.boards import misconduct
from edgetune.boards.image.linking import CannotLinkError, DoesNotFitError, link_image
from edgetune.boards.image.parameters import image_parameters
from edgetune.boards.image.report import CallVerdict, ImageReport, read_report
from edgetune.boards.image.runner import ImageRun, ImageRunner
from edgetune.boards.protocol import RunRequest, RunResult, RunStatus
from edgetune.errors import ToolHung
from edgetune.ipc.process_group import kill_group
from edgetune.target.target import Target

_REASON = 1000


class CurrentProcess:
    """The process group that a trial runs now, so that another thread can end the trial."""

    def __init__(self) -> None:
        self._group = 0
        self._stopped = False
        self._lock = threading.Lock()

    def begins(self, group: int) -> None:
        """Note a process group; it is ended at once where the trial was stopped."""
        with self._lock:
            self._group = group
            if self._stopped:
                kill_group(group)

    def stop(self) -> None:
        """End the process group, and any that follows."""
        with self._lock:
            self._stopped = True
            if self._group:
                kill_group(self._group)


@dataclass(frozen=True)
class ImageTrial:
    """How candidates of `target` are tried: `harness` is linked into each image, `runner` runs it."""

    target: Target
    harness: Path
    runner: ImageRunner

    def run(self, request: RunRequest, folder: Path, current: CurrentProcess) -> RunResult:
        """Try a candidate with files in `folder`; each process that runs is noted in `current`.

        Raises BoardLost where the image cannot be run, ToolchainMissing, and DiskFull.
        """
        seconds: dict[str, float] = {}
        started = time.monotonic()
        identity = secrets.randbits(32)
        try:
            parameters = image_parameters(request)
            image = link_image(
                self.target,
                self.harness,
                Path(request.library),
                parameters,
                identity,
                folder,
                request.deadline_s,
                current.begins,
            )
        except ToolHung:
            return _ended(request, "timeout", f"still in phase 'load' after {request.deadline_s:g} s")
        except (DoesNotFitError, ValueError) as error:
            return _ended(request, "crashed", str(error))
        except CannotLinkError as error:
            return _ended(request, "build_failed", f"cannot be loaded: {error}")
        seconds["load"] = time.monotonic() - started
        began = time.monotonic()
        left = max(0.1, request.deadline_s - seconds["load"])
        ran = self.runner.run(image, identity, left, current.begins)
        seconds["time"] = time.monotonic() - began
        report = read_report(ran.line, identity, len(request.arrays), self.runner.counted_words)
        if report is None or ran.fault:
            return _unreported(request, ran, seconds["time"] if self.runner.may_vanish else 0.0)
        return self._result(request, ran, report, seconds)

    def _result(self, request: RunRequest, ran: ImageRun, report: ImageReport, seconds: dict[str, float]) -> RunResult:
        if report.verdict in {CallVerdict.FAULT, CallVerdict.STACK}:
            return _ended(request, "crashed", report.reason)
        if report.verdict != CallVerdict.RIGHT:
            return RunResult(
                request.candidate_id,
                "wrong_result",
                _moment(report) + report.reason,
                error_relative=report.worst_relative,
                seconds=seconds,
            )
        try:
            samples = self.runner.samples_ns(report, ran)
        except ValueError as error:
            return _ended(request, "crashed", str(error))
        return RunResult(
            request.candidate_id,
            "ok",
            samples_ns=samples,
            repeat=1,
            stopped=self.runner.stopped,
            error_relative=report.worst_relative,
            seconds=seconds,
        )


def _unreported(request: RunRequest, ran: ImageRun, waited_s: float) -> RunResult:
    """The result of an image that did not report: it hung, printed something else, or ended what runs it."""
    if ran.late:
        return _ended(request, "timeout", f"still in phase 'time' after {max(request.deadline_s, waited_s):.3g} s")
    said = f" ({ran.last_words})" if ran.last_words else ""
    if ran.fault:
        return _ended(request, "crashed", f"{ran.fault}{said}")
    return _ended(request, "crashed", f"its image printed something else than its report{said}")


def _moment(report: ImageReport) -> str:
    return misconduct.in_call(report.call) if report.call > 1 else ""


def _ended(request: RunRequest, status: RunStatus, reason: str) -> RunResult:
    return RunResult(request.candidate_id, status, reason[:_REASON])
