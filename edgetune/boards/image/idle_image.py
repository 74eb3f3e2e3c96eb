"""Idle image: a candidate that does nothing, tried before all others to see whether images run and are counted."""

from __future__ import annotations

import tempfile
from pathlib import Path

from edgetune.boards.image.parts import build_idle
from edgetune.boards.image.trial import CurrentProcess, ImageTrial
from edgetune.boards.protocol import RunRequest
from edgetune.boards.sampling import TimingPolicy


def unfit_words(trial: ImageTrial, fault: str) -> str:
    """What is wrong where the idle image does not run because of a `fault`."""
    return f"{trial.runner.command} does not run an image that does nothing ({fault})"


def idle_fault(
    trial: ImageTrial, cache: Path | None = None, current: CurrentProcess | None = None, deadline_s: float = 30.0
) -> str:
    """Try the idle image; return why that failed, "" where it did not. Raises what building it and `run` raise.

    Its processes are noted in `current`; it has `deadline_s` seconds.
    """
    request = RunRequest(
        candidate_id="idle",
        library=str(build_idle(trial.target, cache)),
        arrays=(),
        roles=(),
        tolerances=(),
        scratch_bytes=0,
        timing=TimingPolicy(),
        deadline_s=deadline_s,
    )
    with tempfile.TemporaryDirectory(prefix="edgetune-image-") as folder:
        return trial.run(request, Path(folder), current or CurrentProcess()).reason
