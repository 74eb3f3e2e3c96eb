"""What the agent costs beyond the kernel's own time: per session, per candidate, per timed call.

python benchmarks/agent_overhead.py [--boards host,qemu-aarch64,qemu-armv7,qemu-rpi4] [--candidates 100] [--check]

The kernel does nothing, so all that is measured is overhead: the link (login, questions to the board, a folder
there), which has no limit; the start of a session on it (the agent, compiled before, is brought, started, and greets);
a candidate (what passes on the board between request and answer, without check and timing: its process is forked ahead
of the request and cleared away behind the answer, and counts as far as the next candidate has to wait for that); a
timed call (on boards that count instructions the wall time of counting one more); and the way of a candidate there and
back, which has no limit. Medians, with the smallest in brackets: the machine may be busy. With `--check` the exit
status tells whether the medians are within the limits. The last line is one JSON object. Boards that need an address
are refused: the way to them would be measured with them. `qemu-rpi4` needs its image (`edgetune boards setup
qemu-rpi4`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # as a script, the folder above is not on the path
    sys.path.insert(0, str(ROOT))

from edgetune.boards.agent.board import AgentBoard  # noqa: E402  the path comes first
from edgetune.boards.agent.build import build_agent  # noqa: E402
from edgetune.boards.machine.reach import MachineReach  # noqa: E402
from edgetune.boards.process import ProcessReach  # noqa: E402
from edgetune.boards.protocol import RunRequest, RunResult  # noqa: E402
from edgetune.boards.reach import Reach  # noqa: E402
from edgetune.boards.sampling import TimingPolicy  # noqa: E402
from edgetune.boards.ssh.client_config import ClientConfig  # noqa: E402
from edgetune.boards.ssh.reach import SshReach  # noqa: E402
from edgetune.config.boards_file import ResolvedBoard, require_measurable  # noqa: E402
from edgetune.errors import EdgetuneError  # noqa: E402
from edgetune.pipeline.boards import accesses  # noqa: E402
from edgetune.target.target import Target, load_target  # noqa: E402

EMPTY = "void edgetune_call(void *const *b);\nvoid edgetune_call(void *const *b) { (void)b; }\n"
LIMITS_MS = {"session": 1000.0, "candidate": 10.0, "call": 0.05}
CALLS = (10, 400)  # counted calls of a candidate, by turns: the difference, far above noise, is what they cost
SESSIONS = 5


@dataclass(frozen=True)
class Spread:
    """Milliseconds."""

    median: float
    smallest: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread:
        """Describe times in seconds."""
        return cls(1e3 * statistics.median(seconds), 1e3 * min(seconds))

    def __str__(self) -> str:
        return f"{self.median:.4g} ({self.smallest:.4g})"


class Stamped:
    """A way to a board that notes when a program was to be started there."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self.started = 0.0

    def __getattr__(self, name: str) -> object:
        return getattr(self._reach, name)

    def start(self, program: Path, arguments: Sequence[str], timeout_s: float = 10.0) -> object:
        """Start it."""
        self.started = time.perf_counter()
        return self._reach.start(program, arguments, timeout_s)


@contextmanager
def ways(target: Target) -> Iterator[Callable[[], Reach]]:
    """Give what makes ways to one board of `target`, which is up before and stays up: its boot is no overhead.

    Raises BoardUnavailable for boards that need an address.
    """
    require_measurable(target)
    (access,) = accesses(ResolvedBoard(target))
    if access.carrier.here:
        yield lambda: ProcessReach(target.name, target)
        return
    first = access.link()
    if not isinstance(first, MachineReach):
        yield access.link
        return
    try:
        first.connect()
        config = ClientConfig([first.ssh_config])
        yield lambda: SshReach(first.address, target, config=config)
    finally:
        first.close()


def overhead(target: Target, candidates: int, folder: Path) -> dict[str, Spread]:
    """Measure one kind of board. Raises BoardUnavailable for those that need an address."""
    library = folder / f"{target.name}.so"
    (folder / "empty.c").write_text(EMPTY)
    command = [target.compiler.cc, "-O2", "-fPIC", "-shared", "-o", str(library), str(folder / "empty.c"), "-lm"]
    subprocess.run(command, check=True)
    build_agent(target)
    with ways(target) as way:
        links, starts = [], []
        for _ in range(SESSIONS):
            reach = Stamped(way())
            board = AgentBoard(target, cast(Reach, reach))
            began = time.perf_counter()
            board.reserve()
            starts.append(time.perf_counter() - reach.started)
            links.append(reach.started - began)
            board.close()
        board = AgentBoard(target, way())
        try:
            board.reserve()
            trials, ways_there, samples = [], [], []
            timings: dict[int, list[float]] = {calls: [] for calls in CALLS}
            for turn in range(candidates):
                calls = CALLS[turn % len(CALLS)]
                began = time.perf_counter()
                result = one(board, library, folder, calls)
                gone = time.perf_counter() - began
                trials.append(result.seconds["process"] + result.seconds["load"])
                ways_there.append(gone - sum(result.seconds.values()))
                timings[calls].append(result.seconds["time"])
                samples.append(statistics.median(result.samples_ns) / 1e9)
        finally:
            board.close()
    if target.clock == "instructions":
        more = CALLS[1] - CALLS[0]
        samples = [(many - few) / more for few, many in zip(*(timings[calls] for calls in CALLS), strict=False)]
    found = {"link": links, "session": starts, "candidate": trials, "call": samples, "way": ways_there}
    return {what: Spread.of(seconds) for what, seconds in found.items()}


def one(board: AgentBoard, library: Path, folder: Path, calls: int) -> RunResult:
    """Try the empty kernel."""
    array = folder / "input.npy"
    if not array.exists():
        np.save(array, np.zeros(16, np.float32))
    policy = TimingPolicy(
        sample_ns=0, warm_up_ns=0, min_sampling_ns=0, min_samples=calls, few_samples=calls, narrow=1e3
    )
    request = RunRequest(
        "empty", board.put(library), (board.put(array),), ("input",), (None,), scratch_bytes=0, timing=policy
    )
    board.begin(request)
    result = board.collect(60.0)
    if result is None or result.status != "ok":
        raise EdgetuneError(f"the empty kernel fails on '{board.name}': {result.reason if result else 'no answer'}")
    return result


def main() -> int:
    """Print the table and the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--boards", default="host,qemu-aarch64,qemu-armv7")
    parser.add_argument("--candidates", type=int, default=100, help="at least 2")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    found: dict[str, dict[str, Spread]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.boards.split(","):
            try:
                found[name] = overhead(load_target(name), max(len(CALLS), options.candidates), Path(folder))
            except EdgetuneError as error:
                print(f"{name}: {error.message}", file=sys.stderr)
                return error.exit_code
    columns = ("link", *LIMITS_MS, "way")
    print(f"{'ms':16}" + "".join(f"{what:>22}" for what in columns))
    for name, spreads in found.items():
        print(f"{name:16}" + "".join(f"{spreads[what]!s:>22}" for what in columns))
    print(f"{'at most':16}{'':22}" + "".join(f"{limit:>22g}" for limit in LIMITS_MS.values()))
    fine = all(spreads[what].median <= limit for spreads in found.values() for what, limit in LIMITS_MS.items())
    values = {name: {what: asdict(spread) for what, spread in spreads.items()} for name, spreads in found.items()}
    print(json.dumps({"milliseconds": values, "limits": LIMITS_MS, "within": fine}))
    return 0 if fine or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
