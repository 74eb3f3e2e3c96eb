"""Ways to run an image: what starts it, and how the time of its counted calls is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from edgetune.boards.environment import Reading
from edgetune.boards.image.report import ImageReport


@dataclass(frozen=True)
class ImageRun:
    """How an image ran: `line` is what may be its report, `last_words` the last line that was printed, printable.

    `late`: it was ended at its deadline. `fault` says what ended it otherwise without a report ("": nothing known).
    `counts` are the counters of each region that an emulator counted, in order; the first counter is instructions.
    """

    line: bytes
    last_words: str = ""
    late: bool = False
    fault: str = ""
    counts: tuple[tuple[int, ...], ...] = ()


class ImageRunner(Protocol):
    """Runs images of one board.

    `counting` is the file of the harness that counts calls, `counted_words` what it adds to a report, and `stopped` why
    there are no more samples, as in `RunResult`. `may_vanish`: silence may be the board's fault, not the image's.
    """

    @property
    def counting(self) -> str:
        """As `build_harness` takes it."""

    @property
    def counted_words(self) -> int:
        """Words of cycles in a report."""

    @property
    def stopped(self) -> str:
        """One of "count" and "budget"."""

    @property
    def command(self) -> str:
        """The program that runs images."""

    @property
    def remedy(self) -> str:
        """What to do where it runs none."""

    @property
    def may_vanish(self) -> bool:
        """Whether something outside this machine runs the images."""

    @property
    def facts(self) -> Mapping[str, Reading]:
        """What it adds to the facts of the board."""

    def run(self, image: Path, identity: int, timeout_s: float, on_start: Callable[[int], None]) -> ImageRun:
        """Run an image, whose report begins with `identity`, for at most `timeout_s`.

        `on_start` gets the process group that does so. Raises BoardLost where no image can be run.
        """

    def samples_ns(self, report: ImageReport, run: ImageRun) -> tuple[float, ...]:
        """The time of each counted call in nanoseconds; raises ValueError where it is not known."""
