"""Interface between a measuring session and a board of any kind; requests and results are plain data, picklable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from edgetune.boards.environment import Reading
from edgetune.graph.accuracy import Tolerance

if TYPE_CHECKING:
    from edgetune.boards.sampling import TimingPolicy


class Board(Protocol):
    """A board takes one candidate at a time.

    Every call has a time limit, and may raise BoardLost. Calls come from one thread at a time, not always the same one,
    so they may block. `close` comes last, maybe while another call hangs, which it ends.
    """

    @property
    def name(self) -> str:
        """Name of the board in records."""

    @property
    def facts(self) -> Mapping[str, Reading]:
        """Facts that do not change, complete after `reserve`.

        `emulated` is 0 or 1, `clock` is "time" or "instructions" (one instruction counts as a nanosecond); the rest is
        what the board reports (`machine`, `kernel`, `libc`, ...).
        """

    @property
    def round_trip_s(self) -> float:
        """Latest round-trip time to the board in seconds; 0 on this machine. May be read from any thread."""

    def reserve(self) -> None:
        """Wait for exclusive use of the board, before each candidate; raises BoardUnavailable after a time."""

    def put(self, path: Path) -> str:
        """Copy a file to the board; return its path there."""

    def begin(self, request: RunRequest) -> None:
        """Start to check and time a candidate."""

    def fileno(self) -> int:
        """Descriptor that becomes readable when `collect` has something."""

    def collect(self, timeout_s: float = 0.0) -> RunResult | None:
        """Return the result if it arrives within `timeout_s`; there is always one soon after the deadline."""

    def health(self) -> dict[str, Reading]:
        """Read governor, clock, temperature, load, as far as the board has them; keys as in `boards.environment`."""

    def recover(self) -> None:
        """Recover a board that misbehaves, until it takes candidates again; raises BoardLost when nothing helps."""

    def release(self) -> None:
        """Let others use the board, after each candidate; where reserving is expensive, it is kept until `close`."""

    def close(self) -> None:
        """End everything that was started there, and remove all files."""


RunStatus = Literal["ok", "wrong_result", "crashed", "timeout", "build_failed"]


PART = "part"
"""Role of an output with gaps: the reference has bytes of `gap_fill` there, and a candidate must not change them."""


OUTPUTS = ("output", PART)
"""Roles of the arrays that a candidate writes; they are compared with the reference."""


def gap_fill(dtype: str) -> int:
    """Return the byte that fills the gaps of an output, chosen so that any write there exceeds the tolerance.

    For integers, it is not adjacent to 0 or to either end of the range, because quantised kernels write those most
    often. For all other types it is 255, which makes a NaN of a float.
    """
    return 0x5A if dtype.startswith(("int", "uint")) else 0xFF


@dataclass(frozen=True)
class RunRequest:
    """One candidate to check and time: `arrays`, `roles` and `tolerances` as in `Case`, weights already packed.

    `best_ns` is the best time of this kernel so far (0: none). `deadline_s` limits the wall time of the whole request,
    after which it is killed; `memory_bytes` is the address space that it may take in addition to the runner's. `seed`
    selects the calls that are watched (`sampling`); the candidate cannot know it. A time below half of `least_cycles`
    is refused (0: no time is refused).
    """

    candidate_id: str
    library: str
    arrays: tuple[str, ...]
    roles: tuple[str, ...]
    tolerances: tuple[Tolerance | None, ...]
    scratch_bytes: int
    timing: TimingPolicy
    best_ns: float = 0.0
    deadline_s: float = 10.0
    memory_bytes: int = 2 << 30
    seed: int = 0
    least_cycles: float = 0.0


@dataclass(frozen=True)
class RunResult:
    """The result of a `RunRequest`. `samples_ns` are nanoseconds per call, in order of measuring.

    `error_relative` (of the largest reference value) is that of the worst output. `stopped` is
    the reason why sampling ended: "narrow", "budget", "slow" or "count". `seconds` has "load", "check", "time", and
    "process" (starting and ending its process), where known. `disturbed` is the number of samples during which another
    thread of the core was busy, as far as that was observed. `cycle_ns` is the duration of a cycle of the core right
    after the timing, in nanoseconds (0: not measured).
    """

    candidate_id: str
    status: RunStatus
    reason: str = ""
    samples_ns: tuple[float, ...] = ()
    repeat: int = 0
    stopped: str = ""
    error_relative: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)
    disturbed: int = 0
    cycle_ns: float = 0.0
