"""Images on a real board behind a debug probe: the image counts the cycles of its calls, and reports them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from edgetune.boards.environment import Reading
from edgetune.boards.image.parts import PROBED
from edgetune.boards.image.probe_command import run_by_probe
from edgetune.boards.image.report import ImageReport, is_report
from edgetune.boards.image.runner import ImageRun
from edgetune.target.target import Probe, Target

COUNTED_CALLS = 5
"""As in templates/image/cycles.c."""

_NS_PER_US = 1000
_CONNECT_S, _WRITTEN_BYTES_PER_S = 5.0, 10_000  # of slow probes; beyond the time that an image has
_MOST_CYCLES = (1 << 32) - 1


@dataclass(frozen=True)
class ProbedImages:
    """See `ImageRunner`; `debug_probe` reaches the board of `target`, whose core runs at its `clock_mhz`."""

    target: Target
    probe: Probe

    counting = PROBED
    counted_words = 1 + COUNTED_CALLS
    stopped = "budget"
    may_vanish = True
    remedy = (
        "see that it is connected and has power, or correct `debug_probe`, `memory_map` or the compiler's flags in its "
        "target file"
    )

    @property
    def command(self) -> str:
        """The command of the probe."""
        return self.probe.command[0]

    @property
    def facts(self) -> Mapping[str, Reading]:
        """The command of the probe, the clock that cycles are divided by, and a digest of what sets it."""
        start = hashlib.sha256(self.probe.start.encode()).hexdigest()[:16]
        return {"probe": self.probe.command[0], "clock_mhz": float(self.target.clock_mhz or 0), "start": start}

    def run(self, image: Path, identity: int, timeout_s: float, on_start: Callable[[int], None]) -> ImageRun:
        """Run an image on the board; raises BoardLost where the probe's command cannot be started."""
        command, board = self.probe.words(image), self.target.name
        timeout_s += _CONNECT_S + image.stat().st_size / _WRITTEN_BYTES_PER_S
        done = run_by_probe(board, command, image.parent, timeout_s, partial(is_report, identity=identity), on_start)
        if done.flooded:
            return ImageRun(b"", fault=f"{Path(command[0]).name} prints without end")
        if not done.ended and not done.late:
            fault = f"{Path(command[0]).name} ended with status {done.status} without a report of the image"
            return ImageRun(b"", done.last_words, fault=fault)
        reports = [line for line in done.lines if is_report(line, identity)]
        return ImageRun(b"".join(reports[:1]) + b"\n", done.last_words, done.late)

    def samples_ns(self, report: ImageReport, run: ImageRun) -> tuple[float, ...]:
        """The cycles of each counted call at the clock of the core, without those of a call that only returns."""
        del run
        if len(report.cycles) != self.counted_words:
            raise ValueError(f"its image reported {len(report.cycles)} counts instead of {self.counted_words}")
        empty, *calls = report.cycles
        calls = [cycles for cycles in calls if cycles]  # a long call is counted less often
        if _MOST_CYCLES in calls:
            raise ValueError(f"a call takes {_MOST_CYCLES} cycles or more, which an image does not count")
        return tuple(self._ns(max(1, cycles - empty)) for cycles in calls)

    def _ns(self, cycles: int) -> float:
        if self.target.clock_mhz is None:
            raise ValueError("its target file states no 'clock_mhz'")
        return cycles * _NS_PER_US / self.target.clock_mhz
