"""Reach of an emulated board: starts the machine, then uses it like any board with an SSH address."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from edgetune.boards.machine.image import find_image
from edgetune.boards.machine.machine import Machine
from edgetune.boards.reach import BoardFacts, CommandResult
from edgetune.boards.ssh.client_config import ClientConfig
from edgetune.boards.ssh.deadline import Deadline
from edgetune.boards.ssh.reach import SshReach
from edgetune.boards.ssh.stream import SshStream
from edgetune.boards.ssh.tunnel import Tunnel
from edgetune.config.boards_file import BoardAddress
from edgetune.errors import BoardLost
from edgetune.events import Event
from edgetune.target.target import Target

_BOOT_S = 120.0  # on a busy host; on an idle host it takes a few seconds


class MachineReach:
    """The emulated board of `target`, called `name` (default: as the target). It starts nothing before it is needed.

    The first `connect`, and the first after `close`, starts the machine, which may take up to two minutes whatever the
    deadline of the call. A later `connect` does not start a machine that has ended by itself: `power_cycle` does.
    """

    def __init__(
        self,
        target: Target,
        on_event: Callable[[Event], None] = lambda _: None,
        name: str | None = None,
        cache: Path | None = None,
    ) -> None:
        self._target = target
        self._on_event = on_event
        self.name = name or target.name
        self._cache = cache
        self._machine: Machine | None = None
        self._ssh: SshReach | None = None
        self._silent = False
        self._lock = threading.RLock()

    @property
    def round_trip_s(self) -> float:
        """Latest round-trip time to the machine in seconds."""
        ssh = self._ssh
        return ssh.round_trip_s if ssh is not None else 0.0

    @property
    def machine(self) -> Machine:
        """The machine; raises BoardLost when it was not started yet."""
        if self._machine is None:
            raise BoardLost(f"board '{self.name}' is off: connect first")
        return self._machine

    @property
    def address(self) -> BoardAddress:
        """The address for SSH clients; raises BoardLost when the machine was not started yet."""
        return self.machine.address

    @property
    def ssh_config(self) -> Path:
        """Configuration for `ssh -F` that maps any host to this machine, its host key verified; raises BoardLost."""
        return self.machine.ssh_config

    def connect(self, timeout_s: float = 20.0) -> None:
        """Start the machine if it was never started, and log in.

        Raises BoardUnavailable (no image), ToolchainMissing (no QEMU), BoardLost.
        """
        self._started().connect(timeout_s)

    def facts(self) -> BoardFacts:
        """Query the facts of the board; raises BoardUnfit when it does not match its target."""
        return self._started().facts()

    def start(self, program: Path, arguments: Sequence[str], timeout_s: float = 10.0) -> SshStream:
        """Put the program on the board (once per content) and start it. Raises BoardFull, BoardLost."""
        return self._started().start(program, arguments, timeout_s)

    def run(self, command: str, timeout_s: float, stdin: bytes = b"") -> CommandResult:
        """Run one shell command; raises BoardLost when it has not ended after `timeout_s`."""
        return self._started().run(command, timeout_s, stdin)

    def put(self, local: Path, timeout_s: float) -> str:
        """Copy a file to the board (once per content); return its path there. Raises BoardFull, BoardLost."""
        return self._started().put(local, timeout_s)

    def forward(self, port: int) -> Tunnel:
        """Listen on a free port of this machine's loopback and forward it to `port` of the board's loopback."""
        return self._started().forward(port)

    def clean(self) -> None:
        """Remove all files that were put on the board, and end every process that was started there."""
        if self._ssh is not None and self.machine.alive:
            self._ssh.clean()

    def close(self) -> None:
        """End the machine, and with it everything that was put there. May be called twice."""
        machine = self._machine
        if machine is not None:
            machine.stop()  # first, and without the lock: it ends the waits of other threads
        with self._lock:
            self._drop_link()
            if self._machine is not None:
                self._machine.stop()
                self._machine = None

    def reboot(self, timeout_s: float) -> bool:
        """Press the reset button and log in again; False when the machine is off. Raises BoardLost."""
        deadline = Deadline(timeout_s)
        with self._lock:
            if self._machine is None or not self._machine.alive:
                return False
            self._machine.reset(timeout_s)
            self._drop_link()
            self._started().connect(deadline.left)
            return True

    def power_cycle(self, timeout_s: float) -> bool:
        """Switch the power off and on, and log in again. Raises BoardLost."""
        deadline = Deadline(timeout_s)
        with self._lock:
            self.machine.restart(timeout_s)
            self._drop_link()
            self._started().connect(deadline.left)
            return True

    def _started(self) -> SshReach:
        with self._lock:
            if self._machine is None:
                machine = Machine(find_image(self._target, self._cache), self._target.name, self.name)
                self._machine = machine
                try:
                    machine.start(_BOOT_S)
                except BaseException:
                    machine.stop()
                    self._machine = None
                    raise
            if self._ssh is None:
                config = ClientConfig([self._machine.ssh_config])
                self._ssh = SshReach(self._machine.address, self._target, on_event=self._tell, config=config)
            if not self._machine.alive:
                raise BoardLost(f"board '{self.name}' is off: its emulator has ended, a power cycle starts it again")
            return self._ssh

    def _drop_link(self) -> None:
        """Forget the link to a system that has ended, and its record of the files there, which are gone too."""
        if self._ssh is not None:
            self._silent = True
            self._ssh.close()
            self._ssh = None
            self._silent = False

    def _tell(self, event: Event) -> None:
        if not self._silent:
            self._on_event(event)
