"""Process pool of build workers: accepts jobs, returns results as they finish, also when a worker crashes or hangs."""

from __future__ import annotations

import contextlib
import pickle
import select
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from edgetune.errors import DiskFull, EdgetuneError
from edgetune.events import Event
from edgetune.ipc.child_process import ChildProcess
from edgetune.ipc.process_group import kill_group
from edgetune.measure.build_worker import BuildPolicy, Known, OutOfSpace, Progress, Ready, WorkerSetup, spec_path
from edgetune.measure.compiler import CompilerCommand
from edgetune.measure.jobs import BuildJob, BuildStatus, CandidateBuild, ReferenceJob, ReferenceResult
from edgetune.schedule.kernel_spec import KernelSpec
from edgetune.target.target import Target

Job = BuildJob | ReferenceJob
Result = CandidateBuild | ReferenceResult
_START_TIMEOUT_S = 300.0  # for the imports of a new worker
_AHEAD = 2  # jobs per worker: one in progress, one waiting, so that it never idles while this process is busy


class _Worker:
    """One worker process and the jobs it holds, oldest first."""

    def __init__(self, process: ChildProcess) -> None:
        self.process = process
        self.jobs: deque[Job] = deque()
        self.since = 0.0
        self.progress = Progress("start")
        self.ready = False
        self.told: dict[str, set[str]] = {}

    def fileno(self) -> int:
        return self.process.fileno()


class BuildPool:
    """`workers` persistent processes that build candidates into libraries under `folder`.

    Use it from one thread, which must live as long as the pool. A worker whose job takes too long for `policy` is
    killed and replaced.
    """

    def __init__(
        self,
        folder: Path,
        target: Target,
        toolchain: CompilerCommand,
        policy: BuildPolicy,
        *,
        workers: int = 1,
        cores: frozenset[int] | None = None,
        on_event: Callable[[Event], None] = lambda _: None,
    ) -> None:
        for name in ("kernels", "candidates", "cases"):
            (folder / name).mkdir(exist_ok=True)
        self._setup = WorkerSetup(folder, target, toolchain, policy, cores)
        self._job_timeout = 2 * policy.compile_timeout_s
        self._on_event = on_event
        self._queue: deque[Job] = deque()
        self._known: dict[str, set[str]] = {}
        self._starts = 0
        self._start_failures = 0
        self._workers = [self._start() for _ in range(workers)]

    @property
    def outstanding(self) -> int:
        """Number of submitted jobs whose results have not been returned yet."""
        return len(self._queue) + sum(len(worker.jobs) for worker in self._workers)

    def register(self, spec: KernelSpec) -> None:
        """Register a kernel under its key, before any job names it."""
        spec_path(self._setup.folder, spec.key).write_bytes(pickle.dumps(spec))

    def add_known(self, kernel_key: str, candidates: Iterable[str]) -> None:
        """Add ids of candidates that need no second build: jobs for them return "duplicate"."""
        self._known.setdefault(kernel_key, set()).update(candidates)

    def submit(self, job: Job) -> None:
        """Queue a job. This call or a later `poll` starts it."""
        self._queue.append(job)
        self._feed()

    def filenos(self) -> list[int]:
        """Descriptors that become readable when `poll` has something to do."""
        return [worker.process.fileno() for worker in self._workers]

    def poll(self, timeout_s: float = 0.0) -> list[Result]:
        """Return the available results, waiting up to `timeout_s` for the first.

        Raises DiskFull when candidates cannot be stored, EdgetuneError when workers cannot start.
        """
        results: list[Result] = []
        readable, _, _ = select.select(self._workers, [], [], timeout_s) if self.outstanding else ([], [], [])
        for worker in [w for w in self._workers if w in readable]:
            for message in worker.process.read_available():
                results += self._take(worker, message)
        for worker in self._workers:
            self._pass_on(worker)
        now = time.monotonic()
        for index, worker in enumerate(self._workers):
            limit = self._job_timeout if worker.ready else _START_TIMEOUT_S
            late = bool(worker.jobs) and now - worker.since > limit
            if late or worker.process.ended:
                results += self._bury(worker, f"stopped after {limit:g} s" if late else "")
                self._workers[index] = self._start()
        self._feed()
        return results

    def close(self) -> None:
        """End all workers and the compilers they run; results not returned yet are lost."""
        for worker in self._workers:
            self._stop(worker)
        self._workers.clear()
        self._queue.clear()

    def _pass_on(self, worker: _Worker) -> None:
        for line in worker.process.said():
            self._on_event(Event("stderr", {"process": "build worker", "message": line}))

    def _start(self) -> _Worker:
        self._starts += 1
        log = self._setup.folder / f"worker-{self._starts}.log"
        worker = _Worker(ChildProcess("edgetune.measure.build_worker", (), log))
        worker.since = time.monotonic()
        worker.process.send(self._setup)
        return worker

    def _feed(self) -> None:
        for depth in range(1, _AHEAD + 1):
            for worker in self._workers:
                if self._queue and len(worker.jobs) < depth and not worker.process.ended:
                    self._give(worker, self._queue.popleft())

    def _give(self, worker: _Worker, job: Job) -> None:
        if isinstance(job, BuildJob):
            told = worker.told.setdefault(job.kernel_key, set())
            news = self._known.get(job.kernel_key, set()) - told
            if news:
                worker.process.send(Known(job.kernel_key, frozenset(news)))
                told |= news
        if not worker.jobs:
            worker.since = time.monotonic()
        worker.jobs.append(job)
        worker.process.send(job)  # if the worker has ended, `poll` handles that together with the job

    def _take(self, worker: _Worker, message: object) -> list[Result]:
        if isinstance(message, Ready):
            worker.ready = True
            self._start_failures = 0
            worker.since = time.monotonic()
            self._on_event(Event("phase", {"name": "start build worker", "seconds": message.seconds}))
        elif isinstance(message, Progress):
            worker.progress = message
        elif isinstance(message, OutOfSpace):
            raise DiskFull(message.message)
        elif isinstance(message, (CandidateBuild, ReferenceResult)):
            job = worker.jobs.popleft()
            worker.since = time.monotonic()
            worker.progress = Progress("idle")  # its compiler has ended, and another program may get its process id
            again = isinstance(job, BuildJob) and job.again
            return [self._without_twins(message) if isinstance(message, CandidateBuild) and not again else message]
        else:
            raise TypeError(f"a build worker sent {type(message).__name__}")
        return []

    def _without_twins(self, result: CandidateBuild) -> CandidateBuild:
        """Turn a candidate that another worker built at the same time into a duplicate, without files."""
        if result.candidate_id is None or result.status not in {"built", "over_scratch", "build_failed", "timeout"}:
            return result
        known = self._known.setdefault(result.kernel_key, set())
        if result.candidate_id in known:
            if result.library is not None:
                shutil.rmtree(result.library.parent, ignore_errors=True)
            return CandidateBuild(
                result.job_id,
                result.kernel_key,
                "duplicate",
                candidate_id=result.candidate_id,
                scratch_bytes=result.scratch_bytes,
                seconds=result.seconds,
            )
        known.add(result.candidate_id)
        return result

    def _bury(self, worker: _Worker, reason: str) -> list[Result]:
        """Blame the worker's end on the job in progress, and return the waiting job to the front of the queue."""
        if reason:
            self._stop(worker)
        words = reason or worker.process.last_words()
        self._pass_on(worker)
        self._stop(worker)
        if not worker.ready:
            self._start_failures += 1
            if self._start_failures > len(self._workers):
                raise EdgetuneError(f"build workers do not start ({words}): run `edgetune doctor`")
            self._queue.extendleft(reversed(worker.jobs))
            return []
        if not worker.jobs:
            return []
        job = worker.jobs.popleft()
        self._queue.extendleft(reversed(worker.jobs))
        phase = worker.progress.phase
        self._on_event(Event("warning", {"message": f"a build worker ended in phase '{phase}' ({words})"}))
        if isinstance(job, ReferenceJob):
            return [ReferenceResult(job.kernel_key, None, words, time.monotonic() - worker.since)]
        status: BuildStatus = "lower_failed" if phase in {"start", "lower"} else "build_failed"
        return [CandidateBuild(job.job_id, job.kernel_key, "timeout" if reason else status, f"{phase}: {words}")]

    @staticmethod
    def _stop(worker: _Worker) -> None:
        worker.process.kill()
        if worker.progress.compiler:
            with contextlib.suppress(PermissionError):
                kill_group(worker.progress.compiler)
            worker.progress = Progress(worker.progress.phase)
