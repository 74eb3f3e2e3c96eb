"""Reach of a board over SSH; implements `edgetune.boards.reach.Reach`."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from edgetune.boards.reach import BoardFacts, CommandResult
from edgetune.boards.round_trip import COMMAND, LOGIN, STEPS
from edgetune.boards.ssh import facts as asking
from edgetune.boards.ssh.client_config import ClientConfig
from edgetune.boards.ssh.connection import Connection
from edgetune.boards.ssh.deadline import Deadline
from edgetune.boards.ssh.remote_process import RemoteProcess, printable, run_command
from edgetune.boards.ssh.route import resolve_route
from edgetune.boards.ssh.staging import FOLDERS, Staging
from edgetune.boards.ssh.stream import SshStream
from edgetune.boards.ssh.tunnel import Tunnel
from edgetune.config.boards_file import BoardAddress
from edgetune.errors import BoardLost, BoardUnavailable, BoardUnfit, HostUnknown, ToolHung
from edgetune.events import Event
from edgetune.ipc.process_group import program
from edgetune.target.target import Target

_FACTS_S = 30.0
_CLEAN_S = 15.0
_LEAVE_S = 5.0  # short, so that closing does not wait long for a lost board
_ASK_S = 10.0
_RETRY_S = 0.5
_WAIT_S = 2.0  # another thread gets this time to end its call before its link is cut
_BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


class SshReach:
    """A board with an address. Making one needs no network; every call connects if necessary.

    A deadline begins when the link is up; it is the time given to the call plus the round trips of the link
    (`round_trip.allowed_s`). Without a `target`, any machine will do. `folders` are tried after the folder of the
    address. Events of kind "board" report every fallback.
    """

    def __init__(
        self,
        address: BoardAddress,
        target: Target | None,
        *,
        on_event: Callable[[Event], None] = lambda _: None,
        config: ClientConfig | None = None,
        folders: Sequence[str] = FOLDERS,
    ) -> None:
        self._address = address
        self._target = target
        self._on_event = on_event
        self._route = resolve_route(address.ssh, config or ClientConfig(), address.identity)
        self._connection = Connection(address.name, self._route)
        first = (address.folder,) if address.folder else ()
        candidates = tuple(dict.fromkeys((*first, *folders)))
        self._staging = Staging(address.name, self._connection, candidates, self._announce)
        self._programs: list[SshStream] = []
        self._tunnels: list[Tunnel] = []
        self._boot = ""
        self._answered = False
        self._said: dict[str, str] = {}
        self._scanned = ""
        self._lock = threading.RLock()
        self._leaving = threading.Event()  # from `clean` and `close` to the next `connect`: waits end at once

    @property
    def name(self) -> str:
        """Name of the board."""
        return self._address.name

    @property
    def round_trip_s(self) -> float:
        """Latest round-trip time to the board in seconds."""
        return self._connection.round_trip_s

    def _announce(self, detail: str, what: str = "fallback") -> None:
        self._on_event(Event("board", {"board": self.name, "what": what, "detail": detail}))

    def connect(self, timeout_s: float = 20.0) -> None:
        """Connect; does nothing when the link is up, reconnects when it is down.

        A board that answered before and does not answer now may be booting, so this waits for it until the deadline.
        Raises HostUnknown, HostKeyRefused, AuthenticationRefused, BoardLost.
        """
        deadline = Deadline(self._connection.allowed(timeout_s, LOGIN))
        with self._lock:
            self._leaving.clear()
            while True:
                try:
                    self._link(deadline.left if self._answered else timeout_s)
                except (HostUnknown, BoardLost):
                    if not self._answered or deadline.left < _RETRY_S or self._leaving.wait(_RETRY_S):
                        raise
                else:
                    return

    def _link(self, timeout_s: float) -> None:
        if not self._connection.alive:
            self._connection.open(self._connection.allowed(timeout_s))
            self._answered = True

    def _linked(self, timeout_s: float, trips: int) -> Deadline:
        """Connect if necessary; return the deadline of a step that begins now: `timeout_s` plus `trips` round trips."""
        self._link(timeout_s)
        return Deadline(self._connection.allowed(timeout_s, trips))

    def facts(self) -> BoardFacts:
        """Query the facts of the board, make a folder there, remove the files of crashed sessions.

        Raises BoardUnfit when the board does not match its target, BoardFull.
        """
        described = self.describe()
        if self._target is not None and (problem := asking.misfit(described, self._target)) is not None:
            raise BoardUnfit(f"board '{self.name}' {problem}")
        with self._lock:
            deadline = self._linked(_FACTS_S, STEPS)
            self._staging.remove_stale(self._scanned, deadline)
            self._staging.prepare(deadline)
            return asking.board_facts(self._said, self._staging.folder, self._staging.free_bytes)

    def describe(self) -> BoardFacts:
        """Query the facts of the board, even if it does not match, and write nothing there; `folder` is empty."""
        with self._lock:
            deadline = self._linked(_FACTS_S, STEPS)
            script = f"{asking.SCRIPT}{self._staging.scan_script()}say end here"
            finished, _ = run_command(self.name, self._connection, script, deadline)
            self._said = asking.parse(finished.stdout)
            if "end" not in self._said:
                raise BoardLost(f"board '{self.name}' did not finish describing itself: its shell was killed")
            self._boot = self._said.get("boot", "")
            self._scanned = finished.stdout
            return asking.board_facts(self._said, "", 0)

    def start(self, program: Path, arguments: Sequence[str], timeout_s: float = 10.0) -> SshStream:
        """Put the program on the board (once per content) and start it. Raises BoardFull, BoardLost."""
        with self._lock:
            path = self.put(program, timeout_s)
            deadline = Deadline(self._connection.allowed(timeout_s, COMMAND))
            command = f"exec {' '.join(shlex.quote(word) for word in (path, *arguments))}"
            process = RemoteProcess(self.name, self._connection, command, deadline, record=self._staging.pids_file)
            started = SshStream(process)
            self._programs.append(started)
            return started

    def run(self, command: str, timeout_s: float, stdin: bytes = b"") -> CommandResult:
        """Run one shell command; raises BoardLost when it has not ended after `timeout_s`."""
        with self._lock:
            deadline = self._linked(timeout_s, COMMAND)
        return run_command(self.name, self._connection, f"{command}\nexit $?", deadline, stdin)[0]

    def put(self, local: Path, timeout_s: float) -> str:
        """Copy a file to the board (once per content); return its path there. Raises BoardFull, BoardLost."""
        with self._lock:
            deadline = self._linked(timeout_s, STEPS)
            sftp = self._staging.sftp
            try:
                return self._staging.put(local, deadline)
            except BoardLost:
                if self._staging.sftp == sftp or deadline.over:
                    raise
                self._link(deadline.left)  # SFTP hung; use the remaining time for the other method
                return self._staging.put(local, deadline)

    def forward(self, port: int) -> Tunnel:
        """Listen on a free port of this machine's loopback and forward it to `port` of the board's loopback."""
        with self._lock:
            self._link(_ASK_S)
            tunnel = Tunnel(self._connection, port)
            self._tunnels = [*(one for one in self._tunnels if not one.closed), tunnel]
            return tunnel

    def clean(self) -> None:
        """Remove all files and end all processes that we put or started on the board. Raises BoardUnavailable."""
        with self._alone():
            self._leave(_CLEAN_S)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock. Another thread's call that does not end soon is ended: first its waits, then its link."""
        self._leaving.set()
        if not self._lock.acquire(timeout=_WAIT_S):
            self._connection.abort()
            self._lock.acquire()
        try:
            yield
        finally:
            self._lock.release()

    def _leave(self, timeout_s: float) -> None:
        while self._programs:
            self._programs.pop().close()
        if not self._staging.clean:
            self._staging.remove(self._linked(timeout_s, 2 * COMMAND))

    def close(self) -> None:
        """Clean up, as far as the board still answers, and disconnect. May be called twice.

        Another thread that waits for the board gets BoardLost.
        """
        with self._alone():
            while self._tunnels:
                self._tunnels.pop().close()
            try:
                self._leave(_LEAVE_S)
            except BoardUnavailable as error:
                self._announce(
                    f"its files could not be removed; the next session removes them: {error.message}", "lost"
                )
            finally:
                self._staging.end()
                self._connection.close()

    def reboot(self, timeout_s: float) -> bool:
        """Restart the board by the `reboot` command of its address and wait until it answers; False: there is none.

        Raises BoardLost when the command fails, or the board does not come back within `timeout_s`.
        """
        if self._address.reboot is None:
            return False
        deadline = Deadline(self._connection.allowed(timeout_s, STEPS))
        with self._lock:
            self._stay()
            known = self._boot
            self._await("", deadline)
            if known and self._boot != known:
                self._announce("it has restarted by itself", "rung")
                return True
            before = self._boot
            finished = None
            with suppress(BoardLost):  # a reboot takes the link down
                finished = self.run(self._address.reboot, min(timeout_s, _ASK_S))
            if finished is not None and finished.status > 0 and self._connection.alive:
                said = printable(finished.stderr.encode())[:200]
                raise BoardLost(f"board '{self.name}': its `reboot` command failed there: {said}")
            self._await(before, deadline)
            return True

    def power_cycle(self, timeout_s: float) -> bool:
        """Switch the power off and on by the command of its address, wait until it answers; False: there is none.

        Raises BoardLost when the command fails, or the board does not come back within `timeout_s`.
        """
        if self._address.power is None:
            return False
        deadline = Deadline(self._connection.allowed(timeout_s, STEPS))
        with self._lock:
            self._stay()
            before = self._boot
            self._power(self._address.power, deadline)
            self._connection.close()
            self._await(before, deadline)
            return True

    def _stay(self) -> None:
        if self._leaving.is_set():
            raise BoardLost(f"board '{self.name}' was closed")

    def _power(self, words: Sequence[str], deadline: Deadline) -> None:
        """Run the power command; messages never show it, because it may contain passwords.

        What it leaves running when it has ended lives on: perhaps that switches the power on later.
        """
        what = f"board '{self.name}': its `power` command"
        with tempfile.TemporaryFile() as errors:
            try:
                with program(words, leave=True, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors) as process:
                    while (status := process.poll()) is None and not deadline.over:
                        self._stay()
                        with suppress(subprocess.TimeoutExpired):
                            process.wait(min(_RETRY_S, deadline.left))
            except OSError as error:
                raise BoardLost(f"{what} cannot be started here: {error.strerror}") from error
            except ToolHung as error:
                raise BoardLost(f"{what} did not end within {deadline.seconds:.0f} s: {error.message}") from None
            errors.seek(0)
            said = printable(errors.read())[-200:]
        if status is None:
            raise BoardLost(f"{what} did not end within {deadline.seconds:.0f} s")
        if status != 0:
            raise BoardLost(f"{what} failed with status {status}: {said}")

    def _boot_id(self) -> str:
        deadline = Deadline(self._connection.allowed(_ASK_S, COMMAND))
        return run_command(self.name, self._connection, _BOOT_ID, deadline)[0].stdout.strip()

    def _await(self, before: str, deadline: Deadline) -> None:
        """Connect again and again until the board's boot id differs from `before`."""
        problem = "it is still the same boot"
        while not deadline.over:
            self._stay()
            try:
                self._link(min(_ASK_S, max(0.1, deadline.left)))
                self._boot = self._boot_id()
                if not before or self._boot != before:
                    return
            except BoardUnavailable as error:
                problem = error.message
            self._leaving.wait(min(_RETRY_S, deadline.left))
        raise BoardLost(f"board '{self.name}' did not come back within {deadline.seconds:.0f} s: {problem}")
