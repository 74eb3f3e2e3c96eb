"""Manager of the worker process: sends it requests with deadlines, and handles its crashes and those of the server."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from pathlib import Path

from edgetune.boards.tvm_rpc.messages import SessionFailed, WorkerStep
from edgetune.errors import BoardLost, BoardUnfit
from edgetune.ipc.child_process import ChildProcess

_MODULE = "edgetune.boards.tvm_rpc.worker"


class RpcWorker:
    """A worker that is started when first needed, and again after it was killed. `name` is the board's."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._folder = folder
        self._starts = 0
        self._process: ChildProcess | None = None
        self.step = "start"
        self._answers: list[object] = []

    @property
    def running(self) -> bool:
        """Whether a worker runs."""
        return self._process is not None

    def fileno(self) -> int:
        """Descriptor that is readable when there may be an answer."""
        if self._process is None:
            raise BoardLost(f"board '{self._name}' has no connection: reserve it first")
        return self._process.fileno()

    def send(self, message: object) -> None:
        """Send a message, starting the worker if there is none; raises BoardLost when it ends at once."""
        if self._process is None:
            self._starts += 1
            log = self._folder / f"tvm-{self._name}-{self._starts}.log"
            self._process = ChildProcess(_MODULE, (), log)
        self._answers.clear()
        if not self._process.send(message):
            raise self._ended()

    def receive(self, timeout_s: float) -> object | None:
        """Return an answer if one arrives within `timeout_s`; raises BoardLost when the session or the worker broke.

        Raises BoardUnfit when the board does not match its target, or lacks the cores of its address.
        """
        deadline = time.monotonic() + timeout_s
        while not self._answers:
            process = self._process
            if process is None:
                raise BoardLost(f"board '{self._name}' has no connection: reserve it first")
            left = deadline - time.monotonic()
            if not select.select([process], [], [], max(0.0, left))[0]:
                return None
            for message in process.read_available():
                if isinstance(message, WorkerStep):
                    self.step = message.name
                else:
                    self._answers.append(message)
            if process.ended and not self._answers:
                raise self._ended()
        answer = self._answers.pop(0)
        if isinstance(answer, SessionFailed):
            self.kill()
            if answer.unfit:
                raise BoardUnfit(f"board '{self._name}' cannot be measured on: {answer.reason}")
            raise BoardLost(f"TVM's RPC server of board '{self._name}' failed in step '{answer.step}': {answer.reason}")
        return answer

    def ask(self, message: object, timeout_s: float) -> object:
        """Send, and wait for the answer; kills the worker and raises BoardLost at the deadline."""
        self.send(message)
        answer = self.receive(timeout_s)
        if answer is None:
            raise self.late(timeout_s)
        return answer

    def late(self, timeout_s: float) -> BoardLost:
        """Kill the worker; return the error that names the step in which it was late."""
        self.kill()
        return BoardLost(
            f"TVM's RPC server of board '{self._name}' did not answer within {timeout_s:.0f} s in step '{self.step}'"
        )

    def kill(self) -> None:
        """End the worker at once; the server ends its session when the connection closes."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def interrupt(self) -> None:
        """Kill the worker from another thread; a thread that waits for it gets BoardLost."""
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def _ended(self) -> BoardLost:
        process, self._process = self._process, None
        words = process.last_words() if process is not None else "it was ended"
        if process is not None:
            process.kill()
        return BoardLost(f"the RPC client of board '{self._name}' ended in step '{self.step}' ({words})")
