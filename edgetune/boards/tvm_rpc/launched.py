"""Local servers and trackers of TVM's RPC: each is one process that ends when this process ends."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from edgetune.errors import BoardUnavailable

LAUNCH = Path(__file__).with_name("launch.py")
LOOPBACK = "127.0.0.1"
KEY_ON_STDIN = "-"
_START_S = 60.0
_END_S = 3.0
_LAST_WORDS = 400


class Launched:
    """`launch.py` with `arguments` on this machine; `what` is its name in messages, `log` takes its output.

    Raises BoardUnavailable when it does not listen in time.
    """

    def __init__(self, what: str, arguments: Sequence[str], log: Path) -> None:
        self._what, self._log = what, log
        environment = dict(os.environ) | {"TVM_USE_RUNTIME_LIB": "1", "TVM_NUM_THREADS": "1"}
        self._folder = Path(tempfile.mkdtemp(prefix="tvm-", dir=log.parent))  # sessions make folders in it
        environment["TMPDIR"] = str(self._folder)
        environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, str(LAUNCH), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment,
                start_new_session=True,
            )
        try:
            self.port = self._await_port(time.monotonic() + _START_S)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Process id, which is its process group as well."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it is still running."""
        return self._process.poll() is None

    def close(self) -> None:
        """End it and all processes it started. May be called twice."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        with contextlib.suppress(ProcessLookupError, PermissionError):  # the rest of its group
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _await_port(self, deadline: float) -> int:
        said = b""
        stdout = self._process.stdout
        while stdout is not None and b"\n" not in said:
            if not select.select([stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
                break
            some = os.read(stdout.fileno(), 256)
            if not some:
                break
            said += some
        words = said.split()
        if len(words) == 2 and words[0] == b"port":  # noqa: PLR2004
            return int(words[1])
        text = self._log.read_text(errors="replace").strip()[-_LAST_WORDS:]
        raise BoardUnavailable(f"{self._what} does not start on this machine: {text or 'it prints nothing'}")
