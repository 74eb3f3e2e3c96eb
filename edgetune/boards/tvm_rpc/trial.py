"""What the worker does with one candidate: upload, load and call once, compare, time, compare again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgetune.boards.tvm_rpc.remote import MOST_TENSORS, RemoteError, RemoteSession, StopSampling
from edgetune.measure.comparison import Difference, compare
from edgetune.measure.jobs import OUTPUTS, PART, RunRequest, RunResult, RunStatus, Tolerance, gap_fill
from edgetune.measure.sampling import sample

_STATUS: dict[int, RunStatus] = {
    1: "build_failed",
    2: "crashed",
    3: "timeout",
    4: "wrong_result",
    5: "crashed",
    6: "crashed",
}
_STARTED_PROCESS = 5
_UNCONFINED = 7


def load_array(path: str | Path) -> np.ndarray:
    """Return an array of this machine (.npy), not yet read."""
    array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _letter(role: str, array: np.ndarray) -> str:
    """What the shim calls a role; that of an output with gaps says what is in them."""
    return role[0] if role != PART else "pq"[gap_fill(array.dtype.name) != gap_fill("float32")]


def bytes_of(array: np.ndarray) -> np.ndarray:
    """Return an array's bytes, one after the other."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def try_candidate(
    session: RemoteSession, request: RunRequest, cores: Sequence[int], note: Callable[[str], None]
) -> RunResult:
    """Check and time a candidate on `cores` of the board; `note` is told each step before it begins.

    Its deadline begins when everything that it needs is there. Raises RemoteError.
    """
    if (count := len(request.arrays)) > MOST_TENSORS:
        reason = f"the kernel has {count} parameters, a server of TVM's RPC is given {MOST_TENSORS} at most"
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
        if code in _STATUS and code != 4:  # noqa: PLR2004  harm: how wrong the outputs are is told as well
            reason = "the kernel started a process" if code == _STARTED_PROCESS else reason
            seconds["check"] = time.perf_counter() - started
            return RunResult(request.candidate_id, _STATUS[code], reason, seconds=seconds)
        problem, worst = _judge(session, request, arrays, tensors)
        seconds["check"] = time.perf_counter() - started
        if problem or code:
            return _wrong(request, reason or problem, worst, seconds)
        return _time(session, request, arrays, tensors, deadline, note, seconds, worst)
    finally:
        _clear(session, path)


def _time(
    session: RemoteSession,
    request: RunRequest,
    arrays: Sequence[np.ndarray],
    tensors: Sequence[Any],
    deadline: float,
    note: Callable[[str], None],
    seconds: dict[str, float],
    worst: Difference,
) -> RunResult:
    note("time")
    started = time.perf_counter()
    ended: list[tuple[int, str]] = []

    def take(repeat: int, count: int) -> list[float]:
        return session.take(max(0.001, deadline - time.monotonic()), ended)(repeat, count)

    try:
        sampling = sample(take, request.timing, request.best_ns)
    except StopSampling:
        code, reason = ended[0]
        seconds["time"] = time.perf_counter() - started
        return RunResult(request.candidate_id, _STATUS[code], reason, seconds=seconds)
    if min(sampling.samples) <= 0:
        raise RemoteError("it answers with times that are none")
    session.close_candidate(tensors)
    seconds["time"] = time.perf_counter() - started
    problem, _ = _judge(session, request, arrays, tensors)
    if problem:
        return _wrong(request, f"after many calls: {problem}", worst, seconds)
    return RunResult(
        request.candidate_id,
        "ok",
        samples_ns=tuple(float(value) for value in sampling.samples),
        repeat=sampling.repeat,
        stopped=sampling.stopped,
        error_absolute=worst.absolute,
        error_relative=worst.relative,
        seconds=seconds,
    )


def _clear(session: RemoteSession, path: str) -> None:
    session.close_candidate()
    session.remove(path)


def _judge(
    session: RemoteSession, request: RunRequest, arrays: Sequence[np.ndarray], tensors: Sequence[Any]
) -> tuple[str, Difference]:
    worst, problem = Difference(0.0, 0.0, allowed=True), ""
    for index, (array, role) in enumerate(zip(arrays, request.roles, strict=True)):
        if role not in OUTPUTS:
            continue
        output = session.fetch(tensors[index], array.nbytes).view(array.dtype).reshape(array.shape)
        found = compare(output, array, request.tolerances[index] or Tolerance())
        if not found.allowed and not problem:
            size = f"{found.absolute:.3g} ({found.relative:.3g} of the largest value)"
            problem = f"output {index} differs from the reference by {size}"
        if found.absolute > worst.absolute:
            worst = found
    return problem, worst


def _wrong(request: RunRequest, problem: str, worst: Difference, seconds: dict[str, float]) -> RunResult:
    return RunResult(
        request.candidate_id,
        "wrong_result",
        problem,
        error_absolute=worst.absolute,
        error_relative=worst.relative,
        seconds=seconds,
    )
