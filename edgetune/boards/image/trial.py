"""Trial of one candidate: links its image, emulates it, and says what that means; runs in a thread of its own."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path

from edgetune.boards import misconduct
from edgetune.boards.image.emulation import Emulation, emulate
from edgetune.boards.image.linking import CannotLinkError, DoesNotFitError, link_image
from edgetune.boards.image.parameters import image_parameters
from edgetune.boards.image.report import CallVerdict, ImageReport, read_report
from edgetune.boards.protocol import RunRequest, RunResult, RunStatus
from edgetune.errors import ToolHung
from edgetune.ipc.process_group import kill_group
from edgetune.target.target import Target

_REASON = 1000
_REGIONS = 2  # marked in an image: a call that only returns, and the counted call of the candidate


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
    """How candidates of `target` are tried: `harness` is linked into each image, `plugin` counts."""

    target: Target
    harness: Path
    plugin: Path

    def run(self, request: RunRequest, folder: Path, current: CurrentProcess) -> RunResult:
        """Try a candidate with files in `folder`; each process that runs is noted in `current`.

        Raises BoardLost where the emulator does not start, ToolchainMissing, and DiskFull.
        """
        seconds: dict[str, float] = {}
        started = time.monotonic()
        try:
            parameters = image_parameters(request)
            image = link_image(
                self.target,
                self.harness,
                Path(request.library),
                parameters,
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
        emulated = emulate(self.target.name, self.target.emulator, self.plugin, image, (), left, current.begins)
        seconds["time"] = time.monotonic() - began
        return _result(request, emulated, seconds)


def _result(request: RunRequest, emulated: Emulation, seconds: dict[str, float]) -> RunResult:
    report = read_report(emulated.output, len(request.arrays))
    if report is None or emulated.status != 0:
        return _unreported(request, emulated)
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
    if len(emulated.counts) != _REGIONS:
        return _ended(request, "crashed", f"the emulator counted {len(emulated.counts)} regions instead of {_REGIONS}")
    (empty, *_), (whole, *_) = emulated.counts
    return RunResult(
        request.candidate_id,
        "ok",
        samples_ns=(float(max(1, whole - empty)),),
        repeat=1,
        stopped="count",
        error_relative=report.worst_relative,
        seconds=seconds,
    )


def _unreported(request: RunRequest, emulated: Emulation) -> RunResult:
    """The result of an image that did not report: it hung, printed something else, or ended the emulator."""
    if emulated.late:
        return _ended(request, "timeout", f"still in phase 'time' after {request.deadline_s:g} s")
    if emulated.flooded:
        return _ended(request, "crashed", "its image prints without end")
    said = f" ({emulated.last_words})" if emulated.last_words else ""
    if emulated.status != 0:
        return _ended(request, "crashed", f"its image ended the emulator with status {emulated.status}{said}")
    return _ended(request, "crashed", f"its image printed something else than a report{said}")


def _moment(report: ImageReport) -> str:
    return misconduct.in_call(report.call) if report.call > 1 else ""


def _ended(request: RunRequest, status: RunStatus, reason: str) -> RunResult:
    return RunResult(request.candidate_id, status, reason[:_REASON])
