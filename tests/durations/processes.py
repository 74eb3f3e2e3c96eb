"""Which programs a run starts, for which test, and their CPU time, from the kernel: needs root and Linux.

Starts come from the process events of the kernel's connector (linux/cn_proc.h): a process belongs to the test file of
the process that forked it, and a child of a worker to the file that the worker runs. CPU times come from process
accounting (acct(2)), in steps of 10 ms a process.
"""

from __future__ import annotations

import ctypes
import os
import re
import select
import socket
import struct
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_CONNECTOR = 11  # NETLINK_CONNECTOR
_CN_IDX_PROC = 1
_LISTEN, _IGNORE = 1, 2
_FORK, _EXEC = 1, 2  # PROC_EVENT_FORK, PROC_EVENT_EXEC
_HEADERS = 16 + 20  # nlmsghdr, cn_msg
_ACCT_V3 = struct.Struct("<BBHIIIIIIf8H16s")
_TICKS = 100  # AHZ: comp_t counts hundredths of a second
_RECEIVE_BUFFER = 64 << 20

# Programs by the name that they go by in the table; any other name is its own.
PROGRAMS = (
    (re.compile(r"(cc1|cc1plus|as|ld|collect2|ar|ranlib|.*-(as|ld|ar)|.*g?cc(-\d+)?|[gc]\+\+|.*-g\+\+)$"), "gcc"),
    (re.compile(r"clang.*|lld.*"), "clang"),
    (re.compile(r"qemu.*"), "qemu"),
    (re.compile(r"nvcc|cicc|ptxas|fatbinary|cudafe\+\+|nvlink"), "nvcc"),
    (re.compile(r"python.*|edgetune|pytest|mypy"), "python"),
)


def current(worker: int) -> str:
    """Return the name of the file in which process `worker` notes the test file that it runs."""
    return f"current-{worker}"


def program(name: str) -> str:
    """Return the name under which a program is counted: `cc1` is part of gcc, `ptxas` of nvcc."""
    return next((label for pattern, label in PROGRAMS if pattern.fullmatch(name)), name)


@dataclass
class Use:
    """Programs of one test file: how many were started, and their CPU seconds, by name."""

    started: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    cpu: dict[str, float] = field(default_factory=lambda: defaultdict(float))


class LostEventsError(Exception):
    """Events of the kernel were lost, so that counts would be too small."""


class _Starts:
    """The programs that were executed by each process of a test: the test's file, and the program's name.

    The kernel gives the numbers of processes again: a process is known by its number and how often that was given.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs: dict[tuple[int, int], list[tuple[str, str]]] = defaultdict(list)
        self._given: dict[int, int] = defaultdict(int)
        self._files: dict[int, str] = {}
        self.lost = False

    def take(self, event: bytes) -> None:
        """Note what an event says."""
        what, _cpu, _time = struct.unpack_from("<IIQ", event, _HEADERS)
        if what == _FORK:
            _, parent, thread, child = struct.unpack_from("<IIII", event, _HEADERS + 16)
            if thread == child:  # a process, not a thread
                self._forked(parent, child)
        elif what == _EXEC:
            (child,) = struct.unpack_from("<I", event, _HEADERS + 16)
            if (file := self._files.get(child)) is not None:
                self._executed(child, file)

    def _forked(self, parent: int, child: int) -> None:
        self._given[child] += 1
        self._files.pop(child, None)  # that of an earlier process
        file = self._files.get(parent)
        if file is None:
            try:
                file = (self.folder / current(parent)).read_text(encoding="utf-8")
            except OSError:  # no worker
                return
        self._files[child] = file

    def _executed(self, child: int, file: str) -> None:
        try:
            name = Path(f"/proc/{child}/exe").readlink().name
        except OSError:
            name = "ended at once"
        self.programs[child, self._given[child]].append((file, name))


def _listen(listener: socket.socket, stop: int, starts: _Starts) -> None:
    while True:
        ready, _, _ = select.select([listener.fileno(), stop], [], [])
        if listener.fileno() not in ready:
            return
        try:
            event = listener.recv(1 << 16)
        except OSError:  # ENOBUFS
            starts.lost = True
        else:
            starts.take(event)


def _tell(listener: socket.socket, operation: int) -> None:
    message = struct.pack("<IIIIHHI", _CN_IDX_PROC, 1, 1, 0, 4, 0, operation)
    listener.send(struct.pack("<IHHII", 16 + len(message), 3, 0, 0, os.getpid()) + message)


def _accounting(path: Path | None) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.acct(None if path is None else os.fsencode(path)) != 0:
        raise OSError(ctypes.get_errno(), f"process accounting: {os.strerror(ctypes.get_errno())}")


def _seconds(compressed: int) -> float:
    """Return seconds of comp_t, a floating-point number with 3 bits of exponent to the base 8."""
    return ((compressed & 0x1FFF) << (3 * (compressed >> 13))) / _TICKS


def accounted(data: bytes) -> Iterator[tuple[int, str, float]]:
    """Yield the process id, name and CPU seconds of each record of an accounting file."""
    for record in _ACCT_V3.iter_unpack(data[: len(data) - len(data) % _ACCT_V3.size]):
        yield (
            record[6],
            record[18].split(b"\0")[0].decode(errors="replace"),
            _seconds(record[10]) + _seconds(record[11]),
        )


@contextmanager
def observed(folder: Path) -> Iterator[dict[str, Use]]:
    """Observe all processes of this machine until the block ends; the result is filled then: by test file.

    Raises:
        OSError: the kernel tells nothing: this is not root, or root of a container.
        LostEventsError: some of its events were lost.
    """
    starts = _Starts(folder)
    uses: dict[str, Use] = defaultdict(Use)
    ledger = folder / "accounting"
    ledger.touch()
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _CONNECTOR) as listener:
        listener.setsockopt(socket.SOL_SOCKET, 33, _RECEIVE_BUFFER)  # SO_RCVBUFFORCE
        listener.bind((os.getpid(), _CN_IDX_PROC))
        _tell(listener, _LISTEN)
        _accounting(ledger)
        stop, end = os.pipe()
        thread = threading.Thread(target=_listen, args=(listener, stop, starts))
        thread.start()
        try:
            yield uses
        finally:
            _accounting(None)
            _tell(listener, _IGNORE)
            os.close(end)
            thread.join()
            os.close(stop)
    if starts.lost:
        raise LostEventsError("events of the kernel were lost")
    for ran in starts.programs.values():
        for file, name in ran:
            uses[file].started[program(name)] += 1
    ended: dict[int, int] = defaultdict(int)
    for pid, name, seconds in accounted(ledger.read_bytes()):
        ended[pid] += 1
        if (process := (pid, ended[pid])) in starts.programs:
            file, last = starts.programs[process][-1]
            uses[file].cpu[program(last if last.startswith(name[:15]) else name)] += seconds
