"""Emulated board as a process: starts QEMU from an image; SSH reaches it on a loopback port.

Each running machine has a private folder for its console and SSH files, which is removed after it even if this process
is killed. QEMU's control channel (QMP) is JSON lines over a socket between this process and QEMU.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from edgetune.boards.machine.image import Image
from edgetune.config.boards_file import BoardAddress
from edgetune.errors import BoardLost
from edgetune.target.programs import RequiredProgram, require_programs

_READ_SIZE = 1 << 16


class Monitor:
    """This end of the control channel. Every call raises BoardLost when QEMU does not answer in time, or has ended."""

    def __init__(self, name: str, ours: socket.socket) -> None:
        self._name = name
        self._socket = ours
        self._buffer = b""

    def greet(self, timeout_s: float) -> None:
        """Wait until QEMU answers; must be called first."""
        deadline = time.monotonic() + timeout_s
        while "QMP" not in self._message(deadline):
            pass
        self.call("qmp_capabilities", timeout_s)

    def call(self, command: str, timeout_s: float, arguments: Mapping[str, object] | None = None) -> object:
        """Run one command; return its answer."""
        deadline = time.monotonic() + timeout_s
        try:
            self._socket.settimeout(timeout_s)
            self._socket.sendall(json.dumps({"execute": command, "arguments": arguments or {}}).encode())
        except OSError as error:
            raise self._lost(str(error)) from None
        while True:
            message = self._message(deadline)
            if "return" in message:
                return message["return"]
            if "error" in message:
                raise self._lost(f"{command}: {message['error']}")

    def human(self, command: str, timeout_s: float) -> str:
        """Run a command of QEMU's human monitor; return its output."""
        return str(self.call("human-monitor-command", timeout_s, {"command-line": command}))

    def close(self) -> None:
        """Close the channel."""
        self._socket.close()

    def _message(self, deadline: float) -> dict[str, object]:
        while b"\n" not in self._buffer:
            try:
                self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
                data = self._socket.recv(_READ_SIZE)
            except TimeoutError:
                raise self._lost("it does not answer in time") from None
            except OSError as error:
                raise self._lost(str(error)) from None
            if not data:
                raise self._lost("it has ended")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message = json.loads(line)
        return message if isinstance(message, dict) else {}

    def _lost(self, why: str) -> BoardLost:
        return BoardLost(f"the emulator of board '{self._name}' cannot be controlled ({why}): restart the board")


_LOCK = "alive"


class RunFolder:
    """A new folder in `parent`. Making one also removes the folders of killed processes."""

    def __init__(self, parent: Path) -> None:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        turn = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(turn, fcntl.LOCK_EX)  # so that no process removes a new folder before it is locked
            _sweep(parent)
            self.path = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
            self._lock = (self.path / _LOCK).open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        finally:
            os.close(turn)

    def remove(self) -> None:
        """Remove the folder. May be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _sweep(parent: Path) -> None:
    for folder in parent.glob("run-*"):
        with contextlib.suppress(OSError), (folder / _LOCK).open("w") as lock:  # the file may not exist yet
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)


_PROGRAM = "qemu-system-aarch64"
_READY = b"board: ready"
_POLL_S = 0.02
_ANSWER_S = 20.0
_LAST_LINES = 4
_LAST_CHARACTERS = 400
_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[^\n\x20-\x7e]")
_FORWARDED = re.compile(r"TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)")


class Machine:
    """One machine. It leaves nothing behind, because its disk is its memory. Many can run from one image at once.

    The kernel kills it when this process ends, for any reason. Its SSH port listens only on 127.0.0.1; the guest
    reaches no network. The port stays the same over `reset`, and over `restart` unless another process takes it in
    between.
    """

    def __init__(self, image: Image, target: str, name: str) -> None:
        self.name = name
        self._target = target
        self._image = image
        self._process: subprocess.Popen[bytes] | None = None
        self._monitor: Monitor | None = None
        self._run: RunFolder | None = None
        self._port = 0

    @property
    def alive(self) -> bool:
        """Whether the emulator runs; the system in it may hang nevertheless."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id of the emulator; raises BoardLost when it was never started."""
        if self._process is None:
            raise BoardLost(f"board '{self.name}' is off: start it")
        return self._process.pid

    @property
    def address(self) -> BoardAddress:
        """Its address for SSH; with the settings in `ssh_config`, its host key is verified."""
        return BoardAddress(
            name=self.name,
            target=self._target,
            ssh=f"{self._image.recipe.user}@127.0.0.1:{self._port}",
            identity=str(self._image.client_key),
        )

    @property
    def ssh_config(self) -> Path:
        """Configuration for SSH clients (`ssh -F`) that maps any address to this machine; known_hosts is beside it."""
        return self._folder / "ssh_config"

    @property
    def console(self) -> Path:
        """The machine's output since its start, including the kernel's messages."""
        return self._folder / "console.log"

    def start(self, timeout_s: float = 90.0) -> None:
        """Start it and wait until its SSH server listens.

        Raises ToolchainMissing (no QEMU), BoardLost (not ready within `timeout_s`; the console's last lines say why).
        """
        if self.alive:
            return
        deadline = time.monotonic() + timeout_s
        if self._run is None:
            self._run = RunFolder(self._image.folder.parent / "runs")
        if not _free(self._port):
            self._port = 0
        ours, theirs = socket.socketpair()
        self._monitor = Monitor(self.name, ours)
        try:
            with theirs:
                command = self._command(theirs.fileno())
                self.console.write_bytes(b"")
                starter = _starter(os.getpid())
                self._process = starter.submit(_spawn, command, theirs.fileno(), self._folder / "qemu.log").result()
            self._greet(self._monitor)
            self._find_port(self._monitor)
            self._await_ready(0, deadline, timeout_s)
        except BaseException:
            self.kill()
            raise

    def reset(self, timeout_s: float = 90.0) -> None:
        """Press the reset button and wait until its SSH server listens again. Raises BoardLost."""
        deadline = time.monotonic() + timeout_s
        if self._monitor is None or not self.alive:
            raise BoardLost(f"board '{self.name}' is off ({self._last_words()}): cut its power and start it again")
        seen = self.console.stat().st_size
        self._monitor.call("system_reset", min(_ANSWER_S, timeout_s))
        self._await_ready(seen, deadline, timeout_s)

    def restart(self, timeout_s: float = 90.0) -> None:
        """Switch the power off and on, and wait until its SSH server listens. Raises BoardLost."""
        self.kill()
        self.start(timeout_s)

    def kill(self) -> None:
        """Switch the power off."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
        if self._process is not None:
            self._process.wait()
        if self._monitor is not None:
            self._monitor.close()
            self._monitor = None

    def stop(self) -> None:
        """Switch the power off and remove the machine's files. May be called twice."""
        self.kill()
        if self._run is not None:
            self._run.remove()
            self._run = None

    @property
    def _folder(self) -> Path:
        if self._run is None:
            raise BoardLost(f"board '{self.name}' is off: start it")
        return self._run.path

    def _command(self, control: int) -> list[str]:
        role = f"the emulator of board '{self.name}'"
        require_programs(
            [
                RequiredProgram(_PROGRAM, "qemu-system-arm", role),
                RequiredProgram("setpriv", "util-linux", f"which ends {role}"),
            ]
        )
        identity = hashlib.sha256(self.name.encode()).hexdigest()[:32]
        arguments = f"{self._image.recipe.kernel_arguments} board.name={self.name} board.identity={identity}"
        return [
            *("setpriv", "--pdeathsig", "KILL", _PROGRAM),
            *("-nodefaults", "-no-user-config", "-display", "none", *self._image.recipe.machine),
            *("-kernel", str(self._image.kernel), "-initrd", str(self._image.file_system), "-append", arguments),
            *("-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{self._port}-:22"),
            *("-device", "virtio-net-device,netdev=net"),
            *("-chardev", f"file,id=console,path={_quoted(self.console)}", "-serial", "chardev:console"),
            *("-chardev", f"socket,id=control,fd={control}", "-mon", "chardev=control,mode=control"),
        ]

    def _greet(self, monitor: Monitor) -> None:
        """Wait until the emulator itself runs."""
        try:
            monitor.greet(_ANSWER_S)
        except BoardLost:
            if self._process is not None:
                self._process.kill()
                self._process.wait()
            raise BoardLost(f"the emulator of board '{self.name}' does not start: {self._last_words()}") from None

    def _find_port(self, monitor: Monitor) -> None:
        found = _FORWARDED.search(monitor.human("info usernet", _ANSWER_S))
        if found is None:
            raise BoardLost(f"board '{self.name}' has no port for SSH ({self._last_words()}): start it again")
        self._port = int(found[1])
        known_hosts = self._folder / "known_hosts"
        known_hosts.write_text(f"{self.name} {self._image.host_public}\n", encoding="utf-8")
        settings = {
            "HostName": "127.0.0.1",
            "Port": self._port,
            "User": self._image.recipe.user,
            "HostKeyAlias": self.name,
            "UserKnownHostsFile": f'"{known_hosts}"',
            "IdentityFile": f'"{self._image.client_key}"',
            "IdentitiesOnly": "yes",
            "IdentityAgent": "none",
        }
        text = "".join(f"    {key} {value}\n" for key, value in settings.items())
        self.ssh_config.write_text(f"Host *\n{text}", encoding="utf-8")

    def _await_ready(self, seen: int, deadline: float, timeout_s: float) -> None:
        with self.console.open("rb") as console:
            console.seek(seen)
            text = b""
            while _READY not in text:
                if not self.alive:
                    raise BoardLost(f"board '{self.name}' went off while it booted: {self._last_words()}")
                if time.monotonic() > deadline:
                    raise BoardLost(f"board '{self.name}' has not booted within {timeout_s:g} s: {self._last_words()}")
                time.sleep(_POLL_S)
                text = text[-len(_READY) :] + console.read()

    def _last_words(self) -> str:
        """Return the last output of QEMU and the console, in one line."""
        words: list[str] = []
        for name in ("qemu.log", "console.log"):
            with contextlib.suppress(OSError, BoardLost):
                text = _CONTROL.sub("", (self._folder / name).read_text(encoding="utf-8", errors="replace"))
                words += [line.strip() for line in text.splitlines() if line.strip()][-_LAST_LINES:]
        return " | ".join(words)[-_LAST_CHARACTERS:] or "it printed nothing"


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as QEMU does
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _quoted(path: Path) -> str:
    return str(path).replace(",", ",,")  # QEMU's escape for a comma in an option


@lru_cache(maxsize=1)
def _starter(process: int) -> ThreadPoolExecutor:
    """Return the thread that starts machines, one per `process`.

    The kernel ties a machine's life to the thread that started it, and this thread lives as long as the process.
    """
    del process
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="machines")


def _spawn(command: list[str], control: int, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as said:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            pass_fds=(control,),
            start_new_session=True,  # Ctrl-C at the terminal must reach only this process
        )
