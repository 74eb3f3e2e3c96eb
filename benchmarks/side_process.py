"""A side in a process of its own: loaded once, then told to answer or to time itself; silent in between."""

from __future__ import annotations

import gc
import os
import re
import select
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.side import Arrays, Call, CannotLoad, Case, Loaded
from edgetune.boards.cores import pin
from edgetune.ipc import frames
from edgetune.ipc.child_process import ChildProcess, claim_pipes, die_with_parent

LOAD_S = 300.0
ANSWER_S = 120.0
_WARM_SHARE = 0.2
_WARM_RUNS = 3
_LEAST_RUNS = 5
_REPEATS = 3


@dataclass(frozen=True)
class Sample:
    """One round of one side: median and minimum over its calls in nanoseconds, and how many calls there were."""

    median_ns: float
    min_ns: float
    calls: int


def time_calls(call: Call, seconds: float, clock: Callable[[], int] = time.perf_counter_ns) -> Sample:
    """Call for a fifth of `seconds` untimed, so that caches and clock are as in deployment, then for `seconds`."""
    end, runs = clock() + int(seconds * _WARM_SHARE * 1e9), 0
    while runs < _WARM_RUNS or clock() < end:
        call()
        runs += 1
    taken: list[int] = []
    gc.collect()
    gc.disable()
    end = clock() + int(seconds * 1e9)
    now = 0
    while now < end or len(taken) < _LEAST_RUNS:
        before = clock()
        call()
        now = clock()
        taken.append(now - before)
    gc.enable()
    return Sample(float(statistics.median(taken)), float(min(taken)), len(taken))


class SideProcess:
    """The parent's end. `stop` ends the process; a side that fails raises CannotLoad with its last words."""

    def __init__(self, name: str, case: Case, core: int) -> None:
        self.name = name
        case.work.mkdir(parents=True, exist_ok=True)
        self._child = ChildProcess("benchmarks.side_process", [name, str(core)], case.work / "stderr.txt")
        self._case = case

    def load(self) -> Loaded:
        """Load the model; raises CannotLoad."""
        reply = self._ask(self._case, LOAD_S)
        assert isinstance(reply, Loaded)  # noqa: S101  what `main` below sends
        return reply

    def answer(self, feed: Arrays) -> dict[str, np.ndarray]:
        """Outputs for `feed`, which stays the input of the rounds; raises CannotLoad."""
        reply = self._ask(dict(feed), ANSWER_S)
        assert isinstance(reply, dict)  # noqa: S101  as above
        return reply

    def measure(self, seconds: float) -> Sample:
        """One round; raises CannotLoad when the process dies."""
        reply = self._ask(seconds, ANSWER_S + 10 * seconds)
        assert isinstance(reply, Sample)  # noqa: S101  as above
        return reply

    def stop(self) -> None:
        """End the process."""
        self._child.close()

    def _ask(self, message: object, timeout_s: float) -> object:
        end = time.monotonic() + timeout_s
        self._child.send(message)
        while not self._child.ended:
            if not select.select([self._child], [], [], max(0.0, end - time.monotonic()))[0]:
                self._child.kill()
                raise CannotLoad(f"no answer within {timeout_s:g} s")
            if replies := self._child.read_available():
                return replies[0]
        raise CannotLoad(reason(self._child.last_words()))


def reason(words: str) -> str:
    """The sentence in what a dead process left behind: the last line, without the name of the exception's module."""
    line = words.strip().splitlines()[-1].strip()
    return re.sub(r"^(benchmarks|edgetune)\.[\w.]+: ", "", line)


def main() -> None:
    """The child: pinned before anything is imported that would make threads."""
    parent, name, core = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    die_with_parent(parent)
    pin(frozenset({core}))
    incoming, outgoing = claim_pipes()
    from benchmarks.sides import SIDES

    side = SIDES[name]()
    case = frames.receive(incoming)
    assert isinstance(case, Case)  # noqa: S101  the parent sends it first
    frames.send(outgoing, side.load(case))
    call: Call | None = None
    while True:
        try:
            message = frames.receive(incoming)
        except EOFError:
            sys.stderr.flush()
            os._exit(0)  # runtimes that hang or crash while they are taken down would tell nothing new
        if isinstance(message, dict):
            call = side.prepare(message)
            for _ in range(_REPEATS):  # an input that the runtime overwrites shows now
                call()
            frames.send(outgoing, side.answers())
        elif call is not None:
            assert isinstance(message, float)  # noqa: S101  seconds
            frames.send(outgoing, time_calls(call, message))
