"""What happens to one candidate in the runner's forked child: load, call once and check, time, check again."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import time
from collections.abc import Callable

import numpy as np

from edgetune.measure.comparison import Difference, compare
from edgetune.measure.jobs import OUTPUTS, PART, RunRequest, RunResult, Tolerance, gap_fill
from edgetune.measure.memory import Arena, Fenced
from edgetune.measure.neighbours import Undisturbed
from edgetune.measure.sampling import sample

ENTRY = "edgetune_call"
_FILLS = (0xFF, 0x5A)  # what outputs hold before the first call (NaN as a float) and before the timed calls, but for
# those with gaps: these hold what the reference has there, so that whatever is written to them differs


def confine(memory_bytes: int, cpu_seconds: int) -> None:
    """Limit this process: address space beyond the present one, CPU time, no core dumps, no files."""
    with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123  one read, early in a fork
        present = int(statm.read().split()[0]) * resource.getpagesize()
    for kind, limit in (
        (resource.RLIMIT_AS, present + memory_bytes),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        resource.setrlimit(kind, (limit, limit))
    for number in (signal.SIGXFSZ, signal.SIGPIPE, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def try_candidate(
    request: RunRequest, timer: ctypes.CDLL, note: Callable[[str], None], alone: float = 0.0, patience: float = 1.0
) -> RunResult:
    """Check and time a candidate in this process; `note` is told each phase before it begins.

    `alone` and `patience` as in `Neighbourhood`.
    """
    owner = os.getpid()
    seconds: dict[str, float] = {}
    started = time.perf_counter()
    note("load")
    try:
        function = getattr(ctypes.CDLL(request.library, mode=os.RTLD_NOW | os.RTLD_LOCAL), ENTRY)
    except (OSError, AttributeError) as error:
        return RunResult(request.candidate_id, "build_failed", f"cannot be loaded: {error}"[:1000])
    function.restype = None
    arrays = [np.load(path, mmap_mode="r") for path in request.arrays]
    seconds["load"] = time.perf_counter() - started

    started = time.perf_counter()
    note("check")
    problem, worst = _check(request, arrays, function)
    if os.getpid() != owner:  # a kernel that forks: the copy ends here
        os._exit(99)
    seconds["check"] = time.perf_counter() - started
    errors = (worst.absolute, worst.relative)
    if problem:
        return _wrong(request, problem, errors, seconds)
    if has_children():
        return RunResult(request.candidate_id, "crashed", "the kernel started a process", seconds=seconds)

    started = time.perf_counter()
    note("time")
    arena = Arena([_bytes(array).size for array in arrays] + [request.scratch_bytes])
    for part, array, role in zip(arena.parts, arrays, request.roles, strict=False):
        part[:] = _bytes(array) if role not in OUTPUTS else _fill(role, array, _FILLS[1])
    pointers = _pointers(arena.addresses if request.scratch_bytes else arena.addresses[:-1])
    entry = ctypes.cast(function, ctypes.c_void_p)

    def take(repeat: int, count: int) -> list[tuple[float, float]]:
        out, widths = (ctypes.c_double * count)(), (ctypes.c_double * count)()
        counts = (ctypes.c_int64(repeat), ctypes.c_int64(count), ctypes.c_int64(owner))
        timer.edgetune_sample(entry, pointers, *counts, out, widths)
        return list(zip(out, widths, strict=True))

    undisturbed = Undisturbed(take, alone, patience * request.timing.budget_ns)
    sampling = sample(undisturbed.take, request.timing, request.best_ns)
    seconds["time"] = time.perf_counter() - started
    problem, _ = _judge(request, arrays, arena.parts)
    if problem:
        return _wrong(request, f"after many calls: {problem}", errors, seconds)
    return RunResult(
        request.candidate_id,
        "ok",
        samples_ns=sampling.samples,
        repeat=sampling.repeat,
        stopped=sampling.stopped,
        error_absolute=worst.absolute,
        error_relative=worst.relative,
        seconds=seconds,
        disturbed=sum(undisturbed.disturbed[-len(sampling.samples) :]),
    )


def _check(request: RunRequest, arrays: list[np.ndarray], function: Callable[..., None]) -> tuple[str, Difference]:
    """Call once on fenced buffers, inputs write-protected; say what is wrong, and how large the worst error is."""
    fences: list[Fenced] = []
    for array, role in zip(arrays, request.roles, strict=True):
        data = _bytes(array)
        fence = Fenced(data.size, _fill(role, array, _FILLS[0]))
        if role not in OUTPUTS:
            fence.bytes[:] = data
            fence.read_only()
        fences.append(fence)
    if request.scratch_bytes:
        fences.append(Fenced(request.scratch_bytes, _FILLS[0]))
    function(_pointers([fence.address for fence in fences]))
    problem, worst = _judge(request, arrays, [fence.bytes for fence in fences])
    for index, fence in enumerate(fences):
        if harm := fence.harm():
            name = "scratch" if index == len(arrays) else f"parameter {index}"
            return f"writes to {name} {harm}", worst
    return problem, worst


def _fill(role: str, array: np.ndarray, otherwise: int) -> int:
    return gap_fill(array.dtype.name) if role == PART else otherwise


def _judge(request: RunRequest, arrays: list[np.ndarray], parts: list[np.ndarray]) -> tuple[str, Difference]:
    worst, problem = Difference(0.0, 0.0, allowed=True), ""
    for index, (array, role) in enumerate(zip(arrays, request.roles, strict=True)):
        if role not in OUTPUTS:
            continue
        output = parts[index].view(array.dtype).reshape(array.shape)
        found = compare(output, array, request.tolerances[index] or Tolerance())
        if not found.allowed and not problem:
            size = f"{found.absolute:.3g} ({found.relative:.3g} of the largest value)"
            problem = f"output {index} differs from the reference by {size}"
        if found.absolute > worst.absolute:
            worst = found
    return problem, worst


def _wrong(request: RunRequest, problem: str, errors: tuple[float, float], seconds: dict[str, float]) -> RunResult:
    return RunResult(
        request.candidate_id,
        "wrong_result",
        problem,
        error_absolute=errors[0],
        error_relative=errors[1],
        seconds=seconds,
    )


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _pointers(addresses: list[int]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * max(len(addresses), 1))(*addresses)


def has_children() -> bool:
    """Whether this process has any child, ended or not."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
