"""Images under a system emulator, whose plugin counts the instructions of a call: one counts as a nanosecond."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from edgetune.boards.environment import Reading
from edgetune.boards.image.emulation import emulate
from edgetune.boards.image.parts import EMULATED
from edgetune.boards.image.report import ImageReport
from edgetune.boards.image.runner import ImageRun
from edgetune.target.target import Target
from edgetune.target.tool_process import run_tool

_VERSION_S = 20.0
_REGIONS = 2  # marked in an image: a call that only returns, and the counted call of the candidate


@dataclass(frozen=True)
class EmulatedImages:
    """See `ImageRunner`; `plugin` counts what the emulator of `target` executes."""

    target: Target
    plugin: Path

    counting = EMULATED
    counted_words = 0
    stopped = "count"
    may_vanish = False
    remedy = "correct `emulator`, `memory_map` or the compiler's flags in its target file"

    @property
    def command(self) -> str:
        """The emulator."""
        return self.target.emulator[0]

    @property
    def facts(self) -> Mapping[str, Reading]:
        """The version of the emulator."""
        done = run_tool([self.target.emulator[0], "--version"], timeout_s=_VERSION_S)
        return {"emulator": (done.stdout.splitlines() or ["unknown"])[0][:64]}

    def run(self, image: Path, identity: int, timeout_s: float, on_start: Callable[[int], None]) -> ImageRun:
        """Emulate an image; raises BoardLost where the emulator does not start."""
        del identity  # all that it prints is its report
        done = emulate(self.target.name, self.target.emulator, self.plugin, image, (), timeout_s, on_start)
        if done.flooded:
            return ImageRun(b"", fault="its image prints without end")
        fault = ""
        if done.status != 0 and not done.late:
            fault = f"its image ended the emulator with status {done.status}"
        return ImageRun(done.output, done.last_words, done.late, fault, done.counts)

    def samples_ns(self, report: ImageReport, run: ImageRun) -> tuple[float, ...]:
        """The instructions of the counted call, without those of a call that only returns."""
        del report
        if len(run.counts) != _REGIONS:
            raise ValueError(f"the emulator counted {len(run.counts)} regions instead of {_REGIONS}")
        (empty, *_), (whole, *_) = run.counts
        return (float(max(1, whole - empty)),)
