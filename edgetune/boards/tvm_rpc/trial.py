"""Trial of one candidate in the worker: uploads it, loads it, checks its first call, times it, checks watched calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgetune.boards import misconduct
from edgetune.boards.outputs import judge
from edgetune.boards.protocol import PART, RunRequest, RunResult, RunStatus, gap_fill
from edgetune.boards.sampling import sample
from edgetune.boards.tvm_rpc.remote import MOST_TENSORS, CandidateEndedError, RemoteError, RemoteSession
from edgetune.graph.accuracy import OutputError

_HARM, _STARTED_PROCESS, _UNCONFINED, _MODE, _THREADS, _INPUT = 4, 5, 7, 8, 9, 11
_STATUS: dict[int, RunStatus] = {
    1: "build_failed",
    2: "crashed",
    3: "timeout",
    _HARM: "wrong_result",
    _STARTED_PROCESS: "crashed",
    6: "crashed",
    _MODE: "wrong_result",
    _THREADS: "wrong_result",
    _INPUT: "wrong_result",
}


def load_array(path: str | Path) -> np.ndarray:
    """Return an array of this machine (.npy), mapped but not yet read."""
    array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _letter(role: str, array: np.ndarray) -> str:
    """Return the shim's code for a role; that of an output with gaps includes the content of the gaps."""
    return role[0] if role != PART else "pq"[gap_fill(array.dtype.name) != gap_fill("float32")]


def bytes_of(array: np.ndarray) -> np.ndarray:
    """Return an array's bytes as a flat array."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def try_candidate(
    session: RemoteSession, request: RunRequest, cores: Sequence[int], note: Callable[[str], None]
) -> RunResult:
    """Check and time a candidate on `cores` of the board; `note` is called with each step before it begins.

    Its deadline begins when all its files and arrays are on the board. Raises RemoteError.
    """
    if (count := len(request.arrays)) > MOST_TENSORS:
        reason = f"the kernel has {count} parameters: a server of TVM's RPC takes at most {MOST_TENSORS}"
        return RunResult(request.candidate_id, "crashed", reason)
    seconds: dict[str, float] = {}
    note("upload")
    started = time.perf_counter()
    arrays = [load_array(path) for path in request.arrays]
    tensors = session.tensors([bytes_of(array) for array in arrays], request.roles)
    path = session.upload(Path(request.library))
    deadline = time.monotonic() + request.deadline_s
    try:
        seconds["load"] = time.perf_counter() - started
        note("check")
        started = time.perf_counter()
        code, reason = session.open(
            path,
            tensors,
            "".join(map(_letter, request.roles, arrays)),
            cores=cores,
            memory_bytes=request.memory_bytes,
            scratch_bytes=request.scratch_bytes,
            timeout_s=max(0.001, deadline - time.monotonic()),
        )
        if code == _UNCONFINED:
            raise RemoteError(reason, unfit=True)
        if code and _STATUS.get(code) != "wrong_result":
            seconds["check"] = time.perf_counter() - started
            return RunResult(request.candidate_id, _status(code), _words(code, reason), seconds=seconds)
        problem, worst = _judge(session, request, arrays, tensors)
        seconds["check"] = time.perf_counter() - started
        if problem or code:
            words = problem if code in {0, _MODE, _THREADS} else reason
            return _wrong(request, words or _words(code, reason), worst, seconds)
        note("time")
        started = time.perf_counter()
        timing = _Timing(session, request, arrays, tensors, deadline)
        try:
            sampling = sample(timing.take, timing.watch, request.timing, request.best_ns, request.seed)
            cycle_ns = timing.end()
        except CandidateEndedError as error:
            seconds["time"] = time.perf_counter() - started
            return timing.ended(error, worst, seconds)
        seconds["time"] = time.perf_counter() - started
        if min(sampling.samples) <= 0:
            raise RemoteError("it returns invalid times")
        return RunResult(
            request.candidate_id,
            "ok",
            samples_ns=sampling.samples,
            repeat=sampling.repeat,
            stopped=sampling.stopped,
            error_relative=worst.relative,
            seconds=seconds,
            cycle_ns=cycle_ns,
        )
    finally:
        _clear(session, path)


class _Timing:
    """All calls of an open candidate except the first."""

    def __init__(
        self,
        session: RemoteSession,
        request: RunRequest,
        arrays: Sequence[np.ndarray],
        tensors: Sequence[Any],
        deadline: float,
    ) -> None:
        self._session, self._request, self._deadline = session, request, deadline
        self._arrays, self._tensors = arrays, tensors
        self._made = 1
        self._over = False

    def take(self, repeat: int, count: int) -> list[float]:
        """Take samples; raises CandidateEndedError."""
        values = self._session.take(repeat, count, self._left())
        self._made += repeat * count
        return values

    def watch(self) -> float:
        """Make one call and compare its outputs, quickly if they equal the first call's. Raises CandidateEndedError."""
        self._made += 1
        nanoseconds, alike = self._session.watch(self._left())
        if not alike:
            self._session.outputs(self._tensors)
            problem, _ = _judge(self._session, self._request, self._arrays, self._tensors)
            if problem:
                raise CandidateEndedError(_HARM, problem)
        return nanoseconds

    def end(self) -> float:
        """Check what the candidate left behind; return the nanoseconds of a cycle. Raises CandidateEndedError."""
        self._over = True
        return self._session.look_after_all(self._left())

    def ended(self, error: CandidateEndedError, worst: OutputError, seconds: dict[str, float]) -> RunResult:
        """Return the result of a candidate that ended, or went wrong."""
        words, status = _words(error.code, error.reason), _status(error.code)
        if status != "wrong_result":
            return RunResult(self._request.candidate_id, status, words, seconds=seconds)
        begin = misconduct.after_calls(self._made) if self._over else misconduct.in_call(self._made)
        return _wrong(self._request, begin + words, worst, seconds)

    def _left(self) -> float:
        return max(0.001, self._deadline - time.monotonic())


def _status(code: int) -> RunStatus:
    """Return the status for a code of the shim; an unknown code comes from a candidate that answered in its place."""
    return _STATUS.get(code, "crashed")


def _words(code: int, reason: str) -> str:
    """Return the meaning of a code of the shim that comes without a reason."""
    if code not in _STATUS:
        return "answers in place of the process that runs it"
    if code == _INPUT:
        return misconduct.changed_input(int(reason) if reason.isdecimal() else 0)
    return {
        _STARTED_PROCESS: misconduct.STARTED_PROCESS,
        _MODE: misconduct.LEFT_MODE,
        _THREADS: misconduct.LEFT_THREADS,
    }.get(code, reason)


def _clear(session: RemoteSession, path: str) -> None:
    session.close_candidate()
    session.remove(path)


def _judge(
    session: RemoteSession, request: RunRequest, arrays: Sequence[np.ndarray], tensors: Sequence[Any]
) -> tuple[str, OutputError]:
    return judge(request, arrays, lambda index: session.fetch(tensors[index], arrays[index].nbytes))


def _wrong(request: RunRequest, problem: str, worst: OutputError, seconds: dict[str, float]) -> RunResult:
    return RunResult(
        request.candidate_id,
        "wrong_result",
        problem,
        error_relative=worst.relative,
        seconds=seconds,
    )
