"""A real sshd on a free port of loopback, as the user who runs the tests, with its own key and its own home."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
import time
from pathlib import Path

import paramiko
import psutil

from tests.boards.ports import free_port

SSHD = "/usr/sbin/sshd"
_PRIVILEGE_SEPARATION = Path("/run/sshd")  # root's sshd wants it; where there is systemd, it is made at boot


class OpenSshServer:
    """A running sshd; `user_key` may log in. `log` returns what it did."""

    def __init__(self, root: Path, user_key: paramiko.PKey, *settings: str, sftp: bool = True) -> None:
        self.root = root
        (root / "home").mkdir(parents=True)
        (root / "tmp").mkdir()
        self.user = pwd.getpwuid(os.getuid()).pw_name
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(root / "host_key")], check=True)
        (root / "authorized_keys").write_text(f"{user_key.get_name()} {user_key.get_base64()}\n")
        self.port = free_port()
        self.log = root / "log"
        lines = (
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {root / 'host_key'}",
            f"AuthorizedKeysFile {root / 'authorized_keys'}",
            "PidFile none",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "PermitRootLogin prohibit-password",
            "LogLevel DEBUG",
            f"SetEnv HOME={root / 'home'}",
            *(("Subsystem sftp internal-sftp",) if sftp else ()),
            *settings,
        )
        (root / "sshd_config").write_text("\n".join(lines) + "\n")
        if os.getuid() == 0:
            _PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
        self.start()

    def start(self) -> None:
        """Start it with its configuration as that is now."""
        command = [SSHD, "-D", "-f", str(self.root / "sshd_config"), "-E", str(self.log)]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        self._wait()

    def cut(self) -> None:
        """Kill the processes of all connections."""
        for connection in psutil.Process(self._process.pid).children():
            connection.kill()

    def _wait(self) -> None:
        end = time.monotonic() + 60.0
        while time.monotonic() < end:
            assert self._process.poll() is None, self.log.read_text()
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1.0):
                    return
            except OSError:
                time.sleep(0.05)
        raise AssertionError(self.log.read_text())

    @property
    def known_hosts_line(self) -> str:
        """Its line for known_hosts."""
        kind, key = (self.root / "host_key.pub").read_text().split()[:2]
        return f"[127.0.0.1]:{self.port} {kind} {key}\n"

    def close(self) -> None:
        """End it, cut what is connected. May be called twice."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGSTOP)  # takes no more
            self.cut()
            self._process.kill()
            self._process.wait(10.0)
