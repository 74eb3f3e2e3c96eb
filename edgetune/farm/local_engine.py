"""The `local` engine: one process with a thread per board, each of which runs its cells one after the other.

The rows of the database are the only queue, so that another process goes on after any death of this one. A lock on a
file keeps a second one out.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from edgetune.config.database_location import DatabaseUrl
from edgetune.config.host import host_name
from edgetune.errors import NightFault
from edgetune.farm.attempt import LOST, POLL_S, to_verdict
from edgetune.farm.calendar import clock_time
from edgetune.farm.cells import Cell
from edgetune.farm.engine import OnVerdict
from edgetune.farm.farm_file import Farm
from edgetune.farm.lost_boards import give_up
from edgetune.farm.night_store import Night, NightCell, NightStore
from edgetune.farm.progress import NightProgress, check_version

_READ_S = 0.5


class LocalEngine:
    """Runs cells of a farm on the boards that this host reaches, see `Engine`."""

    def __init__(self, farm: Farm, store: NightStore) -> None:
        self._farm = farm
        self._store = store
        self._stop = threading.Event()

    def begin(self, facts: Mapping[str, Any], cells: Sequence[Cell]) -> Night | None:
        """Write a new night, see `Engine`."""
        return self._store.begin(facts, cells)

    def rerun(self, night: Night, row: NightCell) -> None:
        """Forget the verdict of a cell, see `Engine`."""
        check_version(night)  # `work` would refuse it
        self._store.rerun(night, row.id)

    def serve(self) -> None:
        """Raise NightFault: other hosts cannot help."""
        raise NightFault(
            f"{self._farm.path} has the engine 'local', which works in `edgetune nightly run` alone: for several hosts "
            "write `engine: procrastinate` and a database on a PostgreSQL server"
        )

    def work(self, night: Night, on_verdict: OnVerdict) -> None:
        """Run all cells of `night` that have no verdict, see `Engine`."""
        if isinstance(self._farm.db, DatabaseUrl) and night.host != host_name():
            raise NightFault(
                f"night {night.night} runs on host {night.host}: go on there, or write `engine: procrastinate`"
            )
        check_version(night)
        self._stop = threading.Event()
        with _only_one(self._farm):
            progress = NightProgress(self._store, night, self._farm.content.timezone)
            told = progress.standings()
            with ThreadPoolExecutor(len(progress.boards), "edgetune-board") as pool:
                jobs: set[Future[None]] = {pool.submit(self._board, progress, board) for board in progress.boards}
                try:
                    while any(not job.done() for job in jobs):
                        done, _ = wait(jobs, timeout=_READ_S)
                        if any(job.exception() for job in done):
                            break
                        progress.read()
                        if progress.standings() != told:  # a verdict, or a cell that runs now
                            told = progress.standings()
                            on_verdict(night)
                finally:
                    self._stop.set()
            for job in jobs:
                job.result()
            on_verdict(night)
        if why := progress.host_drained():
            raise NightFault(f"{why}: `edgetune nightly drain --off {host_name()}` gives it back, then run again")

    def _board(self, progress: NightProgress, board: str) -> None:
        """Run the cells of one board until the night is done. Runs in the thread that cell processes die with."""
        lost: dict[int, int] = {}
        while not self._stop.is_set() and not progress.done and not progress.host_drained():
            if progress.over or progress.drained(board):
                progress.close()
            row = progress.runnable(board)
            if row is None:
                self._stop.wait(POLL_S)
                continue
            why = to_verdict(self._farm, self._store, progress.night, row, self._ends(progress, row))
            if why == LOST:
                lost[row.id] = lost.get(row.id, 0) + 1
                give_up(self._store, row, lost[row.id])
            progress.read()

    def _ends(self, progress: NightProgress, row: NightCell) -> Any:
        def ends(attempt: int) -> str:
            return "stopped" if self._stop.is_set() else progress.ends(row, attempt)

        return ends


@contextmanager
def _only_one(farm: Farm) -> Iterator[None]:
    """Hold the lock of the farm; raises NightFault where another process holds it."""
    path = lock_path(farm)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise NightFault(f"{path} cannot be written ({error.strerror}): make the folder writable") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
            raise NightFault(
                f"another `edgetune nightly run` works for this farm (process {holder or 'unknown'}): "
                "`edgetune nightly status` shows it"
            ) from None
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} since {clock_time(datetime.now(UTC), farm.content.timezone)}".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def lock_path(farm: Farm) -> Path:
    """The file of a farm's lock: beside the database, so that two folders with one farm exclude each other."""
    place = farm.db if isinstance(farm.db, Path) else farm.folder / "run"
    return place.with_name(f"{place.name}.{farm.name}.lock")
