"""Runner: a small process (numpy, ctypes, no TVM) that forks a child process per candidate and survives its crashes.

The child may crash, hang, exit or use too much memory: it is killed at its deadline. Where the system can filter system
calls, it cannot start a process; elsewhere all that it started is ended with it (orphans become children of the runner,
which is their subreaper).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import NoReturn

import numpy as np

from edgetune.boards import cores
from edgetune.boards.local import trial
from edgetune.boards.local.calls import has_children
from edgetune.boards.local.neighbours import Neighbourhood
from edgetune.boards.misconduct import STARTED_PROCESS
from edgetune.boards.protocol import RunRequest, RunResult
from edgetune.boards.sampling import TimingPolicy
from edgetune.graph.accuracy import Tolerance
from edgetune.ipc import frames
from edgetune.ipc.child_process import claim_pipes, describe_exit, die_with_parent

_PR_SET_CHILD_SUBREAPER = 36
_MOST_ANSWER_BYTES = 1 << 20
_TOKEN_BYTES = 16
_TICK_S = 0.02
_PROBES = 8  # for other users of the core, before each candidate


@dataclass(frozen=True)
class RunnerSetup:
    """First message to the runner: the library of the timing loop, and the cores to stay on (None: any)."""

    timer: Path
    cores: frozenset[int] | None


class Runner:
    """Tries candidates one at a time."""

    def __init__(self, setup: RunnerSetup, private: tuple[int, ...]) -> None:
        self._timer = load_timer(setup.timer)
        self._private = private
        self._neighbourhood = Neighbourhood()
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._filters = self._system_filters()
        self._warm_up(setup.timer)

    def run(self, request: RunRequest) -> RunResult:
        """Fork, wait for the result, the child's end or the deadline; leave no process running."""
        self._neighbourhood.probed(self._timer.edgetune_width() for _ in range(_PROBES))
        token = os.urandom(_TOKEN_BYTES)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            self._be_child(request, token, writing)
        os.close(writing)
        process = os.pidfd_open(child)
        try:
            answer, late = self._await(reading, child, process, time.monotonic() + request.deadline_s, token)
        finally:
            code, any_started = self._clear_away(child)
            os.close(process)
            os.close(reading)
        if any_started or (code == -signal.SIGSYS and not late):
            return RunResult(request.candidate_id, "crashed", STARTED_PROCESS)
        messages = _messages(answer, token)
        if messages and isinstance(messages[-1], RunResult):
            if messages[-1].samples_ns:
                self._neighbourhood.tried(messages[-1].disturbed, len(messages[-1].samples_ns))
            return messages[-1]
        phase = messages[-1] if messages else "start"
        if late:
            reason = f"still in phase '{phase}' after {request.deadline_s:g} s"
            return RunResult(request.candidate_id, "timeout", reason)
        reason = f"{describe_exit(code)} in phase '{phase}'"
        return RunResult(request.candidate_id, "timeout" if code == -signal.SIGXCPU else "crashed", reason)

    def _be_child(self, request: RunRequest, token: bytes, writing: int) -> NoReturn:
        code = 98
        try:
            os.setsid()
            die_with_parent(os.getppid())
            _silence(self._private)

            def note(message: object) -> None:
                os.write(writing, token + frames.encode(message))

            trial.confine(request.memory_bytes, ceil(request.deadline_s) + 1)
            self._timer.edgetune_forbid_processes()
            try:
                result = trial.try_candidate(
                    request, self._timer, note, self._neighbourhood.alone, self._neighbourhood.patience
                )
            except (OSError, ValueError, MemoryError) as error:
                result = RunResult(request.candidate_id, "crashed", f"{type(error).__name__}: {error}"[:1000])
            note(replace(result, samples_ns=tuple(float(value) for value in result.samples_ns)))
            code = 0
        finally:
            os._exit(code)  # no clean-up: the candidate may have overwritten this memory

    def _await(self, reading: int, child: int, process: int, deadline: float, token: bytes) -> tuple[bytes, bool]:
        """Collect the child's output until its last message, its end, or the deadline (then True).

        Where the system cannot keep it from starting processes, this also ends when it has started one.
        """
        answer = b""
        poller = select.poll()
        poller.register(reading, select.POLLIN)
        poller.register(process, select.POLLIN)
        while len(answer) < _MOST_ANSWER_BYTES:
            left = deadline - time.monotonic()
            wait = left if self._filters else min(left, _TICK_S)
            events = dict(poller.poll(max(0.0, wait) * 1000)) if left > 0 else {}
            if not events and left > wait:
                if self._timer.edgetune_any_process(child):
                    break
                continue
            if not events:
                return answer, True
            if events.get(reading, 0) & select.POLLIN:
                answer += os.read(reading, 1 << 16)
                messages = _messages(answer, token)
                if messages and isinstance(messages[-1], RunResult):
                    break
            elif process in events or events.get(reading, 0) & select.POLLHUP:
                break
        return answer, False

    def _clear_away(self, child: int) -> tuple[int, bool]:
        """Kill the child and all its descendants; return the child's exit status, and whether it started any."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if any_started := has_children():
            self._timer.edgetune_end_processes()
        return os.waitstatus_to_exitcode(status), any_started

    def _warm_up(self, timer: Path) -> None:
        """Run one trial of a kernel that copies a number, so that everything is loaded before the first child."""
        array = timer.with_name("warm_up.npy")
        np.save(array, np.ones(1, np.float32))
        policy = TimingPolicy(budget_ns=1e6, sample_ns=1e4, warm_up_ns=1e4, min_sampling_ns=1e5)
        arrays, tolerances = (str(array), str(array)), (None, Tolerance())
        request = RunRequest("warm_up", str(timer), arrays, ("input", "output"), tolerances, 0, policy)
        trial.try_candidate(request, self._timer, lambda _: None)

    def _system_filters(self) -> bool:
        """Whether the system can keep a process from starting others; tried in a child that ends at once."""
        child = os.fork()
        if child == 0:
            os._exit(0 if self._timer.edgetune_forbid_processes() else 1)
        return os.waitpid(child, 0)[1] == 0


def load_timer(path: Path) -> ctypes.CDLL:
    """Load the library of `timer.c`."""
    timer = ctypes.CDLL(str(path))
    for name in ("sample", "call_once", "forbid_processes", "any_process", "threads_left"):
        getattr(timer, f"edgetune_{name}").restype = ctypes.c_bool
    for name in ("width", "cycle"):
        getattr(timer, f"edgetune_{name}").restype = ctypes.c_double
    timer.edgetune_mode.restype = ctypes.c_uint64
    timer.edgetune_restore_mode.argtypes = [ctypes.c_uint64]
    return timer


def _messages(answer: bytes, token: bytes) -> list[object]:
    """Return the messages in a child's output; skips text without the token, because the candidate wrote it."""
    found: list[object] = []
    for part in answer.split(token)[1:]:
        found += frames.FrameBuffer().feed(part)[:1]
    return found


def _silence(private: tuple[int, ...]) -> None:
    """Close the runner's pipes and the log for the candidate."""
    for descriptor in private:
        os.close(descriptor)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.close(null)


def main() -> None:
    """Run the process: the first argument is the id of its parent."""
    die_with_parent(int(sys.argv[1]))
    incoming, outgoing = claim_pipes()
    setup = frames.receive(incoming)
    if not isinstance(setup, RunnerSetup):
        raise TypeError("the first message must be the setup")
    if setup.cores is not None:
        cores.pin(setup.cores)
    runner = Runner(setup, (incoming, outgoing))
    while True:
        try:
            request = frames.receive(incoming)
        except EOFError:
            return
        if not isinstance(request, RunRequest):
            raise TypeError("the runner takes run requests")
        frames.send(outgoing, runner.run(request))
