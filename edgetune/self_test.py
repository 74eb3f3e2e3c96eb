"""The self-test of a package before it is put in its place: what fails it is not written."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from edgetune.assembly import Choice
from edgetune.config.settings import Settings
from edgetune.config.target import Target
from edgetune.errors import EdgetuneError, SelfTestFailed, ToolchainMissing
from edgetune.events import Event
from edgetune.measure.lock import timing_lock
from edgetune.package.verify import CPU_TOO_OLD, verify
from edgetune.subject import Events

_SHOWN = 3


class SelfTest:
    """Runs self-tests on this machine, natively or under the emulator of `target`; says once where it cannot."""

    def __init__(self, target: Target, events: Events) -> None:
        self._target = target
        self._events = events
        self._told = False

    def __call__(self, package: Path, objects: Path) -> None:
        """Test `package`, of which `objects` were compiled, while no other run times here.

        Raises CompileFailed, SelfTestFailed, WrongResult, and BoardBusy where another run keeps the lock.
        """
        start = time.monotonic()
        self._events(Event("phase", {"name": "testing the package"}))
        try:
            alone = partial(timing_lock, self._events)
            report = verify(package, target=self._target, objects=objects, alone=alone)
        except ToolchainMissing as error:
            self._cannot(error.message)
        except SelfTestFailed as error:
            if not error.message.endswith(CPU_TOO_OLD):
                raise
            self._cannot(CPU_TOO_OLD)
        else:
            seconds = round(time.monotonic() - start, 3)
            self._events(Event("phase", {"name": f"self-test on {report.ran_on}", "seconds": seconds}))

    def _cannot(self, why: str) -> None:
        if not self._told:
            self._told = True
            self._events(Event("warning", {"message": f"the self-test of the package is not run here: {why}"}))


def not_written(error: EdgetuneError, choices: Sequence[Choice], kernels: Sequence[str], settings: Settings) -> str:
    """What to say of a package that failed its self-test: that there is none, and which kernels were never measured."""
    fixed = [n for n, choice in zip(kernels, choices, strict=True) if choice.provenance.origin != "record"]
    said = f"{error.message}; nothing is written to {settings.out}"
    if not fixed:
        return f"{said}, though all kernels have a record: please report it with the model"
    more = f" and {len(fixed) - _SHOWN} more" if len(fixed) > _SHOWN else ""
    names = ", ".join(fixed[:_SHOWN]) + more
    return f"{said}: no record of {names} is right, nor is the fixed schedule; a longer `edgetune tune` may find one"
