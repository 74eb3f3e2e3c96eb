"""Deployment of TVM's RPC server files: copies them to a board and returns their folder there."""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePosixPath

from edgetune.boards.reach import Reach
from edgetune.boards.tvm_rpc.server_tree import server_tree
from edgetune.errors import BoardFull, BoardUnfit
from edgetune.events import Event
from edgetune.target.tool_process import run_tool

_ASK_S = 20.0
_PUT_S = 300.0
_UNPACK_S = 180.0
_MIB = 1 << 20
_WHICH = """python3 -S -c '
import sys, os, ctypes, importlib.util
libc = (os.confstr("CS_GNU_LIBC_VERSION") or "- -").split()[1]
whole = all(importlib.util.find_spec(name) for name in ("multiprocessing", "json", "logging", "socket"))
try: cxx = ctypes.CDLL("libstdc++.so.6") and 1
except OSError: cxx = 0
print(*sys.version_info[:2], os.uname().machine, libc, cxx, whole and 1)'"""
_CXX = ("libstdc++.so.6", "libgcc_s.so.1")  # copied to a board that has none
_OLDEST_PYTHON = (3, 10)
_OLDEST_GLIBC = (2, 28)
_NUMBER = re.compile(r"\d{1,4}", re.ASCII)
_VERSION = re.compile(r"\d{1,4}\.\d{1,4}(\..*)?", re.ASCII)


def bring_server(
    reach: Reach, cc: str, go_on: Callable[[], None], on_event: Callable[[Event], None], cache: Path | None = None
) -> str:
    """Copy the files to the board and unpack them; return their folder there.

    `go_on` is called after a download, which takes minutes, and may raise to end this. `cc` is the compiler of the
    board's target; its libstdc++ goes to boards that have none. Raises BoardUnfit, BoardFull, BoardUnavailable (the
    files cannot be downloaded) and what the reach raises.
    """
    name = reach.name
    machine, python, cxx = _what_is_there(reach)
    tree = server_tree(machine, python, on_event, cache)
    go_on()
    sent = tree.archive.stat().st_size
    libraries = () if cxx else _cxx_libraries(name, cc)
    started = time.monotonic()
    packed = PurePosixPath(reach.put(tree.archive, _PUT_S))
    place = str(packed.parent / f"tvm-{packed.name[:12]}")
    quoted = shlex.quote(place)
    inside = f"{quoted}/sessions {quoted}/libs"
    unpack = f"mkdir -p {inside} && chmod 700 {quoted} && tar -xzf {shlex.quote(str(packed))} -C {quoted}"
    for library in libraries:
        unpack += f" && cp {shlex.quote(reach.put(library, _PUT_S))} {quoted}/libs/{library.name}"
    done = reach.run(unpack, _UNPACK_S)
    if done.status != 0:
        raise BoardFull(
            f"board '{name}' has no room for TVM's RPC server, {tree.unpacked_bytes / _MIB:.0f} MB "
            f"({done.stderr.strip()[-200:]}): name a larger `folder:`, or use `--rpc agent`"
        )
    detail = (
        f"copied TVM's RPC server to the board: {sent / _MIB:.0f} MB, {tree.unpacked_bytes / _MIB:.0f} MB unpacked, "
        f"in {time.monotonic() - started:.0f} s"
    )
    on_event(Event("board", {"board": name, "what": "agent", "detail": detail}))
    return place


def _what_is_there(reach: Reach) -> tuple[str, tuple[int, int], bool]:
    """Return machine (uname -m), version of Python, and whether there is a libstdc++; raises BoardUnfit."""
    name = reach.name
    asked = reach.run(_WHICH, _ASK_S)
    words = asked.stdout.split()
    if asked.status != 0 or words[5:] != ["1"] or not all(_NUMBER.fullmatch(word) for word in words[:2]):
        raise BoardUnfit(
            f"board '{name}' has no complete python3, which TVM's RPC server needs: install it there "
            "(sudo apt-get install python3), or use `--rpc agent`"
        )
    python, libc = (int(words[0]), int(words[1])), words[3] if _VERSION.fullmatch(words[3]) else "-"
    if python < _OLDEST_PYTHON:
        raise BoardUnfit(f"board '{name}' has Python {words[0]}.{words[1]}, TVM needs 3.10: use `--rpc agent`")
    if libc != "-" and tuple(int(part) for part in libc.split(".")[:2]) < _OLDEST_GLIBC:
        raise BoardUnfit(f"board '{name}' has glibc {libc}, TVM needs 2.28: use `--rpc agent`")
    return words[2], python, words[4] == "1"


def _cxx_libraries(board: str, cc: str) -> list[Path]:
    """Return the C++ libraries of the target's own compiler, for a board without any."""
    found = []
    for name in _CXX:
        command = [cc, f"-print-file-name={name}"]
        with suppress(OSError, subprocess.SubprocessError):
            done = run_tool(command, timeout_s=_ASK_S, check=True)
            path = Path(done.stdout.strip())
            found += [path] if path.is_absolute() and path.exists() else []
    if len(found) < len(_CXX):
        raise BoardUnfit(
            f"board '{board}' has no libstdc++.so.6, which TVM's RPC server needs: install it there "
            "(sudo apt-get install libstdc++6), or use `--rpc agent`"
        )
    return found
