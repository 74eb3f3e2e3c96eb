"""Board emulation by processes of this machine: programs run natively or under the target's emulator (tier T0)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from edgetune.boards.agent.build import build_launcher, build_plugin
from edgetune.boards.agent.frames import printable
from edgetune.boards.reach import BoardFacts, CommandResult
from edgetune.errors import BoardLost, ToolchainMissing
from edgetune.ipc.child_process import pipes_of
from edgetune.ipc.process_group import program
from edgetune.target.target import Target

_LAST_WORDS = 1000
_CHUNK = 1 << 16
_PATIENCE_S = 2.0  # for a process to end after its input has ended


class ProcessStream:
    """A process on two pipes, in its own process group. It ends when this process ends, because its input ends then."""

    def __init__(self, board: str, command: Sequence[str], environment: dict[str, str], folder: Path) -> None:
        self._board = board
        self._errors: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  closed by close()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=environment,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            self._errors.close()
            raise BoardLost(f"board '{board}': {command[0]} cannot be started: {error.strerror}") from error
        self.pid = self._process.pid  # of its process group as well
        self._stdin, self._stdout = pipes_of(self._process)
        self._descriptor = self._stdout.fileno()
        self._words = ""
        self._closed = False
        for pipe in (self._stdin, self._stdout):
            os.set_blocking(pipe.fileno(), False)

    def fileno(self) -> int:
        """Descriptor of its standard output."""
        return self._descriptor

    def send(self, data: bytes, timeout_s: float) -> None:
        """Write all of `data` to its standard input."""
        deadline = time.monotonic() + timeout_s
        view = memoryview(data)
        poller = select.poll()
        while view:
            if self._closed:
                raise self._ended()
            try:
                view = view[os.write(self._stdin.fileno(), view[:_CHUNK]) :]
            except BlockingIOError:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise BoardLost(
                        f"board '{self._board}': its process did not read what was sent within {timeout_s:g} s"
                    ) from None
                poller.register(self._stdin.fileno(), select.POLLOUT)
                poller.poll(left * 1000)
            except (OSError, ValueError) as error:
                raise self._ended() from error

    def receive(self) -> bytes:
        """Return its output."""
        if self._closed:
            raise self._ended()
        try:
            data = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return b""
        if not data:
            raise self._ended()
        return data

    def diagnostics(self) -> str:
        """Last output on its stderr."""
        if not self._closed:
            size = os.fstat(self._errors.fileno()).st_size
            start = max(0, size - _LAST_WORDS)
            self._words = printable(os.pread(self._errors.fileno(), _LAST_WORDS, start)).strip()
        return self._words

    def close(self) -> None:
        """End its input, and kill it if it does not end after that. May be called twice."""
        if self._closed:
            return
        self.diagnostics()
        self._closed = True
        with contextlib.suppress(OSError):
            self._stdin.close()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._stdout.close()
        self._errors.close()

    def _ended(self) -> BoardLost:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE_S if not self._closed else 0.0)
        words = self.diagnostics()
        said = f": {words}" if words else ""
        return BoardLost(f"board '{self._board}': its process ended (status {self._process.returncode}){said}")


class ProcessReach:
    """Runs processes of this machine as those of a board, under the target's emulator where it has one.

    `lock` names the advisory lock of the board; without it every reach has its own lock, shared with no other. `cache`
    is the folder of the counting plugin.
    """

    round_trip_s = 0.0  # it is this machine

    def __init__(self, name: str, target: Target, *, lock: str | None = None, cache: Path | None = None) -> None:
        self.name = name
        self._target = target
        self._lock = lock or f"edgetune-{name}-{os.getpid()}-{id(self):x}"
        self._cache = cache
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._streams: list[ProcessStream] = []

    @property
    def prefix(self) -> tuple[str, ...]:
        """Words in front of every command line of the board."""
        words = self._target.emulator
        if words and self._target.clock == "instructions":
            return (words[0], "-plugin", f"file={build_plugin(self._cache)}", *words[1:])
        return tuple(words)

    def connect(self, timeout_s: float = 20.0) -> None:  # noqa: ARG002  nothing to wait for
        """Check that the emulator is installed; raises ToolchainMissing."""
        words = self.prefix
        if words and shutil.which(words[0]) is None:
            package = self._target.emulator_package or words[0]
            raise ToolchainMissing(
                f"{words[0]} (the emulator of board '{self.name}') is not on PATH: sudo apt-get install {package}"
            )

    def facts(self) -> BoardFacts:
        """Return the facts of this machine, with the machine name of the target."""
        isa = self._target.instruction_set
        folder = self._place()
        free = os.statvfs(folder)
        return BoardFacts(
            machine=isa.machine,
            bits=isa.bits,
            libc="" if self.prefix else (os.confstr("CS_GNU_LIBC_VERSION") or ""),
            cores=len(os.sched_getaffinity(0)),
            memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE"),
            folder=str(folder),
            free_bytes=free.f_bavail * free.f_frsize,
            kernel=os.uname().release,
        )

    def start(self, program: Path, arguments: Sequence[str], timeout_s: float = 10.0) -> ProcessStream:  # noqa: ARG002  it starts at once
        """Start the program from its path on this machine."""
        environment = {**os.environ, "EDGETUNE_LOCK": self._lock}
        environment.pop("LD_PRELOAD", None)  # a library of another architecture
        prefix = self.prefix
        launcher = [str(build_launcher(self._cache))] if prefix else []
        command = [*launcher, *prefix, str(program), *arguments]
        stream = ProcessStream(self.name, command, environment, self._place())
        self._streams.append(stream)
        return stream

    def run(self, command: str, timeout_s: float, stdin: bytes = b"") -> CommandResult:
        """Run a shell command of this machine, in the folder of the board."""
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        with program(["/bin/sh", "-c", command], cwd=self._place(), **pipes) as process:
            try:
                out, errors = process.communicate(stdin, timeout=timeout_s)
            except subprocess.TimeoutExpired:
                raise BoardLost(f"board '{self.name}': `{command[:80]}` had not ended after {timeout_s:g} s") from None
        status = process.returncode if process.returncode >= 0 else 128 - process.returncode
        return CommandResult(status, out.decode(errors="replace"), errors.decode(errors="replace"))

    def put(self, local: Path, timeout_s: float) -> str:  # noqa: ARG002  a copy on one disk
        """Copy a file into the folder of the board, by content."""
        data = local.read_bytes()
        there = self._place() / f"{hashlib.sha256(data).hexdigest()[:24]}-{local.name}"
        if not there.exists():
            shutil.copy(local, there)
        return str(there)

    def clean(self) -> None:
        """End all started processes, remove the folder."""
        for stream in self._streams:
            stream.close()
        self._streams.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def close(self) -> None:
        """Remove everything, as `clean` does."""
        self.clean()

    def reboot(self, timeout_s: float) -> bool:  # noqa: ARG002
        """Return False: this machine is not restarted."""
        return False

    def power_cycle(self, timeout_s: float) -> bool:  # noqa: ARG002
        """Return False: there is no power switch."""
        return False

    def _place(self) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix=f"edgetune-{self.name}-")
        return Path(self._folder.name)
