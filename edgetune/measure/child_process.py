"""A Python process of ours behind two pipes, started once, that cannot outlive us; and the child's side of that."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from edgetune.measure import wire
from edgetune.measure.outbox import Outbox

_PR_SET_PDEATHSIG = 1
_READ_SIZE = 1 << 20
_LAST_WORDS = 600
_LONGEST_LINE = 4000


def pipes_of(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    """Stdin and stdout of a process that was started with a pipe for each."""
    if process.stdin is None or process.stdout is None:
        raise ValueError("the process was started without pipes")
    return process.stdin, process.stdout


class ChildProcess:
    """`main` of `module` in a new process, with messages on its stdin and stdout; stderr goes to the file `log`.

    The child lives in a process group of its own, so Ctrl-C at the terminal reaches only us. It is killed by the kernel
    when the thread that started it ends, so start it from a thread that lives as long as the session.
    """

    def __init__(self, module: str, arguments: Sequence[str], log: Path) -> None:
        self._log = log
        self._frames = wire.FrameBuffer()
        self.ended = False
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
        environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "TVM_NUM_THREADS": "1"}
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from {module} import main; main()", str(os.getpid()), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment,
                start_new_session=True,
                bufsize=0,
            )
        self._stdin, self._stdout = pipes_of(self._process)
        self._reading = os.open(log, os.O_RDONLY)
        self._unsaid = b""
        self._outbox = Outbox(self._stdin.fileno())

    @property
    def pid(self) -> int:
        """Process id, which is its process group as well."""
        return self._process.pid

    def fileno(self) -> int:
        """Descriptor that is readable when there is a message, or when the child has ended."""
        return self._stdout.fileno()

    def send(self, message: object) -> bool:
        """Send one message, without waiting for the child to read it; False (and `ended`) when the child is gone."""
        try:
            self._outbox.send(wire.encode(message))
        except BrokenPipeError:
            self.ended = True
            return False
        return True

    def read_available(self) -> list[object]:
        """Read once; return whole messages. Blocks unless `fileno()` is readable. Sets `ended` at end of file."""
        data = os.read(self._stdout.fileno(), _READ_SIZE)
        if not data:
            self.ended = True
            return []
        return self._frames.feed(data)

    def said(self) -> list[str]:
        """Lines that the child wrote to its stderr since the last call; one that is not whole yet waits for its end."""
        data = os.read(self._reading, _READ_SIZE) if self._reading >= 0 else b""
        *lines, self._unsaid = (self._unsaid + data).split(b"\n")
        if len(self._unsaid) > _LONGEST_LINE:
            lines, self._unsaid = [*lines, self._unsaid], b""
        return [line.decode(errors="replace")[:_LONGEST_LINE] for line in lines if line.strip()]

    def last_words(self) -> str:
        """How the child ended, with the end of what it wrote to stderr; waits for it to end, and kills it after 2 s."""
        try:
            code = self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.wait()
        text = self._log.read_text(errors="replace").strip() if self._log.exists() else ""
        return f"{describe_exit(code)}{': ' + text[-_LAST_WORDS:] if text else ''}"

    def kill(self) -> None:
        """Kill the child and everything in its process group; does nothing if it has ended."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._close_pipes()

    def close(self, patience_s: float = 1.0) -> None:
        """Ask the child to end by closing its stdin, and kill it after `patience_s` seconds."""
        self._outbox.close()
        with contextlib.suppress(OSError):
            self._stdin.close()
        try:
            self._process.wait(timeout=patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self._close_pipes()

    def _close_pipes(self) -> None:
        self._outbox.close()
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        if self._reading >= 0:
            os.close(self._reading)
            self._reading = -1


def describe_exit(code: int) -> str:
    """Return an exit status as subprocess and os.waitstatus_to_exitcode give it, in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def die_with_parent(parent: int) -> None:
    """Child's side: have the kernel kill this process when `parent` dies, whatever it is doing then.

    SIGTERM is not heeded any more: whoever stops a whole group of processes means the parent, which ends its children.
    """
    signal.signal(signal.SIGTERM, lambda *_: None)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:  # it died before the call
        sys.exit(1)


def claim_pipes() -> tuple[int, int]:
    """Child's side: return private descriptors (in, out); afterwards stdin is empty and prints go to stderr."""
    incoming, outgoing = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return incoming, outgoing
