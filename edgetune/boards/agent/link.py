"""Connection to one agent: sends frames, receives messages, and sends keep-alive pings so that it does not expire."""

from __future__ import annotations

import select
import threading
import time

from edgetune.boards.agent import messages
from edgetune.boards.agent.frames import FrameParser, FrameType, encode
from edgetune.boards.agent.messages import Busy, Hello, Message, Refused
from edgetune.boards.reach import ByteStream
from edgetune.errors import BoardLost, ProtocolViolation

_SLICE_S = 0.25  # a wait notices within this time that the link was closed
_KEPT_ALIVE = 0  # token of keep-alive pings, whose answers are ignored
_ALIVE_TIMEOUT_S = 5.0


class AgentLink:
    """Sends from any thread, receives in one. `name` is the board's, for errors; both raise BoardLost."""

    def __init__(self, name: str, stream: ByteStream, keep_alive_s: float) -> None:
        self._name = name
        self._stream = stream
        self._parser = FrameParser()
        self._sending = threading.Lock()
        self._closed = threading.Event()
        self._keeper = threading.Thread(target=self._keep_alive, args=(keep_alive_s,), daemon=True)
        self._keeper.start()

    def fileno(self) -> int:
        """Descriptor that is readable when `receive` has something."""
        return self._stream.fileno()

    @property
    def closed(self) -> bool:
        """Whether this side closed it."""
        return self._closed.is_set()

    def send(self, frames: bytes, timeout_s: float) -> None:
        """Send whole frames."""
        with self._sending:
            if self.closed:
                raise BoardLost(f"board '{self._name}': the connection to its agent is closed")
            self._stream.send(frames, timeout_s)

    def receive(self, timeout_s: float) -> list[Message]:
        """Return the messages that arrived, waiting up to `timeout_s` for the first; raises ProtocolViolation."""
        deadline = time.monotonic() + timeout_s
        while True:
            if self.closed:
                raise BoardLost(f"board '{self._name}': the connection to its agent is closed")
            left = max(0.0, deadline - time.monotonic())
            poller = select.poll()
            poller.register(self._stream.fileno(), select.POLLIN)
            if poller.poll(min(left, _SLICE_S) * 1000):
                found = self._read()
                if found:
                    return found
            if left <= 0:
                return []

    def first_words(self, timeout_s: float) -> Hello | Busy:
        """Return the greeting of a starting agent; raises BoardLost, ProtocolViolation."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            for message in self.receive(left):
                if isinstance(message, Hello | Busy):
                    return message
                if isinstance(message, Refused):
                    raise BoardLost(f"the agent of board '{self._name}' does not start: {message.reason}")
                raise ProtocolViolation(
                    f"board '{self._name}': its agent began with {type(message).__name__} instead of a greeting"
                )
        raise BoardLost(f"the agent of board '{self._name}' sent nothing within {timeout_s:g} s: {self.diagnostics()}")

    def diagnostics(self) -> str:
        """Last output of the agent on its stderr."""
        return self._stream.diagnostics()

    def close(self) -> None:
        """Ask the agent to end, then kill it. May be called twice, from any thread."""
        if self._closed.is_set():
            return
        self._closed.set()
        try:
            if self._sending.acquire(timeout=_SLICE_S):
                try:
                    self._stream.send(encode(FrameType.BYE), _SLICE_S)
                finally:
                    self._sending.release()
        except BoardLost:
            pass  # the agent has ended already
        finally:
            self._stream.close()
        if threading.current_thread() is not self._keeper:
            self._keeper.join(_ALIVE_TIMEOUT_S)

    def _read(self) -> list[Message]:
        try:
            data = self._stream.receive()
        except BoardLost as error:
            words = self._stream.diagnostics().strip()
            raise BoardLost(f"{error.message}{': ' + words if words and words not in error.message else ''}") from error
        try:
            return [messages.decode(frame) for frame in self._parser.feed(data)]
        except ProtocolViolation as error:
            raise ProtocolViolation(f"board '{self._name}': {error.message}") from error

    def _keep_alive(self, every_s: float) -> None:
        while not self._closed.wait(every_s):
            try:
                self.send(messages.ping(_KEPT_ALIVE), _ALIVE_TIMEOUT_S)
            except BoardLost:
                return  # the next use of the link raises the error
