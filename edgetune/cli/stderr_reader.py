"""Stderr reader: a separate process that reads descriptor 2, where TVM, other libraries and child processes write.

A thread would not suffice. It stops while a library holds the interpreter, and that library then waits forever for room
in the pipe. It also dies with the process whose last output is needed. The reader is forked before any import. It
writes what it reads according to the mode (`edgetune.cli.stderr.Mode`) and keeps the last lines. It prints them when
the command dies without an error message.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import select
import signal
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from edgetune.cli import stderr
from edgetune.cli.failure import as_fault, one_line, printable
from edgetune.cli.stderr import Link, locked

_READ = 1 << 16
_LONGEST = 4000
_KEPT_LINES = 40
_LAST_WORDS = 600
_FRAMES = 2  # reported stack frames, from the place of the crash
_FATAL = "Fatal Python error: "
_SIGNALS = {
    "Segmentation fault": signal.SIGSEGV,
    "Aborted": signal.SIGABRT,
    "Bus error": signal.SIGBUS,
    "Illegal instruction": signal.SIGILL,
    "Floating-point exception": signal.SIGFPE,
}
_SAYS_LITTLE = re.compile(r"(Extension modules: |(Current thread|Thread) 0x|<no Python frame>|\s*$)")


@contextmanager
def stderr_is_read(*, as_json: bool) -> Iterator[None]:
    """Start the reader of descriptor 2, which stays to the end of the process; `edgetune.cli.stderr` writes through it.

    Nothing changes where the process may not fork.
    """
    link = _start(as_json=as_json)
    if link is None:
        yield
        return
    stderr.connect(link)
    faulthandler.enable()
    try:
        yield
    finally:
        stderr.settle()
        link.order("bye")  # output of libraries during interpreter shutdown is useless


def _start(*, as_json: bool) -> Link | None:
    try:
        real = os.dup(2)
    except OSError:
        return None
    try:
        process = os.pidfd_open(os.getpid())
    except OSError:  # a kernel before 5.3, or a sandbox that forbids it
        os.close(real)
        return None
    lock = os.memfd_create("edgetune-stderr")
    read, write = os.pipe()
    ordered, orders = os.pipe()
    answers, answered = os.pipe()
    forwarded, forwarding = os.pipe()
    try:
        reader = os.fork()
    except OSError:
        for descriptor in (process, real, lock, read, write, ordered, orders, answers, answered, forwarded, forwarding):
            os.close(descriptor)
        return None
    if reader == 0:
        _be_reader(process, _Reader(read, ordered, answered, forwarding, real, lock, as_json=as_json))
    for descriptor in (process, read, ordered, answered, forwarding):
        os.close(descriptor)
    os.dup2(write, 2)
    os.close(write)
    os.set_blocking(forwarded, False)
    stream = os.fdopen(real, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
    return Link(stream, lock, orders, answers, forwarded)


def _be_reader(process: int, reader: _Reader) -> NoReturn:
    """Close all descriptors of the command except those that `reader` needs, and read until `process` has ended."""
    code = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)  # these signals are for the command, which may still write
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        first = 3
        for kept in sorted({process, *reader.descriptors}):
            os.closerange(first, kept)
            first = kept + 1
        os.closerange(first, max(first, os.sysconf("SC_OPEN_MAX")))
        reader.run(process)
        code = 0
    finally:
        os._exit(code)


class _Reader:
    """The state of the reader process."""

    def __init__(
        self, read: int, ordered: int, answered: int, forwarding: int, real: int, lock: int, *, as_json: bool
    ) -> None:
        self._read = read
        self._ordered = ordered
        self._answered = answered
        self._forwarding = forwarding
        self._real = real
        self._lock = lock
        self._as_json = as_json
        self._mode: str = "json" if as_json else "silent"
        self._kept: deque[str] = deque(maxlen=_KEPT_LINES)
        self._partial = b""
        self._ending = False
        self._replaced = False
        self._fatal = ""

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The descriptors of the command that the reader needs."""
        return self._read, self._ordered, self._answered, self._forwarding, self._real, self._lock

    def run(self, process: int) -> None:
        """Read until `process` (a pidfd) has ended."""
        for descriptor in (self._read, self._ordered, self._forwarding):
            os.set_blocking(descriptor, False)
        polled = select.poll()
        for descriptor in (self._read, self._ordered, process):
            polled.register(descriptor, select.POLLIN)
        while True:
            ready = dict(polled.poll())
            if self._ordered in ready and not self._obey():  # first: a command applies to the lines written after it
                polled.unregister(self._ordered)
            if self._replaced:
                self._drain()
                return
            if self._read in ready and not self._take():
                polled.unregister(self._read)
            if process in ready:
                self._drain()
                if not self._ending or self._fatal:
                    self._tell_death()
                return

    def _take(self) -> bool:
        """Read once; False at the end, when no process can write any more."""
        try:
            data = os.read(self._read, _READ)
        except BlockingIOError:
            return True
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._show(line)
        if len(self._partial) > _LONGEST:
            self._show(self._partial)
            self._partial = b""
        return bool(data)

    def _drain(self) -> None:
        while select.select([self._read], [], [], 0)[0]:
            if not self._take():
                break
        if self._partial:
            self._show(self._partial)
            self._partial = b""

    def _obey(self) -> bool:
        try:
            words = os.read(self._ordered, _READ).decode().split()
        except BlockingIOError:
            return True
        for word in words:
            if word == "settle":
                self._drain()
                with suppress(OSError):  # the command has died
                    os.write(self._answered, b".")
            elif word == "bye":
                self._ending = True
            elif word == "replaced":
                self._replaced = True
            else:
                self._mode = word
        return bool(words)

    def _show(self, raw: bytes) -> None:
        line = printable(raw.decode(errors="replace").expandtabs().rstrip())[:_LONGEST]
        before, fatal, _ = line.partition(_FATAL)
        if fatal and before:  # the last line before the crash had no line end
            self._show(before.encode())
            line = line.removeprefix(before)
        if not line:
            return
        self._kept.append(line)
        if line.startswith(_FATAL):
            self._fatal = line.removeprefix(_FATAL)
        if self._ending:
            return
        if self._mode == "json":
            self._write(json.dumps({"event": "stderr", "message": line}))
        elif self._mode == "lines":
            self._write(f"edgetune: stderr: {line}")
        elif self._mode == "forward":
            with suppress(OSError):  # the pipe is full: the lines are not shown
                os.write(self._forwarding, f"{line}\n".encode())

    def _write(self, text: str) -> None:
        with locked(self._lock), suppress(OSError):
            rest = f"{text}\n".encode(errors="backslashreplace")
            while rest:
                rest = rest[os.write(self._real, rest) :]

    def _tell_death(self) -> None:
        """Report that the command died, the cause as far as known, and its last output."""
        number = _SIGNALS.get(self._fatal.rstrip("."), signal.SIGSEGV if self._fatal else signal.SIGKILL)
        lines = [line for line in self._kept if not _SAYS_LITTLE.match(line)]
        fatal = next((at for at, line in enumerate(lines) if line.startswith(_FATAL)), len(lines))
        words = one_line("; ".join(lines[:fatal]))[-_LAST_WORDS:]
        frames = "; ".join(line.strip() for line in lines[fatal + 1 : fatal + 1 + _FRAMES])
        last = f"{f' in {frames}' if frames else ''}{f', and wrote last: {words}' if words else ''}"
        if self._fatal:
            sentence = f"edgetune crashed ({self._fatal}){last}: what was measured is kept; report this"
        else:
            sentence = (
                f"edgetune was killed{last}: what was measured is kept; if you did not kill it, memory probably ran "
                "out (`dmesg` shows that)"
            )
        self._write(as_fault("Killed" if not self._fatal else "Crashed", 128 + number, sentence, as_json=self._as_json))


def install_hooks(*, as_json: bool) -> None:
    """Write uncaught exceptions of any thread on stderr through `edgetune.cli.stderr`: a report needs the traceback."""
    import threading
    import traceback
    from types import TracebackType

    def tell(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        text = "".join(traceback.format_exception(kind, error, trace)).rstrip()
        if as_json:
            sentence = one_line(f"a fault of edgetune itself ({kind.__name__}: {error}); report this")
            stderr.say(as_fault(kind.__name__, 1, sentence, as_json=True, traceback=text))
        else:
            stderr.say(text)

    sys.excepthook = tell
    threading.excepthook = lambda of: tell(of.exc_type, of.exc_value, of.exc_traceback)
