"""An emulated board as a process: QEMU, started from an image, reachable by SSH on a port of the loopback."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from edgetune.boards.machine.image import Image
from edgetune.boards.machine.monitor import Monitor
from edgetune.boards.machine.run_folder import RunFolder
from edgetune.config.boards_file import BoardAddress
from edgetune.config.programs import Program, require_programs
from edgetune.errors import BoardLost

_PROGRAM = "qemu-system-aarch64"
_READY = b"board: ready"
_POLL_S = 0.02
_ANSWER_S = 20.0
_LAST_LINES = 4
_LAST_CHARACTERS = 400
_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[^\n\x20-\x7e]")
_FORWARDED = re.compile(r"TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)")


class Machine:
    """One machine. Nothing it does outlives it: its disk is its memory. Many can run from one image at once.

    The kernel kills it when this process ends, however that happens. Its SSH port listens on 127.0.0.1 alone; the guest
    reaches no network. The port stays the same over `reset`, and over `restart` unless somebody takes it in between.
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
        """Whether the emulator runs; the system in it may hang all the same."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id of the emulator; raises BoardLost when it was never started."""
        if self._process is None:
            raise BoardLost(f"board '{self.name}' is off: start it")
        return self._process.pid

    @property
    def address(self) -> BoardAddress:
        """How SSH reaches it; with the settings in `ssh_config`, its host key is verified."""
        return BoardAddress(
            name=self.name,
            target=self._target,
            ssh=f"{self._image.recipe.user}@127.0.0.1:{self._port}",
            identity=str(self._image.client_key),
        )

    @property
    def ssh_config(self) -> Path:
        """A configuration for SSH clients (`ssh -F`) by which any address is this machine; known_hosts lies beside."""
        return self._folder / "ssh_config"

    @property
    def console(self) -> Path:
        """What the machine has printed since it was started, kernel's messages included."""
        return self._folder / "console.log"

    def start(self, timeout_s: float = 90.0) -> None:
        """Start it and wait until its SSH server listens.

        Raises ToolchainMissing (no QEMU), BoardLost (not up within `timeout_s`; the console's last lines say why).
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
        """Cut the power, switch it on again and wait until its SSH server listens. Raises BoardLost."""
        self.kill()
        self.start(timeout_s)

    def kill(self) -> None:
        """Cut the power."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
        if self._process is not None:
            self._process.wait()
        if self._monitor is not None:
            self._monitor.close()
            self._monitor = None

    def stop(self) -> None:
        """Cut the power and remove the machine's files. May be called twice."""
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
            [Program(_PROGRAM, "qemu-system-arm", role), Program("setpriv", "util-linux", f"which ends {role}")]
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
        """Wait until the emulator itself is there."""
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
        """The end of what QEMU and the console said, in one line."""
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
    return str(path).replace(",", ",,")  # as QEMU reads options


@lru_cache(maxsize=1)
def _starter(process: int) -> ThreadPoolExecutor:
    """The thread that starts machines, of the process `process`.

    The kernel ties a machine's life to the thread that started it, and this one lives as long as the process.
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
            start_new_session=True,  # Ctrl-C at the terminal is for us
        )
