"""Measuring session: accepts schedule traces, returns measured candidates as they finish; builds ahead of measuring."""

from __future__ import annotations

import secrets
import select
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np

from edgetune.boards.cores import split_cores
from edgetune.boards.lock import LOCK_TIMEOUT_S
from edgetune.boards.opening import BoardFactory
from edgetune.boards.options import MeasuringOptions
from edgetune.boards.protocol import Board, RunRequest
from edgetune.events import Event
from edgetune.ipc.queue import SelectableQueue
from edgetune.measure.accounting import Accounting
from edgetune.measure.attempt import Job
from edgetune.measure.build_worker import BuildPolicy
from edgetune.measure.builder import BuildPool
from edgetune.measure.canary import CanaryMaker
from edgetune.measure.compiler import CandidateBuilder
from edgetune.measure.fleet import CandidateResult, Fleet
from edgetune.measure.jobs import BuildJob, CandidateBuild, Case, ReferenceJob, ReferenceResult
from edgetune.measure.measurement import Measurement, MeasureStart, measured, unmeasured
from edgetune.measure.workspace import Workspace
from edgetune.schedule.kernel_spec import KernelSpec
from edgetune.target.target import Target

_TICK_S = 0.5
_RESERVE_S = 60.0  # in addition to the timeout of the lock


class MeasureSession:
    """Builds in `workers` processes (default: one per core that does not measure) and measures one at a time per board.

    Use it from the thread that made it, and close it (it is a context manager): `prepare` kernels, then either iterate
    over `measure(jobs)`, or `submit` jobs and `poll`. `builder` is that of the target's backend. `on_start` is called
    right before each candidate is run for the first time. `boards` makes the boards, all of `target` (see
    `boards.opening.boards_of`). Raises BoardUnavailable (BoardLost, ...) when no board is left, after all finished
    measurements have been returned.
    """

    def __init__(
        self,
        target: Target,
        boards: BoardFactory,
        builder: CandidateBuilder,
        *,
        measuring: MeasuringOptions | None = None,
        building: BuildPolicy | None = None,
        workers: int | None = None,
        on_start: Callable[[MeasureStart], None] = lambda _: None,
        on_event: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self._on_start, self._on_event = on_start, on_event
        self._measuring = measuring or MeasuringOptions()
        policy = building or BuildPolicy()
        split = split_cores()
        local = boards.here
        if split.shared and local:
            on_event(
                Event(
                    "warning", {"message": "this machine has one core: nothing is pinned, and building disturbs timing"}
                )
            )
        cores = None if split.shared or not local else split.building
        self.workers = workers or len(split.building)
        self.accounting = Accounting()
        self._events: SelectableQueue[Event] = SelectableQueue()
        self._workspace = Workspace()
        self._opened: Sequence[Board] = ()
        self._fleet: Fleet | None = None
        self._pool: BuildPool | None = None
        self._canary: CanaryMaker | None = None
        try:
            toolchain = builder.toolchain(target, policy.compile_timeout_s)
            self._opened = boards.make(self._workspace.path, self._events.put)
            self._canary = CanaryMaker(builder, toolchain, self._workspace.path, cores, self._warn, target)
            self._fleet = Fleet(
                self._opened,
                self._measuring,
                self.accounting,
                canary=self._canary.get,
                on_start=self._started,
                on_event=self._events.put,
                reserve_s=LOCK_TIMEOUT_S + _RESERVE_S,
                remote=not local,
            )
            self._pool = BuildPool(
                self._workspace.path,
                target,
                toolchain,
                policy,
                workers=self.workers,
                cores=cores,
                on_event=on_event,
            )
        except BaseException:
            self.close()
            raise
        self._cases: dict[str, Case] = {}
        self._no_case: dict[str, str] = {}
        self._best: dict[str, float] = {}
        self._backlog: deque[BuildJob] = deque()
        self._submitted: dict[str, bool] = {}
        self._references = 0
        self._ahead = 2 * self.workers + 2 * len(self._opened) + 2

    @property
    def outstanding(self) -> int:
        """Number of submitted jobs whose measurements have not been returned."""
        jobs = self._open_pool.outstanding - self._references
        return jobs + len(self._backlog) + self._open_fleet.outstanding

    @property
    def boards(self) -> int:
        """Number of boards."""
        return len(self._open_fleet.lanes)

    @property
    def stuck(self) -> bool:
        """Whether no board accepts candidates now: all boards are being recovered, or are given up."""
        return self._open_fleet.stuck

    def prepare(
        self,
        specs: Iterable[KernelSpec],
        *,
        seed: int = 0,
        constants: Mapping[str, Mapping[int, np.ndarray]] | None = None,
        known: Mapping[str, Iterable[str]] | None = None,
        best_ns: Mapping[str, float] | None = None,
    ) -> dict[str, str]:
        """Make test vectors of kernels, once per key and session; return the reasons for kernels that have none.

        `constants`: weights to use instead of random ones, by kernel key and parameter index. `known`: candidate ids
        measured earlier. `best_ns`: the best times so far. No jobs may be in progress.
        """
        if self.outstanding:
            raise ValueError("prepare kernels before submitting jobs")
        for spec in specs:
            self._open_pool.add_known(spec.key, (known or {}).get(spec.key, ()))
            if (best_ns or {}).get(spec.key, 0.0) > 0:
                self._best[spec.key] = (best_ns or {})[spec.key]
            if spec.key in self._cases or spec.key in self._no_case:
                continue
            self._open_pool.register(spec)
            paths = self._store(spec.key, (constants or {}).get(spec.key, {}))
            self._references += 1
            self._open_pool.submit(ReferenceJob(spec.key, seed, paths))
        while self._references:
            for result in self._open_pool.poll(_TICK_S):
                if isinstance(result, ReferenceResult):
                    self._references -= 1
                    self.accounting.add_reference(result.seconds)
                    if result.case is None:
                        self._no_case[result.kernel_key] = result.reason
                    else:
                        self._cases[result.kernel_key] = result.case
        return dict(self._no_case)

    def measure(self, jobs: Iterable[BuildJob]) -> Iterator[Measurement]:
        """Submit `jobs` and yield the measurements of all submitted jobs, in order of completion."""
        for job in jobs:
            self.submit(job)
        while self.outstanding:
            yield from self.poll(_TICK_S)

    def submit(self, job: BuildJob) -> None:
        """Queue a job of a prepared kernel."""
        if job.kernel_key not in self._cases and job.kernel_key not in self._no_case:
            raise KeyError(f"kernel {job.kernel_key} was not prepared")
        self.accounting.start()
        self.accounting.mark(building=self._building)
        self._submitted[job.job_id] = job.again
        self._backlog.append(job)
        self._feed()

    def poll(self, timeout_s: float = 0.0) -> list[Measurement]:
        """Advance all work; return the finished measurements, waiting up to `timeout_s` seconds for the first."""
        deadline = time.monotonic() + timeout_s
        done: list[Measurement] = []
        while True:
            done += self._advance()
            left = deadline - time.monotonic()
            if done or left <= 0 or not self.outstanding:
                break
            descriptors = [*self._open_pool.filenos(), self._open_fleet.fileno(), self._events.fileno()]
            select.select(descriptors, [], [], min(left, _TICK_S))
        for one in done:
            self.accounting.add(one.status, dict(one.seconds))
        if not self.outstanding:
            self.accounting.stop()
        return done

    def drop(self) -> None:
        """Drop all jobs that no board is measuring; they get no measurement, even those that are being built."""
        self._backlog.clear()
        for work in self._open_fleet.drop():
            self._discard(work.built)
        busy = {lane.work.built.job_id for lane in self._open_fleet.lanes if lane.work is not None}
        self._submitted = {job: facts for job, facts in self._submitted.items() if job in busy}
        if not self.outstanding:
            self.accounting.stop()

    def summary(self) -> dict[str, object]:
        """Return where the time went: see `Accounting.summary`."""
        return self.accounting.summary(self.workers)

    def close(self) -> None:
        """End all processes and remove all files of the session; unfinished jobs are lost. May be called twice."""
        if self._pool is not None:
            self._pool.close()
        if self._canary is not None:
            self._canary.close()
        if self._fleet is not None:
            self._fleet.close()
        else:
            for board in self._opened:
                board.close()
        self._tell()
        self._pool = self._fleet = self._canary = None
        self._opened = ()
        self._events.close()
        self._workspace.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _open_pool(self) -> BuildPool:
        if self._pool is None:
            raise ValueError("the measuring session is closed")
        return self._pool

    @property
    def _open_fleet(self) -> Fleet:
        if self._fleet is None:
            raise ValueError("the measuring session is closed")
        return self._fleet

    @property
    def _building(self) -> bool:
        return bool(self._backlog) or self._open_pool.outstanding > self._references

    def _store(self, key: str, constants: Mapping[int, np.ndarray]) -> dict[int, Path]:
        folder = self._workspace.path / "cases" / key
        folder.mkdir(parents=True, exist_ok=True)
        paths = {index: folder / f"given_{index}.npy" for index in constants}
        for index, path in paths.items():
            np.save(path, np.asarray(constants[index]))
        return paths

    def _feed(self) -> None:
        """Keep the pool busy, but do not build further ahead than measuring can follow."""
        pool = self._open_pool
        while self._backlog and pool.outstanding + self._open_fleet.waiting < self._ahead:
            pool.submit(self._backlog.popleft())

    def _advance(self) -> list[Measurement]:
        done: list[Measurement] = []
        for result in self._open_pool.poll():
            if not isinstance(result, CandidateBuild):
                continue
            if result.job_id not in self._submitted:  # dropped while it was built
                self._discard(result)
            elif result.status == "built" and result.kernel_key in self._cases:
                self._open_fleet.offer(self._work(result))
            else:
                done.append(self._unmeasured(result))
        self.accounting.mark(building=self._building)
        try:
            finished = self._open_fleet.advance(hold=bool(done))
        finally:
            self._tell()
        done += [self._measurement(one) for one in finished]
        self._feed()
        return done

    def _unmeasured(self, built: CandidateBuild) -> Measurement:
        self._submitted.pop(built.job_id, None)
        self._discard(built)
        if built.status == "built":
            return unmeasured(built, "reference_failed", self._no_case[built.kernel_key])
        return unmeasured(built, built.status, built.reason)

    def _work(self, built: CandidateBuild) -> Job:
        case = self._cases[built.kernel_key]
        if built.candidate_id is None or built.library is None:
            raise ValueError("a built candidate has an id and a library")
        request = RunRequest(
            candidate_id=built.candidate_id,
            library=str(built.library),
            arrays=tuple(str(built.packed.get(index, path)) for index, path in enumerate(case.arrays)),
            roles=case.roles,
            tolerances=case.tolerances,
            scratch_bytes=built.scratch_bytes,
            timing=self._measuring.timing,
            deadline_s=self._measuring.deadline_s,
            memory_bytes=self._measuring.memory_bytes,
            seed=secrets.randbits(64),
            least_cycles=built.least_cycles,
        )
        return Job(built, request, time.monotonic(), self._submitted[built.job_id])

    def _started(self, work: Job) -> None:
        """Note that a board is about to take a candidate for the first time."""
        built = work.built
        work.queued_s = time.monotonic() - work.ready
        work.request = replace(work.request, best_ns=self._best.get(built.kernel_key, 0.0))
        self._on_start(MeasureStart(built.job_id, built.kernel_key, work.request.candidate_id))

    def _measurement(self, finished: CandidateResult) -> Measurement:
        built, taken = finished.work.built, finished.taken
        self._submitted.pop(built.job_id, None)
        self._discard(built)
        if taken is None:
            return unmeasured(built, "crashed", finished.reason, finished.board.name, finished.work.losses)
        if taken.status == "ok" and taken.summary is not None:
            median = taken.summary.median
            self._best[built.kernel_key] = min(median, self._best.get(built.kernel_key, median))
        seconds = {**built.seconds, "queue": finished.work.queued_s}
        facts = {**finished.board.facts, **finished.peaks}
        return measured(built, taken, finished.board.name, facts, seconds)

    def _warn(self, message: str) -> None:
        self._events.put(Event("warning", {"message": message}))

    def _tell(self) -> None:
        for event in self._events.take():
            self._on_event(event)

    @staticmethod
    def _discard(built: CandidateBuild) -> None:
        if built.library is not None:
            shutil.rmtree(built.library.parent, ignore_errors=True)
