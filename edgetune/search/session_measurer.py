"""Measurer for real tunes: sends measure requests through a `MeasureSession` and makes records of its measurements."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import cast

from edgetune._version import __version__
from edgetune.boards.cores import confined, split_cores
from edgetune.boards.opening import BoardFactory
from edgetune.boards.options import MeasuringOptions
from edgetune.boards.statistics import summarise
from edgetune.codegen import CODEGEN_VERSION
from edgetune.errors import KernelFailed
from edgetune.events import Event
from edgetune.measure.build_worker import BuildPolicy
from edgetune.measure.compiler import builder_of
from edgetune.measure.jobs import BuildJob
from edgetune.measure.measurement import Measurement, MeasureStart
from edgetune.measure.session import MeasureSession
from edgetune.records import Record, RecordKey, utc_now
from edgetune.records.ranking import MARK
from edgetune.records.record import Status
from edgetune.schedule.kernel_spec import kernel_spec
from edgetune.search.measuring import MeasureRequest, RequestResult, Starting
from edgetune.search.task import TuneTask
from edgetune.target.identity import target_fingerprint, toolchain_id
from edgetune.target.target import Target

WINDOW = 12
"""Jobs in the session at once: enough to keep the builders ahead, few enough for an interrupt to end soon."""
WINDOW_PER_TWIN = 4
"""Additional jobs for each sibling board."""

_BUILDING = ("lower", "emit", "pack", "compile")
_RUNNING = ("load", "check", "time")


class SessionMeasurer:
    """Opens its session in the thread that measures first; that thread must also close it.

    `known` gives the candidates with a record, by key and scratch limit (bytes): they are reported as duplicates.
    """

    def __init__(
        self,
        tasks: Sequence[TuneTask],
        target: Target,
        known: Callable[[RecordKey, int], set[str]],
        on_event: Callable[[Event], None],
        boards: BoardFactory,
        *,
        measuring: MeasuringOptions | None = None,
        building: BuildPolicy | None = None,
    ) -> None:
        self._tasks = {task.workload: task for task in tasks}
        self._target = target
        self._known = known
        self._on_event = on_event
        self._boards = boards
        self._measuring, self._building = measuring, building
        self._summary: dict[str, object] = {}
        self._key = RecordKey("", target_fingerprint(target), toolchain_id(target), CODEGEN_VERSION)
        self._session: MeasureSession | None = None
        self._confinement = ExitStack()
        self._starting: Starting = lambda _key, _candidate: None
        self._cancelled = False
        self._jobs = 0

    def key(self, workload: str) -> RecordKey:
        """The key under which measurements of a kernel are recorded."""
        return replace(self._key, workload=workload)

    def measure(
        self, orders: Sequence[MeasureRequest], best_ns: Mapping[str, float], starting: Starting
    ) -> Iterator[RequestResult]:
        """Yield one result per request when it is ready; a `cancel` leaves out those not begun.

        Raises KernelFailed when a kernel has no reference outputs to compare with. Raises BoardUnavailable (BoardLost
        for a single board) when no board is left, after yielding the results that were measured.
        """
        self._cancelled = False
        self._starting = starting
        session = self._opened(best_ns)
        jobs = {self._job_id(): order for order in orders}
        waiting = [BuildJob(job, order.workload, order.trace, again=order.again) for job, order in jobs.items()]
        for measured in self._stream(session, waiting):
            order = jobs[measured.job_id]
            yield RequestResult(order, measured.candidate_id, self._record(order, measured), _phases(measured))

    def time_again(self, records: Sequence[Record], sweeps: int) -> Iterator[Record]:
        """Time recorded candidates of one kernel anew, interleaved, `sweeps` times each; yield better records.

        A candidate that fails in any sweep is yielded as failed. One whose samples were refused in all sweeps is not
        yielded. All others are cut to the same number of sweeps, that of the candidate with the fewest.
        """
        self._cancelled = False
        self._starting = lambda _key, _candidate: None
        session = self._opened({})
        by_job = {self._job_id(): record for _ in range(sweeps) for record in records}
        waiting = [BuildJob(job, record.workload, record.trace, again=True) for job, record in by_job.items()]
        samples: dict[str, list[Measurement]] = {record.candidate: [] for record in records}
        failed: dict[str, Record] = {}
        refused: set[str] = set()
        for measured in self._stream(session, waiting):
            record = by_job[measured.job_id]
            if measured.status == "ok":
                samples[record.candidate].append(measured)
            elif measured.status == "refused_noisy":
                refused.add(record.candidate)
            elif not measured.lost_boards:
                failed.setdefault(record.candidate, _failed(record, measured, sweeps))
        out = failed.keys() | {candidate for candidate in refused if not samples[candidate]}
        complete = min((len(samples[r.candidate]) for r in records if r.candidate not in out), default=0)
        yield from failed.values()
        if complete:
            yield from (_refined(r, samples[r.candidate][:complete]) for r in records if r.candidate not in out)

    def cancel(self) -> None:
        """End the current call, after the few jobs already in the session."""
        self._cancelled = True

    def summary(self) -> dict[str, object]:
        """The session's account of its time and its boards (`Accounting.summary`), also after it is closed."""
        return dict(self._summary) if self._session is None else self._session.summary()

    def close(self) -> None:
        """End the session's processes."""
        if self._session is not None:
            self._summary = self._session.summary()
            self._session.close()
            self._session = None
        self._confinement.close()

    def _opened(self, best_ns: Mapping[str, float]) -> MeasureSession:
        """The session, with the kernels prepared; opened anew after it was closed."""
        if self._session is None:
            split = split_cores()
            self._session = MeasureSession(
                self._target,
                self._boards,
                builder_of(self._target),
                measuring=self._measuring,
                building=self._building,
                on_start=self._started,
                on_event=self._on_event,
            )
            if not split.shared and self._boards.here:  # the search must stay off the core that measures
                self._confinement.enter_context(confined(split.building))
            specs = [kernel_spec(task.kernel, task.scratch_limit) for task in self._tasks.values()]
            known = {name: self._known(self.key(name), task.scratch_limit) for name, task in self._tasks.items()}
            weights = {name: task.constants for name, task in self._tasks.items()}
            failed = self._session.prepare(specs, constants=weights, known=known, best_ns=best_ns)
            for name, reason in failed.items():
                raise KernelFailed(
                    f"no reference outputs for kernel {self._tasks[name].name} ({reason}): report this as a bug"
                )
        return self._session

    def _stream(self, session: MeasureSession, waiting: list[BuildJob]) -> Iterator[Measurement]:
        """Measurements of these jobs; those left from an earlier call that ended with an error are skipped.

        When a cancelled call has jobs left while no board answers, they are dropped. If a later call timed them, their
        times would belong to no request.
        """
        ours = {job.job_id for job in waiting}
        waiting.reverse()
        window = WINDOW + WINDOW_PER_TWIN * (session.boards - 1)
        while True:
            while waiting and not self._cancelled and session.outstanding < window:
                session.submit(waiting.pop())
            if self._cancelled and session.stuck:
                session.drop()
                return
            if not session.outstanding:
                return
            yield from (measured for measured in session.poll(0.5) if measured.job_id in ours)

    def _started(self, start: MeasureStart) -> None:
        self._starting(self.key(start.kernel_key), start.candidate_id)

    def _job_id(self) -> str:
        self._jobs += 1
        return str(self._jobs)

    def _record(self, order: MeasureRequest, measured: Measurement) -> Record | None:
        if measured.status == "duplicate":
            return None
        if measured.status == "reference_failed":
            raise KernelFailed(f"no reference outputs for kernel {order.workload} ({measured.reason})")
        summary = measured.summary
        return Record(
            workload=order.workload,
            workload_name=self._tasks[order.workload].name,
            target=self._target.name,
            target_fingerprint=self._key.target_fingerprint,
            toolchain=self._key.toolchain,
            codegen_version=self._key.codegen_version,
            board=measured.board or self._target.name,
            candidate=measured.candidate_id or hashlib.sha256(order.trace.encode()).hexdigest(),
            status=measured.status,
            tool_version=__version__,
            trace=order.trace,
            reason=measured.reason,
            samples_ns=measured.samples_ns,
            median_ns=summary.median if summary else None,
            ci_low_ns=summary.low if summary else None,
            ci_high_ns=summary.high if summary else None,
            max_error=measured.error_relative,
            scratch_bytes=measured.scratch_bytes,
            code_bytes=measured.code_bytes,
            environment=cast(dict[str, str | int | float | bool | None], dict(measured.environment)),
            build_seconds=_sum(measured, _BUILDING),
            measure_seconds=_sum(measured, _RUNNING),
        )


def _refined(record: Record, found: Sequence[Measurement]) -> Record:
    samples = tuple(sample for measured in found for sample in measured.samples_ns)
    summary = summarise(samples)
    others = sorted({measured.board for measured in found} - {record.board})
    where = {"playoff_board": " ".join(others)} if others else {}
    worst = max((measured.environment for measured in found), key=lambda told: str(told.get("trust", "")))
    trust = {key: worst[key] for key in ("trust", "trust_reason") if key in worst}
    return replace(
        record,
        samples_ns=samples,
        median_ns=summary.median,
        ci_low_ns=summary.low,
        ci_high_ns=summary.high,
        measure_seconds=sum(_sum(measured, _RUNNING) for measured in found),
        environment={**record.environment, **found[-1].environment, **trust, **where, MARK: len(found)},
    )


def _failed(record: Record, measured: Measurement, sweeps: int) -> Record:
    if measured.status in {"duplicate", "reference_failed"}:
        raise KernelFailed(f"kernel {record.workload_name} cannot be timed again ({measured.reason}): report this")
    return replace(
        record,
        status=cast(Status, measured.status),
        reason=f"timed again: {measured.reason}",
        samples_ns=(),
        median_ns=None,
        ci_low_ns=None,
        ci_high_ns=None,
        environment={**record.environment, **measured.environment, MARK: sweeps},
        created_utc=utc_now(),
    )


def _phases(measured: Measurement) -> dict[str, float]:
    return {
        "lower": _sum(measured, ("lower", "emit", "pack")),
        "compile": _sum(measured, ("compile",)),
        "timing": _sum(measured, _RUNNING),
    }


def _sum(measured: Measurement, phases: Sequence[str]) -> float:
    return sum(measured.seconds.get(phase, 0.0) for phase in phases)
