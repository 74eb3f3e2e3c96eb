"""Board without operating system, emulated here: implements `Board` for a measuring session."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from edgetune.boards.environment import Reading
from edgetune.boards.host_resources import HostResources
from edgetune.boards.image.idle_image import idle_fault
from edgetune.boards.image.parts import build_harness, build_regions_plugin
from edgetune.boards.image.trial import CurrentProcess, ImageTrial
from edgetune.boards.protocol import RunRequest, RunResult
from edgetune.errors import BoardLost, BoardUnfit, EdgetuneError
from edgetune.ipc.wakeup_descriptor import WakeupDescriptor
from edgetune.target.programs import emulator_of, require_programs
from edgetune.target.target import Target
from edgetune.target.tool_process import run_tool

_VERSION_S = 20.0
_END_S = 35.0  # for the thread of a trial whose processes were killed


class _Running:
    """A trial in its thread; `bell` rings when it has ended, with a result or with an error."""

    def __init__(self, trial: ImageTrial, request: RunRequest, folder: Path, bell: WakeupDescriptor) -> None:
        self.result: RunResult | None = None
        self.error: Exception | None = None
        self._current = CurrentProcess()
        self._thread = threading.Thread(
            target=self._run, args=(trial, request, folder, bell), name="edgetune-image", daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        """Kill its processes and wait for its thread."""
        self._current.stop()
        self._thread.join(_END_S)

    @property
    def ended(self) -> bool:
        """Whether there is a result or an error."""
        return self.result is not None or self.error is not None

    def join(self, timeout_s: float) -> None:
        """Wait for the thread, up to `timeout_s`."""
        self._thread.join(timeout_s)

    def _run(self, trial: ImageTrial, request: RunRequest, folder: Path, bell: WakeupDescriptor) -> None:
        try:
            self.result = trial.run(request, folder, self._current)
        except Exception as error:  # noqa: BLE001  raised again by `collect`
            self.error = error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            bell.ring()


class ImageBoard:
    """Tries candidates as images under the emulator of `target`; counts do not depend on what else runs here.

    `cache` keeps the compiled harness and plugin. After `reserve`, `facts` has the version of the emulator.
    """

    round_trip_s = 0.0  # it is this machine

    def __init__(self, target: Target, host: HostResources, cache: Path | None = None) -> None:
        self.name = target.name
        self.facts: Mapping[str, Reading] = {
            "emulated": int(target.emulated),
            "clock": target.clock,
            "machine": target.instruction_set.machine,
        }
        self._target, self._host, self._cache = target, host, cache
        self._trial: ImageTrial | None = None
        self._folder: Path | None = None
        self._running: _Running | None = None
        self._bell = WakeupDescriptor()
        self._closed = False

    def reserve(self) -> None:
        """Compile harness and plugin before the first candidate, and see that an image runs.

        Raises ToolchainMissing, DiskFull, BoardLost, and BoardUnfit where the emulator does not run and count images.
        """
        if self._closed:
            raise BoardLost(f"board '{self.name}' was closed")
        if self._trial is not None:
            return
        require_programs(emulator_of(self._target))
        harness, plugin = build_harness(self._target, self._cache), build_regions_plugin(self._cache)
        if self._closed:  # meanwhile, by another thread
            raise BoardLost(f"board '{self.name}' was closed")
        trial = ImageTrial(self._target, harness, plugin)
        if fault := idle_fault(trial, self._cache):
            raise BoardUnfit(
                f"board '{self.name}': {self._target.emulator[0]} does not run an image that does nothing ({fault}): "
                "correct `emulator`, `memory_map` or the compiler's flags in its target file"
            )
        self._folder = Path(tempfile.mkdtemp(prefix="images-", dir=self._host.folder))
        self.facts = {**self.facts, "emulator": self._emulator_version()}
        self._trial = trial

    def put(self, path: Path) -> str:
        """Return the path itself: images are linked on this machine."""
        return str(path)

    def begin(self, request: RunRequest) -> None:
        """Start to link and emulate the image of a candidate."""
        if self._running is not None:
            raise ValueError(f"board '{self.name}' is busy")
        if self._trial is None or self._folder is None:
            raise BoardLost(f"board '{self.name}' was never reserved, or was closed")
        self._running = _Running(self._trial, request, Path(tempfile.mkdtemp(dir=self._folder)), self._bell)

    def fileno(self) -> int:
        """Descriptor that is readable when a trial has ended."""
        return self._bell.fileno()

    def collect(self, timeout_s: float = 0.0) -> RunResult | None:
        """Return the result if it is there within `timeout_s`; raises BoardLost where the emulator does not start."""
        running = self._running
        if running is None:
            return None
        running.join(timeout_s)
        if not running.ended:
            return None
        running.join(_END_S)
        self._running = None
        if self._closed:  # meanwhile, by another thread, and the bell with it
            raise BoardLost(f"board '{self.name}' was closed")
        self._bell.hush()
        if running.error is None:
            return running.result
        if isinstance(running.error, EdgetuneError):
            raise BoardLost(f"board '{self.name}': {running.error.message}") from running.error
        raise running.error

    def health(self) -> dict[str, Reading]:
        """Return nothing: counts depend on no condition."""
        return {}

    def recover(self) -> None:
        """End the current trial; the next one starts an emulator of its own."""
        running, self._running = self._running, None
        if running is not None:
            running.end()
            self._bell.hush()

    def release(self) -> None:
        """Do nothing: nobody waits for it."""

    def close(self) -> None:
        """End the current trial and remove all files. May be called twice."""
        if self._closed:
            return
        self._closed = True
        running, self._running, self._trial = self._running, None, None
        if running is not None:
            running.end()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._bell.close()

    def _emulator_version(self) -> str:
        done = run_tool([self._target.emulator[0], "--version"], timeout_s=_VERSION_S)
        return (done.stdout.splitlines() or ["unknown"])[0][:64]
