"""Child process management: starts a Python process of edgetune with pipes for messages; it ends when its parent ends.

Also has the functions for the child's side, and an asynchronous writer, so that a sender never waits for a pipe whose
reader is busy.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from edgetune.ipc import frames


class AsyncWriter:
    """Writes to one pipe, in order; a thread of its own writes what the pipe does not accept at once.

    The descriptor becomes non-blocking. Its owner keeps it and closes it after `close`.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting: deque[memoryview] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._stop, self._stopper = os.pipe()
        os.set_blocking(descriptor, False)

    def send(self, data: bytes) -> None:
        """Write `data` now, or when the reader takes it. Raises BrokenPipeError when the pipe has no reader."""
        with self._changed:
            if self._closed:
                raise BrokenPipeError("the pipe is closed")
            rest = memoryview(data)
            if not self._waiting:
                rest = self._write(rest)
            if not rest:
                return
            self._waiting.append(rest)
            if self._thread is None:
                self._thread = threading.Thread(target=self._carry, name="edgetune-outbox", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Drop the unwritten bytes and use the descriptor no more. May be called twice."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify()
        os.close(self._stopper)
        if self._thread is not None:
            self._thread.join()
        os.close(self._stop)

    def _write(self, data: memoryview) -> memoryview:
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                break
        return data

    def _carry(self) -> None:
        """Write the waiting bytes whenever the pipe accepts some, until closed or the pipe has no reader."""
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
            select.select([self._stop], [self._descriptor], [])
            with self._changed:
                if self._closed:
                    return
                try:
                    self._waiting[0] = self._write(self._waiting[0])
                except BrokenPipeError:
                    self._waiting.clear()  # the reader of the child's output sees that the child has ended
                    continue
                if not self._waiting[0]:
                    self._waiting.popleft()


_PR_SET_PDEATHSIG = 1
_READ_SIZE = 1 << 20
_LAST_WORDS = 600
_LONGEST_LINE = 4000


def pipes_of(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    """Return stdin and stdout of a process that was started with a pipe for each."""
    if process.stdin is None or process.stdout is None:
        raise ValueError("the process was started without pipes")
    return process.stdin, process.stdout


class ChildProcess:
    """`main` of `module` in a new process, with messages on its stdin and stdout; stderr goes to the file `log`.

    The child has its own process group, so Ctrl-C at the terminal reaches only the parent. The kernel kills the child
    when the thread that started it ends, so start it from a thread that lives as long as the session.
    """

    def __init__(self, module: str, arguments: Sequence[str], log: Path) -> None:
        self._log = log
        self._frames = frames.FrameBuffer()
        self.ended = False
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
        environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "TVM_NUM_THREADS": "1"}
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                # -P: what lies in the working folder is not imported; the path of this process is in PYTHONPATH
                [sys.executable, "-P", "-c", f"from {module} import main; main()", str(os.getpid()), *arguments],
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
        self._outbox = AsyncWriter(self._stdin.fileno())

    @property
    def pid(self) -> int:
        """Process id, which is its process group as well."""
        return self._process.pid

    def fileno(self) -> int:
        """Descriptor that is readable when there is a message, or when the child has ended."""
        return self._stdout.fileno()

    def send(self, message: object) -> bool:
        """Send one message, without waiting for the child to read it; False (and `ended`) when the child has ended."""
        try:
            self._outbox.send(frames.encode(message))
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
        """Lines that the child wrote to its stderr since the last call; an incomplete line waits for its end."""
        data = os.read(self._reading, _READ_SIZE) if self._reading >= 0 else b""
        *lines, self._unsaid = (self._unsaid + data).split(b"\n")
        if len(self._unsaid) > _LONGEST_LINE:
            lines, self._unsaid = [*lines, self._unsaid], b""
        return [line.decode(errors="replace")[:_LONGEST_LINE] for line in lines if line.strip()]

    def last_words(self) -> str:
        """Return how the child ended and the end of its stderr; waits for the child to end, and kills it after 2 s."""
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
    """Describe an exit status as subprocess and os.waitstatus_to_exitcode return it."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def die_with_parent(parent: int) -> None:
    """Child's side: have the kernel kill this process when `parent` ends, whatever it does at that moment.

    It ignores SIGTERM from now on: a signal to the whole group of processes is meant for the parent, which ends its
    children.
    """
    signal.signal(signal.SIGTERM, lambda *_: None)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:  # the parent ended before the call
        sys.exit(1)


def claim_pipes() -> tuple[int, int]:
    """Child's side: return private descriptors (in, out); afterwards stdin is empty and prints go to stderr."""
    incoming, outgoing = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return incoming, outgoing
