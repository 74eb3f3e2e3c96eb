"""What tests of SSH boards need: a home with a key and known hosts, boards (T1), ways to them, the events they told."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
import pytest

from edgetune.boards.ssh.reach import SshReach
from edgetune.boards.ssh.stream import SshStream
from edgetune.config.boards_file import BoardAddress
from edgetune.errors import BoardLost
from edgetune.events import Event
from edgetune.target.target import Target, load_target
from tests.boards.ssh_server import AARCH64, SshBoard


@dataclass
class Bench:
    """A user's home; `board` makes a board, `reach` a way to it. Everything is closed at the end."""

    home: Path
    key: paramiko.PKey
    events: list[Event] = field(default_factory=list)
    boards: list[SshBoard] = field(default_factory=list)
    reaches: list[SshReach] = field(default_factory=list)

    def board(self, answers: dict[str, str] | None = None, *, known: bool = True) -> SshBoard:
        """Start a board, an aarch64 one by default, whose host key the user knows."""
        root = self.home / f"board{len(self.boards)}"
        board = SshBoard(root, {**AARCH64, **(answers or {})}, user_key=self.key)
        self.boards.append(board)
        if known:
            self.know(board.known_hosts_line)
        return board

    def know(self, line: str) -> None:
        """Add a line to the user's known_hosts."""
        with (self.home / ".ssh" / "known_hosts").open("a") as stream:
            stream.write(line)

    def configure(self, text: str) -> None:
        """Write the user's ~/.ssh/config."""
        (self.home / ".ssh" / "config").write_text(text)

    def address(self, board: SshBoard, **more: object) -> BoardAddress:
        """Return an address for a board."""
        fields = {"name": "shelf-1", "target": "generic-aarch64", "ssh": f"pi@127.0.0.1:{board.port}", **more}
        return BoardAddress.model_validate(fields)

    def reach(
        self, board: SshBoard, folders: Sequence[str] | None = None, target: Target | None = None, **more: object
    ) -> SshReach:
        """Return a way to a board; `more` are fields of its address."""
        reach = SshReach(
            self.address(board, **more),
            target or load_target("generic-aarch64"),
            on_event=self.events.append,
            folders=board.folders if folders is None else folders,
        )
        self.reaches.append(reach)
        return reach

    def told(self) -> list[str]:
        """Return what the events of boards say."""
        return [f"{event.data['what']}: {event.data['detail']}" for event in self.events]


@contextmanager
def opened(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Make a home for the test, in which only its own key is."""
    (home / ".ssh").mkdir(parents=True)
    key = paramiko.ECDSAKey.generate()
    key.write_private_key_file(str(home / ".ssh" / "id_ecdsa"))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    bench = Bench(home, key)
    try:
        yield bench
    finally:
        for reach in bench.reaches:
            reach.close()
        for board in bench.boards:
            board.close()


def received(transport: SshStream, size: int, timeout_s: float = 30.0) -> bytes:
    """Return the first `size` bytes that a program says, fewer when time runs out."""
    got = bytearray()
    end = time.monotonic() + timeout_s
    while len(got) < size and time.monotonic() < end:
        if select.select([transport], [], [], 1.0)[0]:
            got += transport.receive()
    return bytes(got)


def ended(transport: SshStream, timeout_s: float = 30.0) -> BoardLost:
    """Wait for the end of a program; return the message that reports it."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        select.select([transport], [], [], 1.0)
        try:
            transport.receive()
        except BoardLost as error:
            return error
    pytest.fail(f"no end within {timeout_s} s")
