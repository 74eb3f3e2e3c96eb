"""The `local` engine: one process with a thread per board, each of which runs its cells one after the other.

The rows of the database are the only queue, so that another process goes on after any death of this one. A lock on a
file keeps a second one out.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from edgetune.errors import NightFault
from edgetune.farm.engine import OnVerdict
from edgetune.farm.farm_file import Farm
from edgetune.farm.night_store import Night, NightCell, NightStore, Verdict
from edgetune.farm.run_cell import folder_of, log_of
from edgetune.ipc.child_process import describe_exit

MOST_CRASHES = 3
_POLL_S = 0.2
_LAST_WORDS = 300


def host_name() -> str:
    """Name of this host in the database: `EDGETUNE_HOST`, or else its own."""
    return os.environ.get("EDGETUNE_HOST") or socket.gethostname()


class LocalEngine:
    """Runs cells of a farm on the boards that this host reaches."""

    def __init__(self, farm: Farm, store: NightStore) -> None:
        self._farm = farm
        self._store = store
        self._stop = threading.Event()
        self._telling = threading.Lock()

    def work(self, night: Night, on_verdict: OnVerdict) -> None:
        """Run all cells of `night` that have no verdict, see `Engine`."""
        boards = list(dict.fromkeys(row.cell.board for row in self._store.cells(night)))
        with _only_one(self._farm), ThreadPoolExecutor(len(boards), "edgetune-board") as pool:
            jobs: set[Future[None]] = {pool.submit(self._serve, night, board, on_verdict) for board in boards}
            try:
                while any(not job.done() for job in jobs):
                    done, _ = wait(jobs, timeout=_POLL_S)
                    if any(job.exception() for job in done):
                        break
            finally:
                self._stop.set()
        for job in jobs:
            job.result()

    def runnable(self, night: Night, board: str) -> NightCell | None:
        """Return the next cell for `board` that has no verdict; a twin waits for the cell that searches for it."""
        rows = self._store.cells(night)
        searching = {(row.cell.model, row.cell.kind) for row in rows if row.cell.searches and row.verdict is None}
        for row in rows:
            waits = not row.cell.searches and (row.cell.model, row.cell.kind) in searching
            if row.cell.board == board and row.verdict is None and not waits:
                return row
        return None

    def _serve(self, night: Night, board: str, on_verdict: OnVerdict) -> None:
        """Run the cells of one board until each has a verdict. Runs in the thread that cell processes die with."""
        crashes: dict[int, int] = {}
        while not self._stop.is_set():
            if _over(night):
                self._close(night, board, on_verdict)
                return
            row = self.runnable(night, board)
            if row is None:
                if all(other.verdict for other in self._store.cells(night) if other.cell.board == board):
                    return
                self._stop.wait(_POLL_S)
                continue
            attempt = self._store.start_attempt(row.id, host_name())
            outcome = self._run(night, row, attempt)
            self._store.end_attempt(row.id, attempt, outcome)
            if self._stop.is_set():
                return
            if self._store.is_present(row.id, attempt) and not _over(night):
                crashes[row.id] = crashes.get(row.id, 0) + 1
                if crashes[row.id] < MOST_CRASHES:
                    continue
                words = _last_words(log_of(self._farm, night.night, row.cell))
                why = f"the cell's process ended {MOST_CRASHES} times without a verdict ({outcome}{words})"
                self._store.judge(row.id, attempt, Verdict("not measured", why))
            self._tell(night, on_verdict)

    def _run(self, night: Night, row: NightCell, attempt: int) -> str:
        """Run the process of one attempt to its end, or end it where it is to stop; return how it ended."""
        folder = folder_of(self._farm, night.night, row.cell)
        temporary = folder / "tmp"
        shutil.rmtree(temporary, ignore_errors=True)  # of an attempt that was killed
        temporary.mkdir(parents=True, exist_ok=True)
        environment = dict(os.environ) | {"TMPDIR": str(temporary)}
        environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
        words = [str(os.getpid()), str(self._farm.path), night.night, str(row.id), str(attempt)]
        with log_of(self._farm, night.night, row.cell).open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", "from edgetune.farm.run_cell import main; main()", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        try:
            while process.poll() is None:
                if self._stop.wait(_POLL_S):
                    return "stopped"
                if _over(night):
                    return "the window was over"
                if not self._store.is_present(row.id, attempt):
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(1.0)  # it has just written its verdict
                    return describe_exit(process.returncode) if process.returncode is not None else "cancelled"
            return describe_exit(process.returncode)
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # cells go on where they were, so nobody waits for them
            process.wait()
            shutil.rmtree(temporary, ignore_errors=True)

    def _close(self, night: Night, board: str, on_verdict: OnVerdict) -> None:
        for row in self._store.cells(night):
            if row.cell.board == board and row.verdict is None:
                self._store.cancel(row.id, f"the window was over ({night.ends_utc})")
        self._tell(night, on_verdict)

    def _tell(self, night: Night, on_verdict: OnVerdict) -> None:
        with self._telling:
            on_verdict(night)


def _over(night: Night) -> bool:
    return night.ends_utc is not None and datetime.now(UTC) >= datetime.fromisoformat(night.ends_utc)


def _last_words(log: Path) -> str:
    text = log.read_text(errors="replace").strip() if log.exists() else ""
    return f": {text.splitlines()[-1][-_LAST_WORDS:]}" if text else ""


@contextmanager
def _only_one(farm: Farm) -> Iterator[None]:
    """Hold the lock of the farm; raises NightFault where another process holds it.

    It lies beside the database, so that two folders with one farm exclude each other.
    """
    place = farm.db if isinstance(farm.db, Path) else farm.folder / "run"
    path = place.with_name(f"{place.name}.{farm.name}.lock")
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
        os.pwrite(descriptor, f"{os.getpid()} since {time.strftime('%H:%M')}".encode(), 0)
        yield
    finally:
        os.close(descriptor)
