"""TVM's RPC server on a board without one: brought over its reach, bound to its loopback, removed at the end."""

from __future__ import annotations

import re
import select
import shlex
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, runtime_checkable

from edgetune.boards.reach import Reach, Transport
from edgetune.boards.tvm_rpc.bring import bring_server
from edgetune.boards.tvm_rpc.launched import KEY_ON_STDIN, LOOPBACK
from edgetune.boards.tvm_rpc.lifeline import Lifeline
from edgetune.boards.tvm_rpc.tracker_client import owner_name
from edgetune.config.target import Target
from edgetune.errors import BoardBusy, BoardLost
from edgetune.events import Event

IDLE_S = 120.0  # silence after which a server ends by itself
_ASK_S = 20.0
_START_S = 120.0  # an emulated board takes 20 s
_BUSY = re.compile(r"busy (\d{1,6}) (.*)", re.ASCII)
_PORT = re.compile(r"port (\d{1,5})( unlocked)?", re.ASCII)
_START = """#!/bin/sh
# $1: folder of the server, $2: owner, $3: seconds of silence after which it ends, then the arguments of launch.py
folder=$1; export EDGETUNE_OWNER="$2" EDGETUNE_IDLE="$3"; shift 3
export PYTHONPATH="$folder" PYTHONNOUSERSITE=1 PYTHONDONTWRITEBYTECODE=1 TVM_USE_RUNTIME_LIB=1 TVM_NUM_THREADS=1
export LD_LIBRARY_PATH="$folder/libs"
export TMPDIR="$folder/sessions" OPENBLAS_NUM_THREADS=1
cd "$folder" && exec python3 -S "$folder/launch.py" "$@"
"""


class Tunnel(Protocol):
    """A port of this machine's loopback that leads to the board's."""

    port: int

    def close(self) -> None:
        """Stop to listen."""


@runtime_checkable
class Forwarding(Protocol):
    """A reach through which ports are reached."""

    def forward(self, port: int) -> Tunnel:
        """Lead a port of this machine's loopback to `port` of the board's."""


class DeployedServer:
    """The server on the board behind `reach`, which belongs to whoever made it. `folder` is one of this machine.

    `idle_s` after it last heard of us it ends by itself, and with it the board's lock.
    """

    def __init__(
        self,
        reach: Reach,
        target: Target,
        folder: Path,
        on_event: Callable[[Event], None] = lambda _: None,
        cache: Path | None = None,
        idle_s: float = IDLE_S,
    ) -> None:
        self._reach, self._folder, self._on_event, self._cache = reach, folder, on_event, cache
        self._idle_s = idle_s
        self._cc = target.compiler.cc
        self._place = ""
        self._transport: Transport | None = None
        self._lifeline: Lifeline | None = None
        self._tunnel: Tunnel | None = None
        self._port = 0
        self._ended = threading.Event()

    @property
    def address(self) -> tuple[str, int]:
        """Where it is reached from here; after `start`."""
        return LOOPBACK, self._port

    @property
    def running(self) -> bool:
        """Whether it was started and its connection is up, as far as that is known."""
        if self._transport is None:
            return False
        try:
            if select.select([self._transport.fileno()], [], [], 0)[0]:
                self._transport.receive()
        except BoardLost:
            return False
        return True

    def start(self, key: str) -> None:
        """Bring the files (once), start the server, open the way to it.

        Raises BoardUnfit, BoardFull, BoardBusy (somebody else's run has the board), BoardLost: after `end` as well.
        """
        self.stop()
        self._go_on()
        self._reach.connect()
        self._reach.facts()  # as sessions of the agent begin: is it what its target says, did dead ones leave anything
        self._go_on()
        if not self._place or self._reach.run(f"test -f {shlex.quote(self._place)}/launch.py", _ASK_S).status != 0:
            self._place = bring_server(self._reach, self._cc, self._go_on, self._on_event, self._cache)
        self._go_on()
        script = self._folder / f"tvm-server-{self._reach.name}.sh"
        script.write_text(_START)
        script.chmod(0o700)
        arguments = (self._place, owner_name(), f"{self._idle_s:g}", "server", LOOPBACK, "0", KEY_ON_STDIN)
        transport = self._transport = self._reach.start(script, arguments, _ASK_S)
        try:
            transport.send(f"{key}\n".encode(), _ASK_S)  # arguments are for everybody there to read
        except BoardLost as error:
            raise self._silent(transport) from error
        self._lifeline = Lifeline(transport, self._idle_s / 4)
        there = self._await_port(transport, time.monotonic() + _START_S)
        self._go_on()
        if isinstance(self._reach, Forwarding):
            tunnel = self._tunnel = self._reach.forward(there)
            self._port = tunnel.port
        else:  # processes of this machine
            self._port = there

    def stop(self) -> None:
        """End the server; its files stay for the next start, until the reach is cleaned. May be called twice."""
        # Another thread may stop it as well: each part is taken by one of them.
        tunnel, self._tunnel = self._tunnel, None
        transport, self._transport = self._transport, None
        lifeline, self._lifeline = self._lifeline, None
        for part in (tunnel, transport, lifeline):
            if part is not None:
                part.close()

    def end(self) -> None:
        """Have a `start` in another thread go no further than the step that it is at, and none begin any more."""
        self._ended.set()

    def _go_on(self) -> None:
        if self._ended.is_set():
            raise BoardLost(f"board '{self._reach.name}' was closed")

    def _await_port(self, transport: Transport, deadline: float) -> int:
        said = b""
        while b"\n" not in said:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([transport.fileno()], [], [], left)[0]:
                raise self._silent(transport)
            try:
                said += transport.receive()
            except BoardLost as error:
                raise self._silent(transport) from error
        line = said.split(b"\n")[0].decode(errors="replace")
        if busy := _BUSY.fullmatch(line):
            self.stop()
            raise self._busy("".join(letter for letter in busy[2] if letter.isprintable())[:200], int(busy[1]))
        port = _PORT.fullmatch(line)
        if port is None:
            raise self._silent(transport)
        if port[2]:
            self._tell("fallback", "no abstract sockets: the board cannot be locked against other users")
        return int(port[1])

    def _busy(self, owner: str, seconds: int) -> BoardBusy | BoardLost:
        name = self._reach.name
        if owner == owner_name():  # the link to it broke, so it could not be ended
            return BoardLost(
                f"board '{name}' still has a server of this run, which ends {seconds} s after its link did"
            )
        gone = f" (or at most {seconds} s once it is gone)" if seconds else ""
        return BoardBusy(f"board '{name}' belongs to {owner}: wait for the end of that run{gone}, or use another board")

    def _tell(self, what: str, detail: str) -> None:
        self._on_event(Event("board", {"board": self._reach.name, "what": what, "detail": detail}))

    def _silent(self, transport: Transport) -> BoardLost:
        words = transport.diagnostics().strip()[-300:]
        self.stop()
        return BoardLost(f"TVM's RPC server does not start on board '{self._reach.name}': {words or 'it says nothing'}")
