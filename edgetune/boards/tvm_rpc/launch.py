"""Starts TVM's stock RPC server, or its tracker, in one process that ends with whoever started it.

Runs on boards as well, with nothing but a Python, numpy, tvm_ffi and TVM's runtime: it imports nothing of edgetune.

    python launch.py server HOST PORT KEY [TRACKER_HOST:PORT [NAME]]        PORT 0: any free one
    python launch.py tracker HOST PORT

With KEY "-" the key is the first line of stdin. With EDGETUNE_OWNER in its environment it takes the board's advisory
lock first, the one of the agent, or prints `busy OWNER` and ends. Prints `port N` once it listens; ends at the end of
stdin. A server whose session crashed, which ends the stock one, serves again at its port.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading

_WATCH_S = 0.2
_LOCK_S = 60  # for the connection that keeps us to be given up


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _spare_backtraces() -> None:
    """Ask for the types of TVM's compiler only where there are any.

    The answer to each of these questions is an exception, and the backtrace of the first takes longer than all the rest
    of the start.
    """
    from tvm_ffi import core, registry

    ask = core._object_type_key_to_index  # noqa: SLF001
    known: set[str] = set()

    def index(key: str) -> int | None:
        if key not in known:
            known.update(registry.get_registered_type_keys())
        return ask(key) if key in known else None

    setattr(core, "_object_type_key_to_index", index)  # noqa: B010  typed otherwise


def _take_lock(name: str, owner: str) -> str:
    """Take the lock, and tell whoever asks that it is ours, and until when: "" ; or return who has it."""
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    place = b"\0" + name.encode()
    try:
        lock.bind(place)
    except OSError:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as visit:
            visit.settimeout(1.0)
            try:
                visit.connect(place)
                return visit.recv(256).decode(errors="replace").split("\n")[0] or "somebody"
            except OSError:
                return "somebody"
    lock.listen(4)

    def tell() -> None:
        while True:
            visitor, _ = lock.accept()
            with visitor:
                visitor.send(f"{owner[:200]}\n{_LOCK_S}\n".encode())

    threading.Thread(target=tell, daemon=True).start()
    return ""


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


def _read_line() -> str:
    line = b""
    while not line.endswith(b"\n"):
        letter = os.read(0, 1)
        if not letter:
            _end(0)
        line += letter
    return line.decode().strip()


def _wait_for_end() -> None:
    while os.read(0, 4096):
        pass
    _end(0)


def _end(code: int) -> None:
    """End this process with all that it started."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(code)


def main() -> None:
    """Start what the command line asks for, and wait."""
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    os.environ["TVM_USE_RUNTIME_LIB"] = "1"
    kind, arguments = sys.argv[1], sys.argv[2:]
    if arguments[2:3] == ["-"]:
        arguments[2] = _read_line()
    threading.Thread(target=_wait_for_end, daemon=True).start()
    if owner := os.environ.get("EDGETUNE_OWNER", ""):
        other = _take_lock(os.environ.get("EDGETUNE_LOCK", "edgetune"), owner)
        if other:
            os.write(1, f"busy {other}\n".encode())
            _end(3)
    _spare_backtraces()
    home = os.getcwd()  # noqa: PTH109  no more modules than needed, on a slow board
    start = _serve if kind == "server" else _track
    port, thread, listener = start(arguments, int(arguments[1]) or _free_port(arguments[0]))
    os.write(1, f"port {port}\n".encode())
    while True:
        thread.join(_WATCH_S)
        if thread.is_alive():
            continue
        if listener is None:
            break
        os.chdir(home)  # out of the session's folder
        listener.close()  # the stock server stops to serve when a session crashes: serve again
        port, thread, listener = start(arguments, port)
    _end(1)


if __name__ == "__main__":
    main()
