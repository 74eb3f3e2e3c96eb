"""Launcher of TVM's stock RPC server, or of its tracker, in one process that ends with the process that started it.

It also runs on boards, so it needs only Python, numpy, tvm_ffi and TVM's runtime, and imports nothing of edgetune.

    python launch.py server HOST PORT KEY [TRACKER_HOST:PORT [NAME]]        PORT 0: any free one
    python launch.py tracker HOST PORT

With KEY "-" the key is the first line of stdin. With EDGETUNE_OWNER in its environment it first takes the board's
advisory lock, the same one as the agent, or prints `busy SECONDS OWNER` and ends: OWNER's lock expires SECONDS after
the last byte from OWNER's host (0: unknown). It prints `port N` when it listens, `port N unlocked` where the system has
no such locks. It ends at the end of stdin, and after EDGETUNE_IDLE seconds without a byte there, because a lost host
does not always close its end. A crashed session ends the stock server; this one then serves again at its port.
"""

from __future__ import annotations

import errno
import math
import os
import select
import signal
import socket
import sys
import threading
import time
from contextlib import suppress

_WATCH_S = 0.2
_RETRY_S = 0.5


class Host:
    """The host that started this process, as seen on stdin. Lost after `idle_s` seconds without a byte (0: never)."""

    def __init__(self, idle_s: float) -> None:
        self._idle_s = idle_s or math.inf
        self._heard = time.monotonic()

    @property
    def left_s(self) -> float:
        """Seconds until it counts as lost if it sends nothing more."""
        return max(0.0, self._heard + self._idle_s - time.monotonic())

    def read(self, most: int) -> bytes:
        """Return the next bytes from it; ends this process when the host is lost."""
        while (left := self.left_s) > 0:
            if select.select([0], [], [], min(left, 1e6))[0]:
                data = os.read(0, most)
                if not data:
                    break
                self._heard = time.monotonic()
                return data
        _end(0)
        return b""

    def read_line(self) -> str:
        """Return the next line from it."""
        line = b""
        while not line.endswith(b"\n"):
            line += self.read(1)
        return line.decode().strip()

    def wait_for_end(self) -> None:
        """Read until the host is lost."""
        while True:
            self.read(4096)


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _spare_backtraces() -> None:
    """Look up the types of TVM's compiler only where they exist.

    Each failing lookup raises an exception, and the backtrace of the first one takes longer than all the rest of the
    start.
    """
    from tvm_ffi import core, registry

    ask = core._object_type_key_to_index  # noqa: SLF001
    known: set[str] = set()

    def index(key: str) -> int | None:
        if key not in known:
            known.update(registry.get_registered_type_keys())
        return ask(key) if key in known else None

    setattr(core, "_object_type_key_to_index", index)  # noqa: B010  typed otherwise


def _take_lock(name: str, owner: str, host: Host) -> str | None:
    """Take the lock, and answer other processes that ask for its owner and its expiry.

    Return "" when the lock is ours, the text to print when another user has it, None where the system has no such
    locks.
    """
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    place = b"\0" + name.encode()
    try:
        lock.bind(place)
        lock.listen(4)
    except OSError as error:
        lock.close()
        return _holder(place) if error.errno == errno.EADDRINUSE else None

    def tell() -> None:
        while True:
            try:
                visitor, _ = lock.accept()
            except OSError:  # the visitor has left, or no descriptor is free now
                time.sleep(_RETRY_S)
                continue
            with visitor, suppress(OSError):  # the visitor may leave before the answer
                left = 0 if math.isinf(host.left_s) else math.ceil(host.left_s)
                visitor.send(f"{owner[:200]}\n{left}\n".encode())

    threading.Thread(target=tell, daemon=True).start()
    return ""


def _holder(place: bytes) -> str:
    said = b""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as visit, suppress(OSError):
        visit.settimeout(1.0)
        visit.connect(place)
        said = visit.recv(256)
    owner, _, seconds = said.decode(errors="replace").partition("\n")
    seconds = seconds.strip()
    return f"busy {seconds if seconds.isascii() and seconds.isdecimal() else 0} {owner or 'another user'}"


def _serve(arguments: list[str], port: int) -> tuple[int, threading.Thread, socket.socket]:
    from tvm.rpc.server import PopenRPCServerState

    host, key = arguments[0], arguments[2]
    tracker = None
    if len(arguments) > 3:  # noqa: PLR2004
        name, _, number = arguments[3].rpartition(":")
        tracker = (name, int(number))
    custom = arguments[4] if len(arguments) > 4 else None  # noqa: PLR2004
    state = PopenRPCServerState(host, port, port + 1, key=key, tracker_addr=tracker, custom_addr=custom)
    return state.port, state.thread, state.sock


def _track(arguments: list[str], port: int) -> tuple[int, threading.Thread, None]:
    from tvm.rpc.tracker import PopenTrackerServerState

    state = PopenTrackerServerState(arguments[0], port, port + 1)
    return state.port, state.thread, None


def _end(code: int) -> None:
    """End this process and all processes it started."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(code)


def main() -> None:
    """Start what the command line requests, and wait."""
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    os.environ["TVM_USE_RUNTIME_LIB"] = "1"
    kind, arguments = sys.argv[1], sys.argv[2:]
    host = Host(float(os.environ.get("EDGETUNE_IDLE", "0")))
    if arguments[2:3] == ["-"]:
        arguments[2] = host.read_line()
    threading.Thread(target=host.wait_for_end, daemon=True).start()
    unlocked = ""
    if owner := os.environ.get("EDGETUNE_OWNER", ""):
        other = _take_lock(os.environ.get("EDGETUNE_LOCK", "edgetune"), owner, host)
        if other:
            os.write(1, f"{other}\n".encode())
            _end(3)
        unlocked = " unlocked" if other is None else ""
    _spare_backtraces()
    home = os.getcwd()  # noqa: PTH109  imports few modules, because boards are slow
    start = _serve if kind == "server" else _track
    port, thread, listener = start(arguments, int(arguments[1]) or _free_port(arguments[0]))
    os.write(1, f"port {port}{unlocked}\n".encode())
    while True:
        thread.join(_WATCH_S)
        if thread.is_alive():
            continue
        if listener is None:
            break
        os.chdir(home)  # leave the session's folder
        listener.close()  # the stock server stops serving when a session crashes, so start it again
        port, thread, listener = start(arguments, port)
    _end(1)


if __name__ == "__main__":
    main()
