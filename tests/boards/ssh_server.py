"""T1: a board that is an SSH server on loopback, in the test's own process, and that misbehaves on command.

Commands run by /bin/sh in a private folder; programs of a foreign architecture run under user-mode QEMU. What the board
says of itself (uname, getconf, ldd, ...) is set by `answers`. All links pass a `FaultyLink`.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import socket
import stat
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
from paramiko import common

from edgetune.boards.agent.build import build_launcher
from tests.boards.clock_shift import Clock
from tests.boards.faulty_link import FaultyLink
from tests.boards.ssh_files import BoardFiles

_CHUNK = 1 << 15
_ELF_MACHINES = {
    183: ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"),
    40: ("qemu-arm", "-L", "/usr/arm-linux-gnueabihf"),
    243: ("qemu-riscv64", "-L", "/usr/riscv64-linux-gnu"),
}
_MARK = "EDGETUNE_TEST_BOARD"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"

AARCH64 = {
    "uname -m": "aarch64",
    "getconf LONG_BIT": "64",
    "getconf GNU_LIBC_VERSION": "glibc 2.31",
    "nproc": "4",
}


@dataclass
class Faults:
    """What the server does wrong; may be changed at any time. Faults of the link are those of `SshBoard.link`."""

    refuse_login: bool = False
    sftp: bool = True
    sftp_hangs: bool = False
    disk_bytes: int | None = None  # that may still be written, over SFTP and by cat
    noexec: list[str] = field(default_factory=list)  # names of the folders below the board's root
    noise: bytes = b""  # printed before the output of a command, as a careless login script does
    refuse_channels: bool = False
    refuse_commands: bool = False
    hang_commands: bool = False  # takes a command and never answers
    half_close_after: int | None = None  # bytes of output after which the output ends while the program goes on
    kill_after: int | None = None  # bytes of output after which the program is killed
    status_lost: bool = False  # no exit status is sent
    late_output_s: float = 0.0  # after the exit status, until the output is sent: OpenSSH may send it first
    ignores_window: bool = False  # sends output and errors whether or not the client granted room for them


class SshBoard:
    """The board. `close` returns what it left behind before it removes that."""

    def __init__(self, root: Path, answers: dict[str, str] | None = None, *, user_key: paramiko.PKey) -> None:
        self.root = root
        self.faults = Faults()
        self.answers = dict(answers or {})
        self.user_key = user_key
        self.clock: Clock | None = None  # of programs of this machine's architecture that start from then on
        self.host_key: paramiko.PKey = paramiko.ECDSAKey.generate()
        self.commands: list[str] = []
        self.mark = secrets.token_hex(8)
        for name in ("home", "shm", "tmp", "bin"):
            (root / name).mkdir(parents=True)
        self.folders = (str(root / "shm"), str(root / "tmp"))
        self.new_boot()
        self._transports: list[paramiko.Transport] = []
        self._closed = False
        self._lock = threading.Lock()
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(32)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        self.link = FaultyLink(self._listener.getsockname()[1])

    @property
    def port(self) -> int:
        """Where it listens, on 127.0.0.1."""
        return self.link.port

    @property
    def known_hosts_line(self) -> str:
        """Its line for known_hosts."""
        return f"[127.0.0.1]:{self.port} {self.host_key.get_name()} {self.host_key.get_base64()}\n"

    def new_boot(self) -> None:
        """Change the id of the boot."""
        (self.root / "boot_id").write_text(secrets.token_hex(16) + "\n")

    def environment(self) -> dict[str, str]:
        """Write the stand-ins of programs by `answers` and `faults`; return what commands see."""
        self._stand_ins()
        return {
            "HOME": str(self.root / "home"),
            "PATH": f"{self.root / 'bin'}:/usr/bin:/bin",
            "LANG": "C",
            _MARK: self.mark,
            "EDGETUNE_LOCK": f"edgetune-{self.mark}",  # a board of its own, though all tests share one machine
            **(self.clock.environment if self.clock is not None else {}),
        }

    def _stand_ins(self) -> None:
        programs: dict[str, list[str]] = {"cat": [f"'{_BOOT_ID}') exec /bin/cat '{self.root}/boot_id';;"]}
        for command, answer in self.answers.items():
            program, _, rest = command.partition(" ")
            if answer == "missing":
                text = f"*) echo '{program}: not found' >&2; exit 127;;"
            else:
                text = f"'{rest}') printf '%s\\n' '{answer}'; exit 0;;"
            programs.setdefault(program, []).append(text)
        if self.faults.disk_bytes is not None:
            space = self.faults.disk_bytes // 1024
            programs["cat"].append("'') echo 'cat: write error: No space left on device' >&2; exit 1;;")
            programs["df"] = [f"*) printf 'F 1K-blocks U A C M\\n/dev/x 9 9 {space} 99%% /\\n'; exit 0;;"]
        if self.faults.noexec:
            pattern = "|".join(f"*{self.root}/{name}/*" for name in self.faults.noexec)
            programs["chmod"] = [f'{pattern}) for last; do :; done; exec /bin/chmod 600 "$last";;']
        for stale in (self.root / "bin").iterdir():
            if stale.name not in programs:
                stale.unlink(missing_ok=True)
        for program, cases in programs.items():
            text = f'#!/bin/sh\ncase "$*" in\n{chr(10).join(cases)}\nesac\nexec "/usr/bin/{program}" "$@"\n'
            file = self.root / "bin" / program
            if file.is_file() and file.read_text() == text:
                continue
            beside = file.with_name(f".{program}.{threading.get_ident()}")
            beside.write_text(text)
            beside.chmod(0o755)
            beside.replace(file)

    def _accept(self) -> None:
        while True:
            try:
                stream, _ = self._listener.accept()
            except OSError:
                return
            transport = ServerTransport(stream)
            transport.add_server_key(self.host_key)
            transport.set_subsystem_handler("sftp", paramiko.SFTPServer, BoardFiles)
            with self._lock:
                self._transports = [link for link in self._transports if link.is_active()] + [transport]
            with suppress(paramiko.SSHException, OSError, EOFError):
                transport.start_server(event=threading.Event(), server=Session(self))

    def processes(self) -> list[int]:
        """Return the ids of all processes that were started by commands and still run."""
        mark = f"{_MARK}={self.mark}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                    found += [int(entry.name)] if state != "Z" else []
        return found

    def left(self, timeout_s: float = 10.0) -> list[int]:
        """Return `processes` once those that were killed are gone: a signal returns before its process has ended."""
        end = time.monotonic() + timeout_s
        while (found := self.processes()) and time.monotonic() < end:
            time.sleep(0.02)
        return found

    def kill_programs(self) -> None:
        """Kill every process of the board."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def files(self) -> list[str]:
        """Return what lies in the folders in which programs are put, and at home."""
        return sorted(
            str(path.relative_to(self.root))
            for folder in ("shm", "tmp", "home")
            for path in (self.root / folder).rglob("*")
        )

    def reboot(self, down_s: float) -> None:
        """Lose all programs and links, stay away for `down_s` seconds."""
        self.link.refuse()
        self.kill_programs()
        self.new_boot()
        time.sleep(down_s)
        self.link.accept_again()

    def close(self) -> None:
        """End everything."""
        self._closed = True
        self.link.close()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5.0)
        for transport in self._transports:
            transport.close()
            transport.join(5.0)
            transport.sock.close()
        self.kill_programs()


class ServerTransport(paramiko.Transport):
    """Starts a program once the client knows that it was accepted, as sshd does: a quick one would end before that."""

    def __init__(self, stream: socket.socket) -> None:
        super().__init__(stream)
        self.pending: list[Program] = []

    def _send_user_message(self, data: paramiko.Message) -> None:
        super()._send_user_message(data)  # type: ignore[misc]  # the stubs leave it out
        if data.asbytes()[:1] == common.cMSG_CHANNEL_SUCCESS:
            while self.pending:
                self.pending.pop(0).start()


class Session(paramiko.ServerInterface):
    """One connection to the board."""

    def __init__(self, board: SshBoard) -> None:
        self.board = board

    def get_allowed_auths(self, _: str) -> str:
        return "publickey"

    def check_auth_publickey(self, _: str, key: paramiko.PKey) -> int:
        good = key == self.board.user_key and not self.board.faults.refuse_login
        return common.AUTH_SUCCESSFUL if good else common.AUTH_FAILED

    def check_channel_request(self, kind: str, _: int) -> int:
        if self.board.faults.refuse_channels:
            return common.OPEN_FAILED_RESOURCE_SHORTAGE
        return common.OPEN_SUCCEEDED if kind == "session" else common.OPEN_FAILED_UNKNOWN_CHANNEL_TYPE

    def check_channel_subsystem_request(self, channel: paramiko.Channel, name: str) -> bool:
        faults = self.board.faults
        if faults.sftp_hangs:
            time.sleep(5.0)
        return faults.sftp and super().check_channel_subsystem_request(channel, name)

    def check_channel_direct_tcpip_request(self, chanid: int, _: tuple[str, int], destination: tuple[str, int]) -> int:
        try:
            stream = socket.create_connection(destination, timeout=5.0)
        except OSError:
            return common.OPEN_FAILED_CONNECT_FAILED
        threading.Thread(target=self._forward, args=(chanid, stream), daemon=True).start()
        return common.OPEN_SUCCEEDED

    def _forward(self, chanid: int, stream: socket.socket) -> None:
        link = next(link for link in self.board._transports if getattr(link, "server_object", None) is self)
        channel = None
        while channel is None or channel.get_id() != chanid:
            channel = link.accept(5.0)
            if channel is None:
                stream.close()
                return
        stream.settimeout(None)
        back = threading.Thread(target=_copy, args=(stream, channel), daemon=True)
        back.start()
        with stream, suppress(EOFError):  # the client may have closed its connection before
            _copy(channel, stream)
            back.join()
            channel.close()

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        text = command.decode()
        self.board.commands.append(text)
        if self.board.faults.refuse_commands:
            return False
        if self.board.faults.hang_commands:
            return True
        if re.search(r"\breboot\b", text):
            threading.Thread(target=self.board.reboot, args=(0.5,), daemon=True).start()
            return True  # nothing runs there any more that could fail before the link goes down
        link = channel.get_transport()
        assert isinstance(link, ServerTransport)
        link.pending.append(Program(self.board, channel, _emulated(text, self.board.root / "launcher")))
        return True


class Program(threading.Thread):
    """A command that runs for a channel."""

    def __init__(self, board: SshBoard, channel: paramiko.Channel, command: str) -> None:
        super().__init__(daemon=True)
        self._board = board
        self._channel = channel
        self._faults = board.faults
        self._killed = False  # by us, though it may have been quicker
        self._command = command

    def run(self) -> None:
        channel = self._channel
        self._process = process = subprocess.Popen(
            ["/bin/sh", "-c", self._command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._board.root / "home",
            env=self._board.environment(),
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        pumps = [threading.Thread(target=target, daemon=True) for target in (self._output, self._errors, self._input)]
        for pump in pumps:
            pump.start()
        pumps[0].join()
        pumps[1].join()
        status = process.wait()
        with suppress(OSError, EOFError, paramiko.SSHException):
            if not self._faults.status_lost and status >= 0 and not self._killed and not self._faults.late_output_s:
                channel.send_exit_status(status)
            if self._faults.half_close_after is None:
                channel.close()
        with suppress(OSError, EOFError, paramiko.SSHException):  # the link may be cut
            channel.close()
        pumps[2].join(5.0)
        for stream in (process.stdin, process.stdout, process.stderr):
            with suppress(OSError):
                stream.close()

    def _output(self) -> None:
        assert self._process.stdout is not None
        sent = 0
        with suppress(OSError, EOFError, paramiko.SSHException):
            if self._faults.ignores_window:
                self._channel.out_window_size = 1 << 30
            if self._faults.noise:
                self._channel.sendall(self._faults.noise)
            if self._faults.late_output_s:
                self._send_late(self._process.stdout.fileno())
            while data := os.read(self._process.stdout.fileno(), _CHUNK):
                before, sent = sent, sent + len(data)
                limit = self._faults.kill_after
                if limit is not None and sent >= limit:
                    self._killed = True
                    self._process.kill()
                    self._channel.sendall(data[: limit - before] if before < limit else data)
                    break
                if self._faults.half_close_after is not None and sent >= self._faults.half_close_after:
                    self._channel.shutdown_write()
                    break
                self._channel.sendall(data)
        if self._channel.closed:
            self._process.stdout.close()  # the next write of the program fails, as with sshd

    def _send_late(self, output: int) -> None:
        """Send the line by which a command begins, and the rest when its exit status has long been sent."""
        first = b""
        while not first.endswith(b"\n") and (byte := os.read(output, 1)):
            first += byte
        self._channel.sendall(first)
        rest = b""
        while data := os.read(output, _CHUNK):
            rest += data
        self._channel.send_exit_status(self._process.wait())
        time.sleep(self._faults.late_output_s)
        self._channel.sendall(rest)

    def _errors(self) -> None:
        assert self._process.stderr is not None
        with suppress(OSError, EOFError, paramiko.SSHException):
            while data := os.read(self._process.stderr.fileno(), _CHUNK):
                self._channel.sendall_stderr(data)

    def _input(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError, EOFError, paramiko.SSHException):
            while data := self._channel.recv(_CHUNK):
                self._process.stdin.write(data)
                self._process.stdin.flush()
        with suppress(OSError):
            self._process.stdin.close()


def _copy(source: socket.socket | paramiko.Channel, sink: socket.socket | paramiko.Channel) -> None:
    with suppress(OSError, EOFError, paramiko.SSHException):
        while data := source.recv(_CHUNK):
            sink.sendall(data)
    with suppress(OSError, EOFError, paramiko.SSHException):
        sink.shutdown(socket.SHUT_WR)


def _emulated(command: str, cache: Path) -> str:
    """Put the emulator before programs of a foreign architecture, so that orphans come back to them as on boards."""

    def replace(match: re.Match[str]) -> str:
        words = _ELF_MACHINES.get(_elf_machine(Path(match[1])))
        return match[0] if words is None else f"exec {build_launcher(cache)} {' '.join(words)} {match[1]}"

    return re.sub(r"exec (/[\w/.+-]+)", replace, command)


def _elf_machine(file: Path) -> int:
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            return 0
        with file.open("rb") as stream:
            head = stream.read(20)
    except OSError:
        return 0
    return int.from_bytes(head[18:20], "little") if head[:4] == b"\x7fELF" else 0
