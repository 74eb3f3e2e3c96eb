"""What an agent's result means, in the words of the local runner."""

from __future__ import annotations

import signal

from edgetune.boards.agent.messages import Result
from edgetune.measure.child_process import describe_exit
from edgetune.measure.jobs import RunRequest, RunResult

_REPORTED, _DIED, _LATE, _MEMORY = range(4)
_RIGHT, _WRONG, _NOT_LOADED, _FORKED = range(4)
_DIFFERS, _BEFORE, _BEHIND = 1, 2, 3


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
        )
    if result.verdict == _NOT_LOADED:
        return RunResult(request.candidate_id, "build_failed", f"cannot be loaded: {result.reason}"[:1000])
    if not result.after_many:
        del seconds["time"]
    if result.verdict == _WRONG:
        return RunResult(
            request.candidate_id,
            "wrong_result",
            f"{'after many calls: ' if result.after_many else ''}{_problem(request, result)}",
            error_absolute=result.worst[0],
            error_relative=result.worst[1],
            seconds=seconds,
        )
    reason = "the kernel started a process" if result.verdict == _FORKED else result.reason
    return RunResult(request.candidate_id, "crashed", reason, seconds=seconds)


def _ended(request: RunRequest, result: Result) -> RunResult:
    if result.ending == _LATE:
        reason = f"still in phase '{result.phase}' after {request.deadline_s:g} s"
        return RunResult(request.candidate_id, "timeout", reason)
    if result.ending == _DIED:
        reason = f"{describe_exit(result.code)} in phase '{result.phase}'"
        return RunResult(request.candidate_id, "timeout" if result.code == -signal.SIGXCPU else "crashed", reason)
    if result.ending == _MEMORY:
        reason = f"takes more than {request.memory_bytes >> 20} MB of memory in phase '{result.phase}'"
        return RunResult(request.candidate_id, "crashed", reason)
    return RunResult(request.candidate_id, "crashed", f"cancelled in phase '{result.phase}'")


def _problem(request: RunRequest, result: Result) -> str:
    if result.problem in {_BEFORE, _BEHIND}:
        name = "scratch" if result.index == len(request.arrays) else f"parameter {result.index}"
        return f"writes to {name} {'before its start' if result.problem == _BEFORE else 'behind its end'}"
    absolute, relative = result.difference
    size = f"{absolute:.3g} ({relative:.3g} of the largest value)"
    return f"output {result.index} differs from the reference by {size}"
