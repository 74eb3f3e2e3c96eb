"""What an agent's result means, in the words of the local runner."""

from __future__ import annotations

import signal

from edgetune.boards.agent.messages import Result
from edgetune.measure.child_process import describe_exit
from edgetune.measure.jobs import RunRequest, RunResult
from edgetune.measure.misconduct import (
    LEFT_MODE,
    LEFT_THREADS,
    STARTED_PROCESS,
    after_calls,
    changed_input,
    in_call,
)

_REPORTED, _DIED, _LATE, _MEMORY = range(4)
_RIGHT, _WRONG, _NOT_LOADED, _FORKED = range(4)
_DIFFERS, _BEFORE, _BEHIND, _INPUT, _MODE, _THREADS = range(1, 7)
_FIRST, _LATER = 0, 1


def run_result(request: RunRequest, result: Result) -> RunResult:
    """Return what became of `request`."""
    if result.ending != _REPORTED:
        return _ended(request, result)
    *parts, whole = result.seconds
    seconds = dict(zip(("load", "check", "time"), parts, strict=True)) | {"process": max(0.0, whole - sum(parts))}
    if result.verdict == _RIGHT:
        return RunResult(
            request.candidate_id,
            "ok",
            samples_ns=result.samples,
            repeat=result.repeat,
            stopped=result.stopped,
            error_absolute=result.worst[0],
            error_relative=result.worst[1],
            seconds=seconds,
            cycle_ns=result.cycle_ns,
        )
    if result.verdict == _NOT_LOADED:
        return RunResult(request.candidate_id, "build_failed", f"cannot be loaded: {result.reason}"[:1000])
    if result.phase != "time":
        del seconds["time"]
    if result.verdict == _WRONG:
        return RunResult(
            request.candidate_id,
            "wrong_result",
            f"{_moment(result)}{_problem(request, result)}",
            error_absolute=result.worst[0],
            error_relative=result.worst[1],
            seconds=seconds,
        )
    reason = STARTED_PROCESS if result.verdict == _FORKED else result.reason
    return RunResult(request.candidate_id, "crashed", reason, seconds=seconds)


def _ended(request: RunRequest, result: Result) -> RunResult:
    if result.ending == _LATE:
        reason = f"still in phase '{result.phase}' after {request.deadline_s:g} s"
        return RunResult(request.candidate_id, "timeout", reason)
    if result.ending == _DIED and result.code == -signal.SIGSYS:
        return RunResult(request.candidate_id, "crashed", STARTED_PROCESS)
    if result.ending == _DIED:
        reason = f"{describe_exit(result.code)} in phase '{result.phase}'"
        return RunResult(request.candidate_id, "timeout" if result.code == -signal.SIGXCPU else "crashed", reason)
    if result.ending == _MEMORY:
        reason = f"takes more than {request.memory_bytes >> 20} MB of memory in phase '{result.phase}'"
        return RunResult(request.candidate_id, "crashed", reason)
    return RunResult(request.candidate_id, "crashed", f"cancelled in phase '{result.phase}'")


def _moment(result: Result) -> str:
    if result.moment == _FIRST:
        return ""
    return in_call(result.call) if result.moment == _LATER else after_calls(result.call)


def _problem(request: RunRequest, result: Result) -> str:
    if result.problem in {_BEFORE, _BEHIND}:
        name = "scratch" if result.index == len(request.arrays) else f"parameter {result.index}"
        return f"writes to {name} {'before its start' if result.problem == _BEFORE else 'behind its end'}"
    if result.problem == _INPUT:
        return changed_input(result.index)
    if result.problem in {_MODE, _THREADS}:
        return LEFT_MODE if result.problem == _MODE else LEFT_THREADS
    absolute, relative = result.difference
    size = f"{absolute:.3g} ({relative:.3g} of the largest value)"
    return f"output {result.index} differs from the reference by {size}"
