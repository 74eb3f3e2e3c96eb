"""Trial of one candidate in the runner's forked child: loads it, checks its first call, times it, checks it again."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import time
from collections.abc import Callable

from edgetune.boards.local.calls import Calls, StartedProcessError, WrongResultError
from edgetune.boards.local.neighbours import Undisturbed
from edgetune.boards.protocol import RunRequest, RunResult
from edgetune.boards.sampling import sample

ENTRY = "edgetune_call"


def confine(memory_bytes: int, cpu_seconds: int) -> None:
    """Limit this process: additional address space, CPU time, no core dumps, no files."""
    with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123  a single read, right after a fork
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
    """Check and time a candidate in this process; `note` is called with each phase before it begins.

    `alone` and `patience` as in `Neighbourhood`.
    """
    seconds: dict[str, float] = {}
    threads = timer.edgetune_threads()
    started = time.perf_counter()

    def enter(phase: str, before: str) -> None:
        nonlocal started
        seconds[before], started = time.perf_counter() - started, time.perf_counter()
        note(phase)

    note("load")
    try:
        function = _load(request, timer)
    except (OSError, AttributeError) as error:
        return RunResult(request.candidate_id, "build_failed", f"cannot be loaded: {error}"[:1000])
    calls = Calls(request, timer, function, threads)
    phase = "check"
    try:
        enter(phase, "load")
        calls.check()
        phase = "time"
        enter(phase, "check")
        calls.place()
        undisturbed = Undisturbed(calls.take, calls.watch, alone, patience * request.timing.budget_ns)
        sampling = sample(undisturbed.take, undisturbed.watch, request.timing, request.best_ns, request.seed)
        cycle_ns = timer.edgetune_cycle()
        calls.end()
    except StartedProcessError as error:
        seconds[phase] = time.perf_counter() - started
        return RunResult(request.candidate_id, "crashed", str(error), seconds=seconds)
    except WrongResultError as error:
        seconds[phase] = time.perf_counter() - started
        return RunResult(
            request.candidate_id,
            "wrong_result",
            str(error),
            error_relative=calls.worst.relative,
            seconds=seconds,
        )
    seconds[phase] = time.perf_counter() - started
    return RunResult(
        request.candidate_id,
        "ok",
        samples_ns=sampling.samples,
        repeat=sampling.repeat,
        stopped=sampling.stopped,
        error_relative=calls.worst.relative,
        seconds=seconds,
        disturbed=sum(undisturbed.disturbed[-len(sampling.samples) :]),
        cycle_ns=cycle_ns,
    )


def _load(request: RunRequest, timer: ctypes.CDLL) -> ctypes.c_void_p:
    """Return the candidate's entry function; restores the floating-point mode that loading the library may change."""
    mode = timer.edgetune_mode()
    library = ctypes.CDLL(request.library, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    timer.edgetune_restore_mode(mode)
    return ctypes.cast(getattr(library, ENTRY), ctypes.c_void_p)
