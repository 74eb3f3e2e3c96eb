"""Manager of the runner process: one request at a time, with a deadline; replaces a runner that crashes or hangs."""

from __future__ import annotations

import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from edgetune.boards.local.runner_process import RunnerSetup
from edgetune.boards.protocol import RunRequest, RunResult
from edgetune.errors import EdgetuneError, ToolchainMissing
from edgetune.events import Event
from edgetune.ipc.child_process import ChildProcess
from edgetune.resources import templates_dir
from edgetune.target.tool_process import run_tool

_PATIENCE_S = 5.0  # after the request's own deadline, which the runner enforces
_TIMER_SOURCE = Path(__file__).with_name("timer.c")


class RunnerProcess:
    """Starts the runner, sends it requests, restarts it when it dies. It stays on `cores` (None: any)."""

    def __init__(
        self,
        folder: Path,
        cc: str,
        cores: frozenset[int] | None = None,
        on_event: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self._folder = folder
        self._on_event = on_event
        self._setup = RunnerSetup(build_timer(folder, cc), cores)
        self._starts = 0
        self._request: RunRequest | None = None
        self._deadline = 0.0
        self._process = self._start()

    @property
    def pid(self) -> int:
        """Process id of the current runner."""
        return self._process.pid

    def fileno(self) -> int:
        """Descriptor that becomes readable when `collect` has something."""
        return self._process.fileno()

    def begin(self, request: RunRequest) -> None:
        """Send a request; only when not busy."""
        if self._request is not None:
            raise ValueError("the runner is busy")
        self._request = request
        self._deadline = time.monotonic() + request.deadline_s + _PATIENCE_S
        if not self._process.send(request):  # it died while idle, so the candidate is not the cause
            self.recover()
            self._process.send(request)

    def collect(self, timeout_s: float = 0.0) -> RunResult | None:
        """Return the result of the current request if it arrives within `timeout_s`."""
        if self._request is None:
            return None
        request, limit = self._request, max(0.0, self._deadline - time.monotonic())
        if select.select([self._process], [], [], min(timeout_s, limit))[0]:
            for message in self._process.read_available():
                if isinstance(message, RunResult):
                    self._request = None
                    return message
            if self._process.ended:
                return self._replace(RunResult(request.candidate_id, "crashed", self._process.last_words()))
        elif time.monotonic() >= self._deadline:
            return self._replace(RunResult(request.candidate_id, "timeout", "the runner did not answer"))
        return None

    def recover(self) -> None:
        """Kill the runner and start a new one."""
        self._process.kill()
        self._process = self._start()

    def close(self) -> None:
        """End the runner and its candidate."""
        self._process.kill()
        self._request = None

    def _replace(self, result: RunResult) -> RunResult:
        self._request = None
        self._on_event(Event("warning", {"message": f"the runner is started again: {result.reason}"}))
        self.recover()
        return result

    def _start(self) -> ChildProcess:
        self._starts += 1
        process = ChildProcess("edgetune.boards.local.runner_process", (), self._folder / f"runner-{self._starts}.log")
        if not process.send(self._setup):
            raise EdgetuneError(f"the runner does not start ({process.last_words()}): run `edgetune doctor`")
        return process


def build_timer(folder: Path, cc: str) -> Path:
    """Compile the timing loop into `folder`; raises ToolchainMissing if that fails."""
    library = folder / "timer.so"
    headers = f"-I{templates_dir() / 'agent'}"
    command = [cc, "-std=gnu11", "-O2", "-fPIC", "-shared", headers, "-o", str(library), str(_TIMER_SOURCE)]
    try:
        run_tool(command, timeout_s=60, check=True)
    except FileNotFoundError as error:
        raise ToolchainMissing(f"{cc} is not on PATH: install it (sudo apt-get install gcc libc6-dev)") from error
    except subprocess.SubprocessError as error:
        words = str(getattr(error, "stderr", None) or error).strip()[-500:]
        raise ToolchainMissing(f"{cc} cannot compile {_TIMER_SOURCE.name}: {words}") from error
    return library
