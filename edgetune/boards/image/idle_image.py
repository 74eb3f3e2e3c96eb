"""Idle image: a candidate that does nothing, tried before all others to see whether images run and are counted."""

from __future__ import annotations

import tempfile
from pathlib import Path

from edgetune.boards.image.parts import build_idle
from edgetune.boards.image.trial import CurrentProcess, ImageTrial
from edgetune.boards.protocol import RunRequest
from edgetune.boards.sampling import TimingPolicy

_DEADLINE_S = 30.0


def idle_fault(trial: ImageTrial, cache: Path | None = None) -> str:
    """Try the idle image; return why that failed, "" where it did not. Raises what building it and `run` raise."""
    request = RunRequest(
        candidate_id="idle",
        library=str(build_idle(trial.target, cache)),
        arrays=(),
        roles=(),
        tolerances=(),
        scratch_bytes=0,
        timing=TimingPolicy(),
        deadline_s=_DEADLINE_S,
    )
    with tempfile.TemporaryDirectory(prefix="edgetune-image-") as folder:
        return trial.run(request, Path(folder), CurrentProcess()).reason
