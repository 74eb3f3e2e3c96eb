"""Advisory lock per machine and user: only one run times at a time. It is held only while a candidate is timed."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from edgetune.boards.holder import Holder
from edgetune.errors import BoardBusy, BoardUnavailable
from edgetune.events import Event

LOCK_TIMEOUT_S = 600.0
"""Seconds that a search, `bench` and `verify` wait for a board (or this machine) that another run uses."""

_POLL_S = 0.005
_TELL_AFTER_S = 2.0
_MOST_BYTES = 2000


def lock_path() -> Path:
    """The lock file of this user on this machine; in /tmp, which is local to the machine, whatever TMPDIR says."""
    return Path(f"/tmp/edgetune-timing-{os.getuid()}.lock")  # noqa: S108  opened without following links, owner checked


class TimingLock:
    """Take it with `acquire`, give it back with `release`. The file names its holder.

    It is `{"pid": ..., "since": ..., "holder": ...}`, with seconds since 1970 and the line of `Holder`, which says
    since when the run times here. Files of older versions have no `holder`.

    The runs alternate: a waiting run holds the turn lock, without which a run that has just released the lock cannot
    take it again.
    """

    def __init__(
        self,
        path: Path | None = None,
        timeout_s: float = LOCK_TIMEOUT_S,
        on_event: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self._path = path or lock_path()
        self._timeout = timeout_s
        self._on_event = on_event
        self._lock = _open(self._path)
        self._turn = _open(self._path.with_suffix(".turn"))
        self._us: Holder | None = None
        self.held = False

    def acquire(self) -> None:
        """Wait for the lock; an event names its holder after 2 s, and BoardBusy is raised after `timeout_s`."""
        if self.held:
            return
        started, told = time.monotonic(), False
        have_turn = False
        try:
            while True:
                have_turn = have_turn or _try(self._turn)
                if have_turn and _try(self._lock):
                    break
                waited = time.monotonic() - started
                if waited >= self._timeout:
                    holder = self.holder()
                    raise BoardBusy(
                        f"another run ({holder.words}) has been timing on this machine for more than "
                        f"{self._timeout:g} s: wait for it, or end it{holder.remedy}"
                    )
                if not told and waited >= _TELL_AFTER_S:
                    told = True
                    holder = self.holder()
                    message = f"waiting for {holder.words}, which is timing{holder.remedy}"
                    self._on_event(Event("warning", {"message": message}))
                time.sleep(_POLL_S)
        finally:
            if have_turn:
                fcntl.flock(self._turn, fcntl.LOCK_UN)
        self.held = True
        self._us = self._us or Holder.of_this_process()
        ours = {"pid": os.getpid(), "since": time.time(), "holder": self._us.line}
        os.truncate(self._lock, 0)
        os.pwrite(self._lock, json.dumps(ours).encode(), 0)

    def release(self) -> None:
        """Release the lock; does nothing if it is not held."""
        if self.held:
            os.truncate(self._lock, 0)
            fcntl.flock(self._lock, fcntl.LOCK_UN)
            self.held = False

    def holder(self) -> Holder:
        """Who holds the lock, as far as the file says."""
        with contextlib.suppress(ValueError, RecursionError):
            match json.loads(os.pread(self._lock, _MOST_BYTES, 0)):
                case {"holder": str(line)}:
                    return Holder.read(line)
                case {"pid": int(process), "since": since}:
                    return Holder.read(f"process {process}", since)
        return Holder("an unknown process")

    def close(self) -> None:
        """Release, and close the files."""
        self.release()
        for descriptor in (self._lock, self._turn):
            with contextlib.suppress(OSError):
                os.close(descriptor)


@contextmanager
def timing_lock(on_event: Callable[[Event], None] = lambda _: None) -> Iterator[None]:
    """Hold the lock of this machine for a block; raises BoardBusy after `LOCK_TIMEOUT_S`."""
    lock = TimingLock(timeout_s=LOCK_TIMEOUT_S, on_event=on_event)
    try:
        lock.acquire()
        yield
    finally:
        lock.close()


def _open(path: Path) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise BoardUnavailable(f"cannot open the timing lock {path}: {error.strerror}; remove it") from error
    if os.fstat(descriptor).st_uid != os.getuid():
        os.close(descriptor)
        raise BoardUnavailable(f"the timing lock {path} belongs to another user: remove it")
    return descriptor


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
