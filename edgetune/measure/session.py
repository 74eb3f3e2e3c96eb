"""A measuring session: schedule traces in, measured candidates out as they finish, building ahead of measuring."""

from __future__ import annotations

import select
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from edgetune.boards.board import Board
from edgetune.boards.local import LocalBoard
from edgetune.config.target import Target
from edgetune.events import Event
from edgetune.measure.accounting import Accounting
from edgetune.measure.builder import REFERENCE_STEP, SOURCE_STEP, BuildPool
from edgetune.measure.compiler import toolchain_of
from edgetune.measure.cores import split_cores
from edgetune.measure.jobs import (
    BuildJob,
    BuildResult,
    Case,
    KernelSpec,
    ReferenceJob,
    ReferenceResult,
    RunRequest,
    RunResult,
)
from edgetune.measure.measurement import Measurement, MeasureStart, Running, unmeasured
from edgetune.measure.sampling import TimingPolicy
from edgetune.measure.statistics import retry_wanted
from edgetune.measure.workspace import Workspace

_FIRST_SHARE = 0.6  # of the timing budget; the rest is for a second attempt, should the first be noisy
_TICK_S = 0.5


class MeasureSession:
    """Builds in `workers` processes (default: one per core that does not measure) and measures one at a time.

    Use from one thread, the one that made it, and close it (it is a context manager): `prepare` kernels, then either
    iterate over `measure(jobs)`, or `submit` jobs and `poll`. `on_start` is called right before each candidate is run.
    """

    def __init__(
        self,
        target: Target,
        *,
        workers: int | None = None,
        timing: TimingPolicy | None = None,
        on_start: Callable[[MeasureStart], None] = lambda _: None,
        on_event: Callable[[Event], None] = lambda _: None,
        source_step: str = SOURCE_STEP,
        reference_step: str = REFERENCE_STEP,
        deadline_s: float = 10.0,
        memory_bytes: int = 2 << 30,
        compile_timeout_s: float = 30.0,
        lock_file: Path | None = None,
        lock_timeout_s: float = 600.0,
    ) -> None:
        self._on_start, self._on_event = on_start, on_event
        self._timing = timing or TimingPolicy()
        self._deadline_s, self._memory_bytes = deadline_s, memory_bytes
        split = split_cores()
        if split.shared:
            on_event(Event("warning", {"message": "one core only: nothing is pinned, and building disturbs timing"}))
        self.workers = workers or len(split.building)
        self.accounting = Accounting()
        self._workspace = Workspace()
        self._board: Board | None = None
        self._pool: BuildPool | None = None
        try:
            toolchain = toolchain_of(target, compile_timeout_s)
            self._board = LocalBoard(
                target,
                self._workspace.path,
                split,
                lock_file=lock_file,
                lock_timeout_s=lock_timeout_s,
                on_event=on_event,
            )
            self._pool = BuildPool(
                self._workspace.path,
                target,
                toolchain,
                workers=self.workers,
                cores=None if split.shared else split.building,
                source_step=source_step,
                reference_step=reference_step,
                job_timeout_s=2 * compile_timeout_s,
                on_event=on_event,
            )
        except BaseException:
            self.close()
            raise
        self._cases: dict[str, Case] = {}
        self._no_case: dict[str, str] = {}
        self._best: dict[str, float] = {}
        self._backlog: deque[BuildJob] = deque()
        self._built: deque[tuple[BuildResult, float]] = deque()
        self._references = 0
        self._running: Running | None = None
        self._ahead = 2 * self.workers + 4

    @property
    def outstanding(self) -> int:
        """Jobs submitted whose measurements have not been handed out."""
        jobs = self._open_pool.outstanding - self._references
        return jobs + len(self._backlog) + len(self._built) + (self._running is not None)

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
        measured earlier. `best_ns`: the best times so far. No jobs may be under way.
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
        """Submit `jobs` and yield the measurements of everything under way, in order of completion."""
        for job in jobs:
            self.submit(job)
        while self.outstanding:
            yield from self.poll(_TICK_S)

    def submit(self, job: BuildJob) -> None:
        """Queue a job of a prepared kernel."""
        if job.kernel_key not in self._cases and job.kernel_key not in self._no_case:
            raise KeyError(f"kernel {job.kernel_key} was not prepared")
        self.accounting.start()
        self._backlog.append(job)
        self._feed()

    def poll(self, timeout_s: float = 0.0) -> list[Measurement]:
        """Move things on; return what finished, waiting up to `timeout_s` seconds for the first."""
        deadline = time.monotonic() + timeout_s
        done: list[Measurement] = []
        while True:
            done += self._advance()
            left = deadline - time.monotonic()
            if done or left <= 0 or not self.outstanding:
                break
            descriptors = self._open_pool.filenos() + ([self._open_board.fileno()] if self._running else [])
            select.select(descriptors, [], [], min(left, _TICK_S))
        for one in done:
            self.accounting.add(one.status, dict(one.seconds))
        if not self.outstanding:
            self.accounting.stop()
        return done

    def summary(self) -> dict[str, object]:
        """Where the time went: see `Accounting.summary`."""
        return self.accounting.summary(self.workers)

    def close(self) -> None:
        """End all processes and remove all files of the session; what is under way is lost. May be called twice."""
        if self._pool is not None:
            self._pool.close()
        if self._board is not None:
            self._board.close()
        self._pool = self._board = None
        self._workspace.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _open_pool(self) -> BuildPool:
        if self._pool is None:
            raise ValueError("the measuring session is closed")
        return self._pool

    @property
    def _open_board(self) -> Board:
        if self._board is None:
            raise ValueError("the measuring session is closed")
        return self._board

    def _store(self, key: str, constants: Mapping[int, np.ndarray]) -> dict[int, Path]:
        folder = self._workspace.path / "cases" / key
        folder.mkdir(parents=True, exist_ok=True)
        paths = {index: folder / f"given_{index}.npy" for index in constants}
        for index, path in paths.items():
            np.save(path, np.asarray(constants[index]))
        return paths

    def _feed(self) -> None:
        """Keep the pool busy without building further ahead than measuring can follow."""
        pool = self._open_pool
        while self._backlog and pool.outstanding + len(self._built) < self._ahead:
            pool.submit(self._backlog.popleft())

    def _advance(self) -> list[Measurement]:
        done: list[Measurement] = []
        for result in self._open_pool.poll():
            if not isinstance(result, BuildResult):
                continue
            if result.status == "built" and result.kernel_key in self._cases:
                self._built.append((result, time.monotonic()))
            else:
                done.append(self._unmeasured(result))
        if self._running is not None:
            ran = self._open_board.collect()
            if ran is not None:
                measured = self._judge(self._running, ran)
                done += [measured] if measured is not None else []
        if self._running is None and self._built:
            self._begin(*self._built.popleft())
        self._feed()
        return done

    def _unmeasured(self, built: BuildResult) -> Measurement:
        self._discard(built)
        if built.status == "built":
            return unmeasured(built, "reference_failed", self._no_case[built.kernel_key])
        return unmeasured(built, built.status, built.reason)

    def _begin(self, built: BuildResult, since: float) -> None:
        case, board = self._cases[built.kernel_key], self._open_board
        seconds = {**built.seconds, "queue": time.monotonic() - since}
        started = time.monotonic()
        board.reserve()
        seconds["lock"] = time.monotonic() - started
        if built.candidate_id is None or built.library is None:
            raise ValueError("a built candidate has an id and a library")
        request = RunRequest(
            candidate_id=built.candidate_id,
            library=board.put(built.library),
            arrays=tuple(board.put(built.packed.get(index, path)) for index, path in enumerate(case.arrays)),
            roles=case.roles,
            tolerances=case.tolerances,
            scratch_bytes=built.scratch_bytes,
            timing=replace(self._timing, budget_ns=self._timing.budget_ns * _FIRST_SHARE),
            best_ns=self._best.get(built.kernel_key, 0.0),
            deadline_s=self._deadline_s,
            memory_bytes=self._memory_bytes,
        )
        self._running = Running(built, request, seconds, board.health())
        self._on_start(MeasureStart(built.job_id, built.kernel_key, built.candidate_id))
        board.begin(request)

    def _judge(self, running: Running, ran: RunResult) -> Measurement | None:
        """Turn the runner's answer into a measurement; None when the candidate is timed once more."""
        built, board = running.built, self._open_board
        running.add(ran)
        health = board.health()
        status, reason, summary = running.verdict(ran, health)
        if status == "refused_noisy" and summary is not None:
            best = self._best.get(built.kernel_key, 0.0)
            if retry_wanted(summary, running.attempts, best):
                rest = self._timing.budget_ns * (1 - _FIRST_SHARE)
                running.health = health
                board.begin(replace(running.request, timing=replace(self._timing, budget_ns=rest)))
                return None
        self._running = None
        board.release()
        self._discard(built)
        if status == "ok" and summary is not None:
            self._best[built.kernel_key] = min(summary.median, self._best.get(built.kernel_key, summary.median))
        return Measurement(
            job_id=built.job_id,
            kernel_key=built.kernel_key,
            status=status,
            reason=reason,
            candidate_id=built.candidate_id,
            summary=summary,
            samples_ns=running.samples,
            attempts=running.attempts,
            error_absolute=ran.error_absolute,
            error_relative=ran.error_relative,
            scratch_bytes=built.scratch_bytes,
            code_bytes=built.code_bytes,
            environment=health,
            seconds=running.seconds,
        )

    @staticmethod
    def _discard(built: BuildResult) -> None:
        if built.library is not None:
            shutil.rmtree(built.library.parent, ignore_errors=True)
