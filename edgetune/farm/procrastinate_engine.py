"""The `procrastinate` engine: several hosts share the cells of a night; PostgreSQL is the only server.

A cell is a job, deferred in the transaction that writes its row. Its queue and lock are its board. Claims, heartbeats
and retries are procrastinate's. No lock of it is a fence: the number of the attempt decides who writes a verdict, and
the board's own lock who times. A host that was frozen starts anew, because its jobs are others' by then.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import procrastinate
import psycopg
from procrastinate import exceptions
from sqlalchemy import Connection

from edgetune.config.database_location import DatabaseUrl
from edgetune.config.host import host_name
from edgetune.errors import ConfigError, DatabaseError, ModelError, NightFault
from edgetune.farm.attempt import LOST, end_frozen_attempts, to_verdict
from edgetune.farm.cell_jobs import AT_ONCE, BEHIND, Behind, CellLeft, driver, prepare
from edgetune.farm.cells import Cell
from edgetune.farm.engine import OnVerdict
from edgetune.farm.farm_file import Farm, load_farm
from edgetune.farm.host_process import Pulse, alive, signals_noted
from edgetune.farm.identity import claim
from edgetune.farm.lost_boards import give_up
from edgetune.farm.night_store import Also, Night, NightCell, NightStore
from edgetune.farm.progress import NightProgress, check_version
from edgetune.records.postgresql_database import CONNECTION_OPTIONS

TASK = "edgetune_cell"
HEARTBEAT_S, STALLED_S, LOOK_S, GRACE_S = 5.0, 20.0, 5.0, 5.0
LACKING_S = 30.0
_READ_S, _IDLE_S = 0.5, 2.0


@dataclass(frozen=True)
class _Lacks:
    """Why this host lacks a model of a night (id), "" where it does not, and when that was seen."""

    night: int = 0
    at: float = 0.0
    why: str = ""


def _places(farm: Farm) -> tuple[object, ...]:
    """What a host keeps of a farm from its start on."""
    return farm.name, farm.folder, farm.archive, farm.db, farm.content.engine


class ProcrastinateEngine:
    """Runs cells of a farm together with other hosts, see `Engine`."""

    def __init__(self, farm: Farm, store: NightStore, say: Callable[[str], None]) -> None:
        if not isinstance(farm.db, DatabaseUrl):
            raise NightFault(f"{farm.path}: the engine 'procrastinate' needs 'db' to be a postgresql:// URL")
        self._farm, self._store, self._say, self._url = farm, store, say, farm.db
        self._stop, self._lost = threading.Event(), dict[int, int]()
        self._defers = procrastinate.App(connector=procrastinate.SyncPsycopgConnector())
        self._lacks = _Lacks()
        prepare(store.database)

    def begin(self, facts: Mapping[str, Any], cells: Sequence[Cell]) -> Night | None:
        """Write a new night and its jobs, see `Engine`."""
        return self._store.begin(facts, cells, self._deferring(facts["host"], first=True))

    def rerun(self, night: Night, row: NightCell) -> None:
        """Forget the verdict of a cell and defer its job again, see `Engine`."""
        check_version(night)  # no host would run it
        self._store.rerun(night, row.id, self._deferring(night.host))

    def work(self, night: Night, on_verdict: OnVerdict) -> None:
        """Run cells of `night` until all have a verdict, here or on other hosts, see `Engine`."""
        progress = self._progress(night)
        while not progress.done:
            why = progress.refusal() or (self._lacking(progress) if night.host != host_name() else "")
            if why:
                raise NightFault(why)
            self._share(progress, lambda: on_verdict(night))

    def serve(self) -> None:
        """Run cells of each night that is open, see `Engine`; say why none is run."""
        self._claim()
        said = ""
        while True:
            alive()
            try:
                self._read_anew()
                self._claim()  # the name as well, once the first `run` has given it away
                open_nights = [night for night in self._store.nights(self._farm.name) if night.finished_utc is None]
                progress = self._progress(open_nights[-1]) if open_nights else None
                if progress is None or progress.done or progress.over:
                    why = "no night is open: this host waits for one"
                elif not (why := progress.refusal() or self._lacking(progress)):
                    self._say(said := f"night {progress.night.night}: host {host_name()} takes cells")
                    self._share(progress, lambda: None)
            except (ConfigError, DatabaseError, NightFault) as error:
                why = error.message
            if why not in ("", said):
                self._say(said := why)
            time.sleep(_IDLE_S)

    def _claim(self) -> None:
        for news in claim(self._farm, self._store, joins=True):
            self._say(news)

    def _lacking(self, progress: NightProgress) -> str:
        """Which model of a night this host lacks, or has another one of; "" where it has all.

        Files are looked at once a night, and every `LACKING_S` while one is not there.
        """
        night = progress.night.id
        if self._lacks.night == night and (not self._lacks.why or time.monotonic() - self._lacks.at < LACKING_S):
            return self._lacks.why
        why, judged = "", progress.judged()
        waiting = {row.cell.model: row.cell.begun_with for row in progress.rows if row.id not in judged}
        for model, began in waiting.items():
            alive()
            try:
                if began and began.sha256:
                    began.model_file(self._farm, model)
            except ModelError as error:
                why = f"this host takes no cell: {error.message}"
                break
        self._lacks = _Lacks(night, time.monotonic(), why)
        return why

    def _read_anew(self) -> None:
        """Read the farm file, which may have been edited since the last night. Raises ConfigError and NightFault."""
        farm = load_farm(self._farm.path)
        if _places(farm) != _places(self._farm):
            raise ConfigError(f"{farm.path} has another name, folder, database or engine: start `work` again")
        self._farm = farm

    def _progress(self, night: Night) -> NightProgress:
        return NightProgress(self._store, night, self._farm.content.timezone)

    def _deferring(self, host: str, places: Mapping[int, int] | None = None, *, first: bool = False) -> Also:
        """What defers a job per cell, except for twins at `first`; `places`: positions of some cells in the plan."""

        def defer(connection: Connection, cells: Sequence[tuple[int, Cell]]) -> None:
            for index, (number, cell) in enumerate(cells):
                if first and not cell.searches:
                    continue
                task = self._defers.configure_task(
                    TASK, queue=self._queue(cell, host), lock=cell.place(host), queueing_lock=f"cell {number}",
                    priority=-(places or {}).get(number, index), connection=driver(connection),
                )  # fmt: skip
                with contextlib.suppress(exceptions.AlreadyEnqueued), connection.begin_nested():
                    task.defer(cell=number)

        return defer

    def _queue(self, cell: Cell, host: str) -> str:
        """Name of a board's queue in this farm; procrastinate has room for 40 bytes."""
        return hashlib.sha256(f"{self._farm.name}\n{cell.place(host)}".encode()).hexdigest()[:32]

    def _share(self, progress: NightProgress, tell: Callable[[], None]) -> None:
        """Take cells of a night until it is done, or this host may not any more."""
        self._stop = threading.Event()
        try:
            for number in asyncio.run(self._sharing(progress, tell)):
                signal.raise_signal(number)
        except (exceptions.ConnectorException, psycopg.Error) as error:
            words = str(error.__cause__ or error)
            raise DatabaseError(f"the jobs in {self._url} cannot be reached ({words}): look at its server") from error
        finally:
            self._stop.set()

    async def _sharing(self, progress: NightProgress, tell: Callable[[], None]) -> list[int]:
        """Return the signals that ended it."""
        threads = len(progress.boards)
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(threads + 4, "edgetune-board"))
        connector = procrastinate.PsycopgConnector(
            conninfo=self._url.text, kwargs=dict(CONNECTION_OPTIONS), timeout=STALLED_S
        )
        app = procrastinate.App(connector=connector)
        app.task(name=TASK, retry=Behind())(lambda cell: self._run(progress, cell))
        host, pulse = progress.night.host, self._pulse()
        own = [row.cell for row in progress.rows if host == host_name() or not row.cell.here]
        with signals_noted() as came:
            async with app.open_async():
                worker = asyncio.create_task(app.run_worker_async(
                    queues=sorted({self._queue(cell, host) for cell in own}), concurrency=threads, name=host_name(),
                    fetch_job_polling_interval=1.0, shutdown_graceful_timeout=GRACE_S, install_signal_handlers=False,
                    update_heartbeat_interval=HEARTBEAT_S, stalled_worker_timeout=STALLED_S, delete_jobs="always",
                ))  # fmt: skip
                told, looked = progress.standings(), 0.0
                try:
                    while not (came or worker.done() or progress.done or progress.refusal()):
                        pulse.beat()
                        if progress.over or any(map(progress.drained, progress.boards)):
                            await asyncio.to_thread(progress.close)
                        if time.monotonic() - looked > LOOK_S:
                            await self._look(app, progress)
                            looked = time.monotonic()
                        await asyncio.wait({worker}, timeout=_READ_S)
                        await asyncio.to_thread(progress.read)
                        if progress.standings() != told:  # a verdict, or a cell that runs now
                            told = progress.standings()
                            await asyncio.to_thread(tell)
                finally:
                    self._stop.set()
                    worker.cancel()
                    (ended,) = await asyncio.gather(worker, return_exceptions=True)
                if isinstance(ended, Exception):
                    raise ended
        return came

    async def _look(self, app: procrastinate.App, progress: NightProgress) -> None:
        """Give back the jobs of dead hosts, and defer what lost its job on the way or waits for no search any more."""
        manager = app.job_manager
        for job in await manager.get_stalled_jobs(task_name=TASK, seconds_since_heartbeat=STALLED_S):
            with contextlib.suppress(exceptions.ConnectorException):  # another host was faster
                await manager.retry_job(job, retry_at=AT_ONCE, priority=job.priority - BEHIND)
        found = [job for word in ("todo", "doing") for job in await manager.list_jobs_async(task=TASK, status=word)]
        known = progress.judged() | {job.task_kwargs["cell"] for job in found}
        places = {row.id: row.position for row in progress.rows}
        free = [row for row in progress.rows if row.id not in known and not progress.waits(row)]
        if missing := [(row.id, row.cell) for row in free]:
            with self._store.database.writing() as connection:
                self._deferring(progress.night.host, places)(connection, missing)

    def _run(self, progress: NightProgress, cell: int) -> None:
        """Run one job, in the thread that the cell's process dies with."""
        pulse = self._pulse()
        progress.read()
        row = next((row for row in progress.rows if row.id == cell), None)
        if row is None or cell in progress.judged() or progress.drained(row.cell.board) or progress.waits(row):
            return  # a twin that waits gets a job when the search is over

        def ends(attempt: int) -> str:
            pulse.beat()
            return "stopped" if self._stop.is_set() else progress.ends(row, attempt)

        why = to_verdict(self._farm, self._store, progress.night, row, ends)
        pulse.beat()
        if why == LOST:
            self._lost[cell] = self._lost.get(cell, 0) + 1
            give_up(self._store, row, self._lost[cell])
        if why:
            raise CellLeft(why)

    def _pulse(self) -> Pulse:
        return Pulse(STALLED_S - 2 * HEARTBEAT_S, self._say, lambda: end_frozen_attempts(self._store))
