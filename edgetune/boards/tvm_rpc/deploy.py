"""Deployed TVM RPC server: brought over the board's reach, bound to its loopback, removed at the end.

A keep-alive thread sends it bytes, because the server ends by itself when it receives none for long.
"""

from __future__ import annotations

import re
import select
import shlex
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, runtime_checkable

from edgetune.boards.holder import Holder
from edgetune.boards.reach import ByteStream, Reach
from edgetune.boards.tvm_rpc.bring import bring_server
from edgetune.boards.tvm_rpc.launched import KEY_ON_STDIN, LOOPBACK
from edgetune.boards.tvm_rpc.tracker_client import owner_name
from edgetune.errors import BoardBusy, BoardLost
from edgetune.events import Event
from edgetune.target.target import Target

_WORD = b"\n"
_SEND_S = 5.0
_JOIN_S = 10.0


class Sender(Protocol):
    """The part of a stream that a lifeline uses."""

    def send(self, data: bytes, timeout_s: float) -> None:
        """Write all of `data`; raises BoardLost when the link is down, or `data` is not taken within `timeout_s`."""


class Lifeline:
    """Sends a byte to `stream` every `every_s` seconds, from its own thread, until it is closed.

    It ends when the stream is lost; the stream's user then gets the error.
    """

    def __init__(self, stream: Sender, every_s: float) -> None:
        self._stream = stream
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._hold, args=(every_s,), name="edgetune-lifeline", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop sending. May be called twice."""
        self._closed.set()
        self._thread.join(_JOIN_S)

    def _hold(self, every_s: float) -> None:
        while not self._closed.wait(every_s):
            try:
                self._stream.send(_WORD, _SEND_S)
            except BoardLost:
                return


IDLE_S = 120.0  # a server that receives nothing for this time ends by itself
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


class ForwardedPort(Protocol):
    """A port of this machine's loopback that leads to the board's."""

    port: int

    def close(self) -> None:
        """Stop listening."""


@runtime_checkable
class Forwarding(Protocol):
    """A reach that can forward ports."""

    def forward(self, port: int) -> ForwardedPort:
        """Forward a port of this machine's loopback to `port` of the board's."""


class DeployedServer:
    """The server on the board behind `reach`, which the caller owns. `folder` is a folder of this machine.

    The server ends by itself, and releases the board's lock, when it receives nothing from us for `IDLE_S` seconds.
    """

    def __init__(
        self,
        reach: Reach,
        target: Target,
        folder: Path,
        on_event: Callable[[Event], None] = lambda _: None,
        cache: Path | None = None,
    ) -> None:
        self._reach, self._folder, self._on_event, self._cache = reach, folder, on_event, cache
        self._cc = target.compiler.cc
        self._place = ""
        self._stream: ByteStream | None = None
        self._lifeline: Lifeline | None = None
        self._tunnel: ForwardedPort | None = None
        self._port = 0
        self._ended = threading.Event()

    @property
    def address(self) -> tuple[str, int]:
        """Its address as seen from here; after `start`."""
        return LOOPBACK, self._port

    @property
    def running(self) -> bool:
        """Whether it was started and its connection is up, as far as is known."""
        if self._stream is None:
            return False
        try:
            if select.select([self._stream.fileno()], [], [], 0)[0]:
                self._stream.receive()
        except BoardLost:
            return False
        return True

    def start(self, key: str) -> None:
        """Copy the files (once), start the server, open the connection to it.

        Raises BoardUnfit, BoardFull, BoardBusy (another user's run has the board), BoardLost: also after `end`.
        """
        self.stop()
        self._go_on()
        self._reach.connect()
        self._reach.facts()  # as agent sessions do: checks the board against its target, removes files of dead sessions
        self._go_on()
        if not self._place or self._reach.run(f"test -f {shlex.quote(self._place)}/launch.py", _ASK_S).status != 0:
            self._place = bring_server(self._reach, self._cc, self._go_on, self._on_event, self._cache)
        self._go_on()
        script = self._folder / f"tvm-server-{self._reach.name}.sh"
        script.write_text(_START)
        script.chmod(0o700)
        holder = Holder.of_this_process(owner_name()).line
        arguments = (self._place, holder, f"{IDLE_S:g}", "server", LOOPBACK, "0", KEY_ON_STDIN)
        stream = self._stream = self._reach.start(script, arguments, _ASK_S)
        try:
            stream.send(f"{key}\n".encode(), _ASK_S)  # every user there can read arguments
        except BoardLost as error:
            raise self._silent(stream) from error
        self._lifeline = Lifeline(stream, IDLE_S / 4)
        there = self._await_port(stream, time.monotonic() + _START_S)
        self._go_on()
        if isinstance(self._reach, Forwarding):
            tunnel = self._tunnel = self._reach.forward(there)
            self._port = tunnel.port
        else:  # the board is a process of this machine
            self._port = there

    def stop(self) -> None:
        """End the server; its files stay for the next start, until the reach is cleaned. May be called twice."""
        # Another thread may stop it at the same time: each part is closed by only one of them.
        tunnel, self._tunnel = self._tunnel, None
        stream, self._stream = self._stream, None
        lifeline, self._lifeline = self._lifeline, None
        for part in (tunnel, stream, lifeline):
            if part is not None:
                part.close()

    def end(self) -> None:
        """Make a `start` in another thread stop after its current step, and prevent new starts."""
        self._ended.set()

    def _go_on(self) -> None:
        if self._ended.is_set():
            raise BoardLost(f"board '{self._reach.name}' was closed")

    def _await_port(self, stream: ByteStream, deadline: float) -> int:
        said = b""
        while b"\n" not in said:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([stream.fileno()], [], [], left)[0]:
                raise self._silent(stream)
            try:
                said += stream.receive()
            except BoardLost as error:
                raise self._silent(stream) from error
        line = said.split(b"\n")[0].decode(errors="replace")
        if busy := _BUSY.fullmatch(line):
            self.stop()
            raise self._busy(Holder.read(busy[2]), int(busy[1]))
        port = _PORT.fullmatch(line)
        if port is None:
            raise self._silent(stream)
        if port[2]:
            self._tell("fallback", "no abstract sockets: the board cannot be locked against other users")
        return int(port[1])

    def _busy(self, holder: Holder, seconds: int) -> BoardBusy | BoardLost:
        name = self._reach.name
        if holder.who == owner_name():  # our own server, which we could not end because its link broke
            return BoardLost(
                f"board '{name}' still has a server of this run, which ends {seconds} s after its link did"
            )
        gone = f" (the lock of a dead run expires after {seconds} s)" if seconds else ""
        wait = f"wait until that run ends{gone}, or use another board{holder.remedy}"
        return BoardBusy(f"board '{name}' belongs to {holder.words}: {wait}")

    def _tell(self, what: str, detail: str) -> None:
        self._on_event(Event("board", {"board": self._reach.name, "what": what, "detail": detail}))

    def _silent(self, stream: ByteStream) -> BoardLost:
        words = stream.diagnostics().strip()[-300:]
        self.stop()
        return BoardLost(
            f"TVM's RPC server does not start on board '{self._reach.name}': {words or 'it prints nothing'}"
        )
