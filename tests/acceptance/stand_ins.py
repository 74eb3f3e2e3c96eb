"""A user with boards that stand in for real ones, and a search of his that is watched while it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paramiko

from tests.acceptance.case import child_environment, command_line
from tests.boards.clock_shift import Clock
from tests.boards.ssh_server import SshBoard

MARKER = "ACCEPTANCE_SOAK"
_TOLD = 12
TARGET = """\
name: soak
description: stand-ins on this machine
isa: x86_64
triple: x86_64-linux-gnu
cpu: x86-64-v3
vector_bits: 256
vector_registers: 16
cores: 1
l1_bytes: 32768
l2_bytes: 1048576
reach: ssh
compiler:
  cc: {cc}
  cflags: [-O2, -mavx2, -mfma]
"""


@dataclass
class Home:
    """A user with a key, a target and boards of it; his clock and theirs are made to jump by `jump`."""

    path: Path
    boards: dict[str, SshBoard] = field(default_factory=dict)
    clock: Clock | None = None

    def furnish(self, count: int, compiler: str | Path) -> None:
        """Write the user's files, start the boards."""
        (self.path / ".ssh").mkdir(parents=True)
        config = self.path / ".config" / "edgetune"
        (config / "targets").mkdir(parents=True)
        (config / "targets" / "soak.yaml").write_text(TARGET.format(cc=compiler))
        key = paramiko.ECDSAKey.generate()
        key.write_private_key_file(str(self.path / ".ssh" / "id_ecdsa"))
        self.clock = Clock(self.path.with_name("clocks"))
        entries = []
        for number in range(count):
            board = SshBoard(self.path / f"board{number}", user_key=key)
            board.clock = Clock(self.path.with_name("clocks") / str(number))
            name = f"soak-{number}"
            self.boards[name] = board
            way = f"ssh: pi@127.0.0.1:{board.port}, folder: {board.folders[0]}, reboot: reboot"
            entries.append(f"  {name}: {{target: soak, {way}}}\n")
        (config / "boards.yaml").write_text("boards:\n" + "".join(entries))
        lines = "".join(board.known_hosts_line for board in self.boards.values())
        (self.path / ".ssh" / "known_hosts").write_text(lines)

    def environment(self) -> dict[str, str]:
        """What the user's commands see."""
        own = {"HOME": str(self.path), "XDG_CONFIG_HOME": str(self.path / ".config"), MARKER: str(os.getpid())}
        own["XDG_CACHE_HOME"] = str(self.path / ".cache")
        own |= self.clock.environment if self.clock is not None else {}
        return {name: value for name, value in child_environment().items() if name != "SSH_AUTH_SOCK"} | own

    def leave(self) -> None:
        """Raise AssertionError for what a search left on the boards; end them."""
        try:
            for name, board in self.boards.items():
                assert not (left := board.left()), f"{name} is left with processes {left}"
                assert not board.files(), f"{name} is left with files {board.files()[:5]}"
        finally:
            self.close()

    def close(self) -> None:
        """End the boards, whatever is on them."""
        for board in self.boards.values():
            board.close()


class Search:
    """`edgetune tune --json` with `words`, in a process; reads its events, each of which gets the time `at` (seconds).

    `log` takes what it answers, `count` grows with every candidate.
    """

    def __init__(self, words: Sequence[str | Path], log: Path, *, cwd: Path, environment: Mapping[str, str]) -> None:
        self.events: list[dict[str, Any]] = []
        self.last = time.monotonic()
        self.longest_silence = 0.0
        self.count = 0
        self._result = log
        with log.open("w") as result:
            self.process = subprocess.Popen(
                command_line("tune", "--json", *words),
                cwd=cwd,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=result,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            now = time.monotonic()
            self.longest_silence, self.last = max(self.longest_silence, now - self.last), now
            if not line.startswith("{"):
                sys.stdout.write(line)
                continue
            self.events.append(json.loads(line) | {"at": now})
            self.count += kind_of(self.events[-1]) == "candidate"

    @property
    def silence(self) -> float:
        """The longest silence so far, the one that lasts included (seconds)."""
        return max(self.longest_silence, time.monotonic() - self.last)

    def until(self, there: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait for something; raise AssertionError when it does not come within `seconds`, or the search ends."""
        limit = time.monotonic() + seconds
        while not there():
            assert self.process.poll() is None, f"the search ended with {self.process.returncode} before {what}"
            assert time.monotonic() < limit, f"{what}: not within {seconds:g} s"
            time.sleep(0.02)

    def of_board(self, name: str | None = None) -> list[dict[str, Any]]:
        """The events of boards so far, of all or of one."""
        events = [event for event in list(self.events) if kind_of(event) == "board"]
        return [event for event in events if name in {None, event["board"]}]

    def told(self, name: str, after: float) -> set[str]:
        """What kinds of events a board had since a time."""
        return {event["what"] for event in self.of_board(name) if event["at"] >= after}

    def wait(self, seconds: float) -> int:
        """Return the exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"the search has not ended after {seconds:.0f} s") from error
        finally:
            self.close()

    def close(self) -> None:
        """End the process if it has not ended, and read what it said last."""
        self.process.kill()
        self.process.wait()
        self._reader.join(60.0)
        if self.process.stderr is not None:
            self.process.stderr.close()

    def told_last(self) -> str:
        """The last events, for the message of a check that fails."""
        return "\n".join(json.dumps(event) for event in self.events[-_TOLD:])

    def result(self) -> dict[str, Any]:
        """What the command answered."""
        return dict(json.loads(self._result.read_text()))


def kind_of(event: Mapping[str, Any]) -> str:
    """What an event is about: candidate, board, summary, ..."""
    return str(event.get("event", event.get("kind", "")))
