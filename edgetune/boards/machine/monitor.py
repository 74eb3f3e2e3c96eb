"""QEMU's own control channel (QMP): JSON lines over a socket that only we and that process hold."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping

from edgetune.errors import BoardLost

_READ_SIZE = 1 << 16


class Monitor:
    """Our end of the channel. Every call raises BoardLost when QEMU does not answer in time, or has ended."""

    def __init__(self, name: str, ours: socket.socket) -> None:
        self._name = name
        self._socket = ours
        self._buffer = b""

    def greet(self, timeout_s: float) -> None:
        """Wait for QEMU to be there; must be called first."""
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
        """Run a command of the monitor that people use; return what it prints."""
        return str(self.call("human-monitor-command", timeout_s, {"command-line": command}))

    def close(self) -> None:
        """Leave the channel."""
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
