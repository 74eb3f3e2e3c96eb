"""Board without operating system, emulated here or behind a debug probe: implements `Board` for a measuring session."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from edgetune.boards.environment import Reading
from edgetune.boards.host_resources import HostResources
from edgetune.boards.image.idle_image import idle_fault, unfit_words
from edgetune.boards.image.parts import build_harness
from edgetune.boards.image.runner import ImageRunner
from edgetune.boards.image.trial import CurrentProcess, ImageTrial
from edgetune.boards.lock import TimingLock
from edgetune.boards.protocol import RunRequest, RunResult
from edgetune.errors import BoardLost, BoardUnfit, EdgetuneError
from edgetune.ipc.wakeup_descriptor import WakeupDescriptor
from edgetune.target.target import Target

_ANSWER_S = 8.0  # within the patience of a session after the deadline of a trial
_LEAVE_S = 2.0
_END_S = 35.0  # for the thread of a trial whose processes were killed


class _Running:
    """A trial in its thread; `bell` rings when it has ended, with a result or with an error."""

    def __init__(
        self, trial: ImageTrial, request: RunRequest, folder: Path, bell: WakeupDescriptor, cache: Path | None
    ) -> None:
        self._cache = cache
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
            result = trial.run(request, folder, self._current)
            if result.status in {"timeout", "crashed"} and trial.runner.may_vanish:
                require_answer(trial, self._cache, self._current)
            self.result = result
        except Exception as error:  # noqa: BLE001  raised again by `collect`
            self.error = error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            bell.ring()


def require_answer(trial: ImageTrial, cache: Path | None, current: CurrentProcess) -> None:
    """Raise BoardLost where not even an image that does nothing runs, so that no candidate is to blame."""
    if fault := idle_fault(trial, cache, current, _ANSWER_S):
        raise BoardLost(
            f"board '{trial.target.name}': {unfit_words(trial, fault)}: see that it is connected and has power"
        )


class ImageBoard:
    """Tries candidates as images of `target`, which `runner` runs.

    `cache` keeps the compiled harness. `lock` is held while the board is reserved (None: nobody else uses it). After
    `reserve`, `facts` has those of the runner.
    """

    def __init__(
        self,
        target: Target,
        runner: Callable[[], ImageRunner],
        host: HostResources,
        cache: Path | None = None,
        lock: TimingLock | None = None,
    ) -> None:
        self.name = target.name
        self.facts: Mapping[str, Reading] = {
            "emulated": int(target.emulated),
            "clock": target.clock,
            "machine": target.instruction_set.machine,
        }
        self.round_trip_s = 0.0
        self._target, self._make_runner, self._host, self._cache, self._lock = target, runner, host, cache, lock
        self._trial: ImageTrial | None = None
        self._folder: Path | None = None
        self._running: _Running | None = None
        self._bell = WakeupDescriptor()
        self._idle = CurrentProcess()
        self._using = threading.Lock()  # held while an image that does nothing runs, and while the lock is waited for
        self._closed = False

    def reserve(self) -> None:
        """Take the lock; before the first candidate, compile the harness and see that an image runs.

        Raises ToolchainMissing, DiskFull, BoardLost, BoardBusy, and BoardUnfit where images do not run or count.
        """
        if self._closed:
            raise BoardLost(f"board '{self.name}' was closed")
        with self._using:
            if self._lock is not None:
                self._lock.acquire()
            if self._trial is None:
                try:
                    self._trial = self._first_trial()
                except BaseException:
                    self.release()
                    raise

    def _first_trial(self) -> ImageTrial:
        """See that an image runs; raises what `reserve` raises."""
        runner = self._make_runner()
        harness = build_harness(self._target, runner.counting, self._cache)
        if self._closed:  # meanwhile, by another thread
            raise BoardLost(f"board '{self.name}' was closed")
        trial = ImageTrial(self._target, harness, runner)
        began = time.monotonic()
        if fault := idle_fault(trial, self._cache, self._idle):
            if self._closed:
                raise BoardLost(f"board '{self.name}' was closed")
            raise BoardUnfit(f"board '{self.name}': {unfit_words(trial, fault)}: {trial.runner.remedy}")
        self.round_trip_s = time.monotonic() - began if runner.may_vanish else 0.0
        self._folder = Path(tempfile.mkdtemp(prefix="images-", dir=self._host.folder))
        self.facts = {**self.facts, **runner.facts}
        return trial

    def put(self, path: Path) -> str:
        """Return the path itself: images are linked on this machine."""
        return str(path)

    def begin(self, request: RunRequest) -> None:
        """Start to link and run the image of a candidate."""
        if self._running is not None:
            raise ValueError(f"board '{self.name}' is busy")
        if self._trial is None or self._folder is None:
            raise BoardLost(f"board '{self.name}' was never reserved, or was closed")
        self._running = _Running(
            self._trial, request, Path(tempfile.mkdtemp(dir=self._folder)), self._bell, self._cache
        )

    def fileno(self) -> int:
        """Descriptor that is readable when a trial has ended."""
        return self._bell.fileno()

    def collect(self, timeout_s: float = 0.0) -> RunResult | None:
        """Return the result if it is there within `timeout_s`; raises BoardLost where no image runs."""
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
        if isinstance(running.error, BoardLost):
            raise running.error
        if isinstance(running.error, EdgetuneError):
            raise BoardLost(f"board '{self.name}': {running.error.message}") from running.error
        raise running.error

    def health(self) -> dict[str, Reading]:
        """Return nothing: an image reads no sensor of its board."""
        return {}

    def recover(self) -> None:
        """End the current trial, and see that images run where they may not; raises BoardLost."""
        running, self._running = self._running, None
        if running is not None:
            running.end()
            self._bell.hush()
        if self._trial is None:
            self.reserve()
        elif self._trial.runner.may_vanish:
            with self._using:
                require_answer(self._trial, self._cache, self._idle)

    def release(self) -> None:
        """Let others use the board."""
        if self._lock is not None:
            self._lock.release()

    def close(self) -> None:
        """End the current trial and remove all files. May be called twice."""
        if self._closed:
            return
        self._closed = True
        running, self._running, self._trial = self._running, None, None
        self._idle.stop()
        if running is not None:
            running.end()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._lock is not None:
            self._lock.release()
            if self._using.acquire(timeout=_LEAVE_S):  # else a thread still waits for the lock, and needs its file
                self._using.release()
                self._lock.close()
        self._bell.close()
