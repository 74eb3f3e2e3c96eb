"""Opens the first stream to a board with a deadline: a TCP connection, or the program of a ProxyCommand."""

from __future__ import annotations

import errno
import os
import queue
import select
import signal
import socket
import subprocess
import threading
from contextlib import suppress

from edgetune.boards.ssh.deadline import Deadline
from edgetune.boards.ssh.route import Hop
from edgetune.errors import HostUnknown

_LOOK_S = 0.2
_UNACKNOWLEDGED_MS = 30_000  # a link that acknowledges no data for this time is dead

Addresses = list[tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]]


class Proxy:
    """The program of a ProxyCommand; `stream` is our end of a socket pair to it."""

    def __init__(self, command: str) -> None:
        self.stream, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # as in OpenSSH, a shell runs the user's command
                ["/bin/sh", "-c", f"exec {command}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def close(self) -> None:
        """End the program and all processes it started."""
        self.stream.close()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def dial(board: str, hop: Hop, deadline: Deadline, ended: threading.Event) -> socket.socket:
    """Return a TCP connection to `hop`, unless another thread sets `ended`.

    Raises HostUnknown: no such host, no server listens, or no answer in time.
    """
    reasons: list[str] = []
    for family, address in _resolve(board, hop.host, hop.port, deadline):
        stream = socket.socket(family, socket.SOCK_STREAM)
        try:
            _connect(stream, address, deadline, ended)
        except ConnectionRefusedError:
            reasons.append(f"port {hop.port} of {hop.host} refuses connections: is sshd running there?")
        except TimeoutError:
            reasons.append(f"{hop} did not answer within {deadline.seconds:.0f} s: is the board on?")
        except OSError as error:
            reasons.append(f"{hop} cannot be reached: {error.strerror or error}")
        else:
            _keep_alive(stream)
            return stream
        stream.close()
    raise HostUnknown(f"board '{board}': {reasons[0]}")


def _connect(stream: socket.socket, address: tuple[object, ...], deadline: Deadline, ended: threading.Event) -> None:
    stream.setblocking(False)
    code = stream.connect_ex(address)
    while code == errno.EINPROGRESS:
        if select.select([], [stream], [], min(_LOOK_S, max(0.05, deadline.left)))[1]:
            code = stream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            break
        if deadline.over or ended.is_set():
            raise TimeoutError
    if code != 0:
        raise OSError(code, os.strerror(code))  # Python selects the subclass of OSError for the code
    stream.settimeout(max(0.05, deadline.left))


def _keep_alive(stream: socket.socket) -> None:
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS)


def _resolve(board: str, host: str, port: int, deadline: Deadline) -> Addresses:
    """Look up the addresses of `host` in a thread, because the resolver has no timeout."""
    answers: queue.SimpleQueue[Addresses | OSError | UnicodeError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:  # UnicodeError: a label of more than 63 characters
            answers.put(error)
        else:
            answers.put([(entry[0], entry[4]) for entry in found])

    threading.Thread(target=ask, name=f"resolve {host}", daemon=True).start()
    try:
        answer = answers.get(timeout=max(0.05, deadline.left))
    except queue.Empty:
        raise HostUnknown(
            f"board '{board}': the name {host} was not resolved within {deadline.seconds:.0f} s"
        ) from None
    if isinstance(answer, list):
        return answer
    reason = getattr(answer, "strerror", None) or str(answer)
    raise HostUnknown(
        f"board '{board}': there is no host {host} ({reason}): correct its address in boards.yaml"
    ) from answer
