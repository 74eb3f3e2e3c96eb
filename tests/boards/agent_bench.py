"""A board behind an agent with one kernel to try: out[i] = 2 * a[i] + w[i], or what the first buffer says instead."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from edgetune.boards.agent.board import AgentBoard
from edgetune.boards.process import ProcessReach
from edgetune.boards.protocol import RunRequest, RunResult
from edgetune.boards.sampling import TimingPolicy
from edgetune.events import Event
from edgetune.graph.accuracy import Tolerance
from edgetune.target.target import Target, load_target

HERE = Path(__file__).parent
COUNT = 1000
QUICK = TimingPolicy(budget_ns=5e6, sample_ns=1e4, warm_up_ns=1e4, min_sampling_ns=1e5)
ROLES = ("input", "input", "constant", "output")
TOLERANCES = (None, None, None, Tolerance(relative=1e-5))


def emulated_in_time(name: str) -> Target:
    """A target under its emulator, with the clock as it is on boards."""
    target = load_target(name)
    return target.model_copy(update={"emulated": True, "clock": "time"})


def compile_library(target: Target, source: Path, folder: Path) -> Path:
    library = folder / f"{source.stem}-{target.name}.so"
    command = [
        target.compiler.cc,
        "-std=gnu11",
        "-O1",
        "-fPIC",
        "-shared",
        "-w",
        "-o",
        str(library),
        str(source),
        "-lm",
    ]
    subprocess.run(command, check=True)
    return library


class AgentBench:
    """Requests for a board, with files of their own."""

    def __init__(self, target: Target, folder: Path, cache: Path, lock: str | None = None) -> None:
        self.target = target
        self.folder = folder
        self.cache = cache
        self.events: list[Event] = []
        self.use(ProcessReach(target.name, target, lock=lock, cache=cache))
        self.library = compile_library(target, HERE / "hostile.c", folder)
        generator = np.random.default_rng(7)
        self.a, self.w = (generator.standard_normal(COUNT).astype(np.float32) for _ in range(2))

    def use(self, reach: ProcessReach) -> None:
        """Have a board of its own behind another reach."""
        self.reach = reach
        self.board = AgentBoard(self.target, reach, cache=self.cache, on_event=self.events.append, lock_timeout_s=60.0)

    def save(self, name: str, array: np.ndarray) -> Path:
        path = self.folder / f"{name}.npy"
        np.save(path, array)
        return path

    def request(self, what: int = 0, **changes: object) -> RunRequest:
        selector = self.save(f"selector-{what}", np.array([what], np.int32))
        arrays = [selector, self.save("a", self.a), self.save("w", self.w), self.save("out", 2 * self.a + self.w)]
        self.board.reserve()
        request = RunRequest(
            candidate_id=f"candidate-{what}",
            library=self.board.put(self.library),
            arrays=tuple(self.board.put(path) for path in arrays),
            roles=ROLES,
            tolerances=TOLERANCES,
            scratch_bytes=0,
            timing=QUICK,
            deadline_s=20.0,
            memory_bytes=256 << 20,
        )
        return replace(request, **changes)  # type: ignore[arg-type]

    def run(self, what: int = 0, **changes: object) -> RunResult:
        self.board.begin(self.request(what, **changes))
        return self.wait()

    def wait(self, limit_s: float = 60.0) -> RunResult:
        result = self.board.collect(limit_s)
        assert result is not None, "the board said nothing"
        return result

    def told(self, what: str) -> list[str]:
        return [str(event.data["detail"]) for event in self.events if event.data.get("what") == what]

    def helped(self) -> list[str]:
        """Rungs of the ladder that brought the board back."""
        return [words.split(":")[0] for words in self.told("rung") if ": succeeded" in words]

    def close(self) -> None:
        self.board.close()


def processes(matching: Callable[[str], bool]) -> set[int]:
    """Processes whose command line matches, this one left out."""
    everybody = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return {process for process in everybody if process != os.getpid() and matching(command_of(process))}


def command_of(process: int) -> str:
    """Its command line, empty once it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def parent_of(process: int) -> int:
    """The process that started it or has adopted it, 0 once it is gone."""
    with suppress(OSError):
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return 0
