"""Boards that follow a script, for what no real board shows on demand: losses, hangs and times of one's choice."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edgetune.boards.environment import Reading
from edgetune.boards.protocol import RunRequest, RunResult
from edgetune.boards.sampling import TimingPolicy
from edgetune.errors import BoardLost, BoardUnavailable
from edgetune.ipc.queue import SelectableQueue
from edgetune.measure.attempt import Job
from edgetune.measure.jobs import CandidateBuild

GOOD: dict[str, Reading] = {"governor": "performance", "clock_khz": 1_500_000, "temperature_c": 40.0}
STEPS = ("reserve", "put", "health", "begin", "collect", "release")


@dataclass
class Script:
    """What a board does. `faults` is one entry per turn: "" (none), a step of `STEPS` to be lost in, "hang STEP".

    `recoveries` likewise: "" (it works), "lost" or "hang". Beyond their ends everything works. `results` gives status
    by candidate id, `speed` multiplies times, `readings` replaces health, `refuses` is raised by every reserve, and
    `odd` instead of BoardLost, once each. It is not reserved before somebody tried to reserve `behind`.
    """

    faults: Iterable[str] = ()
    recoveries: Iterable[str] = ()
    results: Mapping[str, RunResult] = field(default_factory=dict)
    seconds: float = 0.0
    speed: float = 1.0
    readings: deque[dict[str, Reading]] = field(default_factory=deque)
    refuses: BoardUnavailable | None = None
    behind: ScriptedBoard | None = None
    odd: deque[Exception] = field(default_factory=deque)
    facts: Mapping[str, Reading] = field(default_factory=lambda: {"emulated": 0, "clock": "time"})


class ScriptedBoard:
    """A `Board` that follows a script; `ran` are the candidates that came to their end on it."""

    def __init__(self, name: str, script: Script | None = None) -> None:
        self.name = name
        self.script = script or Script()
        self.facts = self.script.facts
        self.ran: list[str] = []
        self.threads: set[str] = set()
        self.closed = 0
        self.tried = threading.Event()
        self._faults = deque(self.script.faults)
        self._recoveries = deque(self.script.recoveries)
        self._fault = ""
        self._asked: RunRequest | None = None
        self._release = threading.Event()
        self._bell: SelectableQueue[str] = SelectableQueue()

    round_trip_s = 0.0

    def reserve(self) -> None:
        if self.script.behind is not None:
            assert self.script.behind.tried.wait(60.0)
        self.tried.set()
        if self.script.refuses is not None:
            raise self.script.refuses
        self._fault = self._faults.popleft() if self._faults else ""
        self._step("reserve")

    def put(self, path: Path) -> str:
        self._step("put")
        return str(path)

    def begin(self, request: RunRequest) -> None:
        self._step("begin")
        self._asked = request
        if self._fault == "hang collect":
            return
        if self.script.seconds:
            timer = threading.Timer(self.script.seconds, self._ring)
            timer.daemon = True
            timer.start()
        else:
            self._ring()

    def fileno(self) -> int:
        return self._bell.fileno()

    def collect(self, timeout_s: float = 0.0) -> RunResult | None:
        del timeout_s
        if self._fault == "hang collect":
            return None
        if not self._bell.take():
            return None
        self._step("collect")
        assert self._asked is not None
        asked, self._asked = self._asked, None
        self.ran.append(asked.candidate_id)
        given = self.script.results.get(asked.candidate_id)
        if given is not None:
            return given
        times = tuple(1000.0 * self.script.speed * (1 + 0.0001 * index) for index in range(20))
        return RunResult(asked.candidate_id, "ok", samples_ns=times, repeat=1, stopped="narrow")

    def health(self) -> dict[str, Reading]:
        self._step("health")
        return self.script.readings.popleft() if self.script.readings else dict(GOOD)

    def recover(self) -> None:
        what = self._recoveries.popleft() if self._recoveries else ""
        if what == "hang":
            self._release.wait()
        if what:
            raise self.script.odd.popleft() if self.script.odd else BoardLost(f"board '{self.name}' does not come back")

    def release(self) -> None:
        self._step("release")

    def close(self) -> None:
        self.closed += 1
        self._release.set()
        self._bell.close()

    def _ring(self) -> None:
        self._bell.put("done")

    def _step(self, step: str) -> None:
        self.threads.add(threading.current_thread().name)
        if self._fault == step:
            self._fault = ""
            raise self.script.odd.popleft() if self.script.odd else BoardLost(f"board '{self.name}' was lost in {step}")
        if self._fault == f"hang {step}":
            self._fault = ""
            self._release.wait()
            raise BoardLost(f"board '{self.name}' hung in {step}")


def work(name: str, folder: Path, *, kernel: str = "k", again: bool = False) -> Job:
    """A candidate that is built; its library is an empty file."""
    library = folder / f"{name}.so"
    library.touch()
    built = CandidateBuild(name, kernel, "built", candidate_id=name, library=library)
    request = RunRequest(name, str(library), (), (), (), 0, TimingPolicy(), deadline_s=0.2)
    return Job(built, request, 0.0, again)
