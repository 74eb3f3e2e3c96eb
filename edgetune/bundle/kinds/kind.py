"""The protocol of a kind of candidates, and what its members give: compiled candidates of a kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from edgetune.target.board_kind import BoardKind
from edgetune.target.preferences import Winograd

if TYPE_CHECKING:
    from edgetune.config.settings import Settings
    from edgetune.graph.program import Kernel, Program
    from edgetune.pipeline.compile_input import Events
    from edgetune.records import RecordKey
    from edgetune.schedule.source import WeightLayout

BUNDLE = "bundle"
"""Rounds are carried to another machine and back."""

RUNNER = ("bundle/common.c", "bundle/common.h", "bundle/draw.c", "accuracy.h")
"""The files that the runners of all kinds have, below the folder of templates."""


@dataclass(frozen=True)
class PackageRules:
    """What the package allows its kernels: the largest `winograd` tiles ("off": none), and scratch of `threads`."""

    winograd: Winograd = "f4"
    threads: int = 1


@dataclass(frozen=True)
class TriedAlready:
    """What earlier rounds say of a kernel: the names of candidates that were tried, and the fastest traces.

    `times` has all traces with their median in nanoseconds (None: failed).
    """

    names: frozenset[str] = frozenset()
    fastest: tuple[str, ...] = ()
    times: tuple[tuple[str, float | None], ...] = ()


@dataclass(frozen=True)
class Compiled:
    """A candidate and what the runner needs for it.

    `name` is the hash of its text as in a record, `binary` what the runner loads, `packing` the layouts of weights by
    parameter index, `calls` the lines of the plan behind its buffers. One that `spills` is taken where there is no
    other.
    """

    name: str
    trace: str
    binary: bytes
    code_bytes: int
    scratch_bytes: int
    packing: Mapping[int, WeightLayout] = field(default_factory=dict)
    calls: tuple[str, ...] = ()
    spills: bool = False


class CandidateMaker(Protocol):
    """Makes candidates of the kernels of one program for one target."""

    def candidates(self, kernel: Kernel, most: int, seed: int, tried: TriedAlready) -> Iterator[Compiled]:
        """Yield at most `most` different candidates that compile within the target and were not tried.

        Raises CompileFailed where none does, and ToolchainMissing.
        """


class RoundHost(Protocol):
    """A machine that runs bundles at once."""

    def run(self, bundle: Path) -> None:
        """Try all candidates of a bundle that have no result yet; the results are in the bundle afterwards.

        The host holds its timing lock. Events warn of what makes times doubtful. Raises what `run_bundle`
        raises, BoardLost, and BoardBusy where another run times there for too long.
        """


class CandidateKind(Protocol):
    """A member of `KINDS`.

    `runner` names the files of its runner beside `RUNNER`, the first of which holds its `member`. `elsewhere` says how
    kernels are timed that are too large for a bundle.
    """

    name: str
    runner: tuple[str, ...]
    elsewhere: str

    def fault(self, target: BoardKind) -> str:
        """Return why no bundle can be made for `target`, as part of a sentence ("" where one can)."""

    def identity(self, target: BoardKind) -> tuple[str, str]:
        """Return the target's fingerprint and the toolchain, as in records; raises ToolchainMissing."""

    def head(self, target: BoardKind) -> str:
        """Return the words of its own in the first line of the plan."""

    def build_runner(self, target: BoardKind, folder: Path) -> None:
        """Compile the runner in `folder` as `runner`, where machines of `target` are known; raises ToolchainMissing."""

    def cold_bytes(self, target: BoardKind) -> int:
        """Return what the plan says of cold caches: 0 where they stay warm."""

    def record_key(self, kernel: Kernel, target: BoardKind) -> RecordKey:
        """Return the key of a kernel's records."""

    def maker(self, program: Program, target: BoardKind, rules: PackageRules) -> CandidateMaker:
        """Return the maker of candidates; raises ToolchainMissing."""

    def check_via(self, settings: Settings, via: str | None) -> None:
        """Refuse a way to time candidates; None is this machine. Raises UsageError and BoardUnavailable."""

    def host(self, settings: Settings, via: str | None, events: Events) -> RoundHost | None:
        """Return the host that runs rounds at once; None where they are carried. `check_via` finds no fault."""
