"""Folder of a run for its candidates: in memory where possible, removed after the run even if the run is killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from edgetune.errors import BoardUnavailable

_MIN_FREE_BYTES = 256 << 20
_LOCK = "in_use"


class Workspace:
    """A private folder under `/dev/shm` (or the temporary folder), removed by `close` or by the next run's start.

    While it is in use, its file `in_use` is locked; if that lock is free, the run was killed.
    """

    def __init__(self, roots: Iterable[Path] | None = None) -> None:
        """Make the folder in the first usable one of `roots`; raises BoardUnavailable if none is usable."""
        base = _base(tuple(roots) if roots is not None else _roots())
        door = os.open(base / "door", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(door, fcntl.LOCK_EX)  # no other run takes our folder for abandoned before it is locked
            _remove_abandoned(base)
            self.path = Path(tempfile.mkdtemp(prefix="run-", dir=base))
            self._lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        finally:
            os.close(door)

    def close(self) -> None:
        """Remove the folder; a second call does nothing."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _roots() -> tuple[Path, ...]:
    return (Path("/dev/shm"), Path(tempfile.gettempdir()), Path.home() / ".cache")  # noqa: S108  mkdtemp below


def _base(roots: tuple[Path, ...]) -> Path:
    """Return the first root that takes files, runs code and has room; `noexec` mounts cannot load shared libraries."""
    for root in roots:
        base = root / f"edgetune-{os.getuid()}"
        try:
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = os.statvfs(base)
            owner = base.lstat().st_uid
        except OSError:
            continue
        if owner != os.getuid() or status.f_flag & os.ST_NOEXEC:
            continue
        if status.f_bavail * status.f_frsize >= _MIN_FREE_BYTES and os.access(base, os.W_OK):
            return base
    names = ", ".join(str(root) for root in roots)
    raise BoardUnavailable(
        f"no folder for candidates: {names} are full, read-only or mounted noexec; set TMPDIR to one with 256 MB free"
    )


def _remove_abandoned(base: Path) -> None:
    for folder in base.glob("run-*"):
        with contextlib.suppress(OSError):
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
