"""Trial of one candidate through an agent: the contents it needs, its request, and the meaning of its result.

Results have the same words as those of the local runner.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass

from edgetune.boards import misconduct
from edgetune.boards.agent import messages
from edgetune.boards.agent.contents import Content
from edgetune.boards.agent.messages import Result
from edgetune.boards.protocol import RunRequest, RunResult
from edgetune.graph.accuracy import Tolerance
from edgetune.ipc.child_process import describe_exit


@dataclass(frozen=True)
class Trial:
    """A trial in progress: its number in the protocol, and its deadline (of `time.monotonic`).

    `again`: not all of it fitted at first; this time there is nothing else in the agent's memory.
    """

    number: int
    request: RunRequest
    library: Content
    arrays: tuple[Content, ...]
    gives_up: float = 0.0
    again: bool = False

    @property
    def contents(self) -> tuple[Content, ...]:
        """The contents that must be there, some perhaps more than once."""
        return (self.library, *self.arrays)

    @property
    def size(self) -> int:
        """Bytes that its contents take there."""
        return sum({content.key: content.size for content in self.contents}.values())

    def ask(self, cores: Sequence[int], cold_bytes: int) -> bytes:
        """Return the frame that requests the trial."""
        uses = [
            messages.ArrayUse(content.key, role, content.dtype, tolerance or Tolerance())
            for content, role, tolerance in zip(self.arrays, self.request.roles, self.request.tolerances, strict=True)
        ]
        return messages.run(self.number, self.request, self.library.key, uses, cores, cold_bytes)

    def too_much(self, room: int) -> str:
        """Describe what exceeds the limits of every agent, or of one whose memory has `room` bytes for it."""
        if len(self.arrays) > messages.MOST_ARRAYS:
            return f"the kernel has {len(self.arrays)} parameters: an agent takes at most {messages.MOST_ARRAYS}"
        if self.size > room:
            return f"its arrays take {self.size >> 20} MB: the memory of the board has room for {room >> 20} MB"
        return ""

    def crashed(self, reason: str) -> RunResult:
        """Return the result of a candidate that no board of this kind can try."""
        return RunResult(self.request.candidate_id, "crashed", reason[:1000])


_REPORTED, _DIED, _LATE, _MEMORY = range(4)
_RIGHT, _WRONG, _NOT_LOADED, _FORKED = range(4)
_DIFFERS, _BEFORE, _BEHIND, _INPUT, _MODE, _THREADS = range(1, 7)
_FIRST, _LATER = 0, 1


def run_result(request: RunRequest, result: Result) -> RunResult:
    """Return the result of `request`."""
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
            error_relative=result.worst[1],
            seconds=seconds,
        )
    reason = misconduct.STARTED_PROCESS if result.verdict == _FORKED else result.reason
    return RunResult(request.candidate_id, "crashed", reason, seconds=seconds)


def _ended(request: RunRequest, result: Result) -> RunResult:
    if result.ending == _LATE:
        reason = f"still in phase '{result.phase}' after {request.deadline_s:g} s"
        return RunResult(request.candidate_id, "timeout", reason)
    if result.ending == _DIED and result.code == -signal.SIGSYS:
        return RunResult(request.candidate_id, "crashed", misconduct.STARTED_PROCESS)
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
    return misconduct.in_call(result.call) if result.moment == _LATER else misconduct.after_calls(result.call)


def _problem(request: RunRequest, result: Result) -> str:
    if result.problem in {_BEFORE, _BEHIND}:
        where = misconduct.BEFORE if result.problem == _BEFORE else misconduct.AFTER
        return misconduct.stray_write(result.index, len(request.arrays), where)
    if result.problem == _INPUT:
        return misconduct.changed_input(result.index)
    if result.problem in {_MODE, _THREADS}:
        return misconduct.LEFT_MODE if result.problem == _MODE else misconduct.LEFT_THREADS
    return misconduct.wrong_output(result.index, *result.difference)
