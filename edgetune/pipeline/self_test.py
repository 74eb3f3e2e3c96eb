"""Self-tests of packages that are not in their place yet: on the board they were made for, or on this machine.

Where a test fails, the same place runs the package once more, to say what each layer writes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from edgetune.boards.lock import timing_lock
from edgetune.errors import (
    BoardLost,
    CompileFailed,
    MemoryLimitExceeded,
    NothingRunsIt,
    SelfTestFailed,
    ToolchainMissing,
    ToolHung,
)
from edgetune.events import Event
from edgetune.package.counted_run import CountedRun
from edgetune.package.golden import Golden
from edgetune.pipeline.compile_input import Events
from edgetune.target.board_kind import BoardKind
from edgetune.verify.counting import counted_run
from edgetune.verify.layers import LayersRun, run_layers
from edgetune.verify.verify import CPU_TOO_OLD, verify


class PackageCheck(Protocol):
    """Tests a package that is not yet in its place."""

    def __call__(self, package: Path, objects: Path) -> CountedRun | None:
        """Test `package`, from which `objects` were compiled, and count a run of it where an emulator does.

        Raises SelfTestFailed and WrongResult.
        """

    def layers(self, package: Path, case: Golden) -> LayersRun:
        """What the layers of `package` write for the inputs of `case`, where it is tested."""


class VerifiedThere(Protocol):
    """Verifies a package, not yet in its place, on the board it was tuned for.

    `silent` is the reason why a board that this machine drives did not answer, so that it is not asked again; else "".
    """

    @property
    def silent(self) -> str:
        """See above."""

    def __call__(self, package: Path, *, interrupted: bool) -> bool:
        """Whether the board was used. `interrupted`: the user ended the search."""

    def layers(self, package: Path, case: Golden) -> LayersRun | None:
        """What the layers write there for the inputs of `case`; None where the board is not used."""


class SelfTest:
    """Runs self-tests on this machine, natively or under the emulator of `target`; reports once where it cannot.

    `not_tested` is the reason why the last package was not tested, "" where it was.
    """

    def __init__(self, target: BoardKind, events: Events) -> None:
        self._target = target
        self._events = events
        self._told = False
        self.not_tested = ""

    def __call__(self, package: Path, objects: Path) -> CountedRun | None:
        """Test `package`, from which `objects` were compiled, while no other run times here; then count a run of it.

        Raises CompileFailed, SelfTestFailed, WrongResult, and BoardBusy where another run holds the lock.
        """
        start = time.monotonic()
        self.not_tested = ""
        self._events(Event("phase", {"name": "testing the package"}))
        try:
            alone = partial(timing_lock, self._events)
            report = verify(package, target=self._target, objects=objects, alone=alone)
        except (ToolchainMissing, NothingRunsIt, MemoryLimitExceeded, BoardLost) as error:
            self._cannot(error.message)
        except SelfTestFailed as error:
            if not error.message.endswith(CPU_TOO_OLD):
                raise
            self._cannot(CPU_TOO_OLD)
        else:
            seconds = round(time.monotonic() - start, 3)
            self._events(Event("phase", {"name": f"self-test on {report.ran_on}", "seconds": seconds}))
            return self.counted(package, objects)
        return None

    def counted(self, package: Path, objects: Path) -> CountedRun | None:
        """Count a run of `package`, which has passed its self-test.

        Returns None where no emulator runs it. Where one fails to count it, an event reports why.
        """
        try:
            return counted_run(package, target=self._target, objects=objects)
        except (MemoryLimitExceeded, SelfTestFailed, ToolchainMissing, CompileFailed, ToolHung) as error:
            self._events(Event("warning", {"message": f"the instructions of layers are not counted: {error.message}"}))
            return None

    def layers(self, package: Path, case: Golden) -> LayersRun:
        """What each layer of `package` writes for the inputs of `case`; raises what `run_layers` raises."""
        return run_layers(package, case, target=self._target, alone=partial(timing_lock, self._events))

    def _cannot(self, why: str) -> None:
        self.not_tested = why
        if not self._told:
            self._told = True
            self._events(Event("warning", {"message": f"the self-test of the package does not run here: {why}"}))


@dataclass(frozen=True)
class ThereOrHere:
    """Tests on the board of a package, or else here."""

    there: VerifiedThere
    here: SelfTest
    interrupted: bool

    def __call__(self, package: Path, objects: Path) -> CountedRun | None:
        """Test there; here where the board is not used."""
        if self.there(package, interrupted=self.interrupted):
            return self.here.counted(package, objects)
        if self.there.silent:
            self.here.not_tested = self.there.silent
            return None
        return self.here(package, objects)

    def layers(self, package: Path, case: Golden) -> LayersRun:
        """What the layers write where `package` was tested."""
        return self.there.layers(package, case) or self.here.layers(package, case)
