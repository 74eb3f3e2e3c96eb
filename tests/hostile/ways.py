"""The ways of trying a candidate, each as a board: local runner, agent (here and under emulators), TVM's RPC."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from edgetune.boards.agent.board import AgentBoard
from edgetune.boards.cores import split_cores
from edgetune.boards.host_resources import HostResources
from edgetune.boards.local.board import LocalBoard
from edgetune.boards.process import ProcessReach
from edgetune.boards.protocol import PART, Board, RunRequest, RunResult
from edgetune.boards.sampling import TimingPolicy
from edgetune.boards.tvm_rpc.board import TvmRpcBoard
from edgetune.boards.tvm_rpc.launched import LOOPBACK
from edgetune.graph.accuracy import Tolerance
from edgetune.target.target import Target, load_target
from tests.boards.tvm_rpc_server import DirectDoor, start_server

COUNT = 1000
DEADLINE_S = 30.0  # nothing here is ended by it, on a busy machine either
SOURCE = Path(__file__).with_name("candidates.c")
BRIEF = TimingPolicy(budget_ns=5e6, sample_ns=0.1e6, warm_up_ns=0.2e6, min_sampling_ns=1e6)
WAYS = ("local", "agent", "tvm", "agent-aarch64", "agent-armv7")

STARTED = ("crashed", "the kernel started a process")
MODE = ("wrong_result", "the mode of floating point changed")
THREADS = ("wrong_result", "leaves threads running")
WRONG: dict[str, tuple[int, tuple[str, str]]] = {
    "wrong in its second call": (1, ("wrong_result", "in call 2: output 3 differs")),
    "wrong from its third call on": (2, ("wrong_result", "output 3 differs")),
    "a float past the output from its second call on": (3, ("wrong_result", "writes to parameter 3 after its end")),
    "a float before the output from its second call on": (
        4,
        ("wrong_result", "writes to parameter 3 before its start"),
    ),
    "computes twice, then returns at once": (5, ("wrong_result", "output 3 differs")),
    "computes twice, then half": (6, ("wrong_result", "output 3 differs")),
    "rounding left changed": (7, MODE),
    "flush to zero left changed": (8, MODE),
    "rounding left changed by its second call": (9, MODE),
    "a thread left spinning": (10, THREADS),
    "a thread left sleeping": (11, THREADS),
    "a thread of its third call left sleeping": (12, THREADS),
    "a thread left, and all descriptors taken": (28, THREADS),
    "forks once": (13, STARTED),
    "forks in its fourth call": (14, STARTED),
    "forks without end": (15, STARTED),
    "forks without end from its third call on": (16, STARTED),
    "forks away from us": (17, STARTED),
    "starts a program": (18, STARTED),
    "spawns a program": (19, STARTED),
    "makes a sibling": (20, STARTED),
    "makes a process that nobody waits for": (21, STARTED),
    "becomes a program": (22, ("", "")),  # what that leaves is a process that says nothing
    "changes an input": (23, ("wrong_result", "")),
    "changes a weight by little": (24, ("wrong_result", "changes parameter 2, which is not an output")),
    "adds to what it finds": (25, ("wrong_result", "in call 2: output 3 differs")),
    "not to the bit, and a float past the output": (27, ("wrong_result", "writes to parameter 3 after its end")),
    "keeps its second result, and ends to write it": (26, ("wrong_result", "output 3 differs")),
}
RIGHT: dict[str, int] = {
    "honest": 100,
    "slow in its first call": 101,
    "in place": 102,
    "with gaps": 103,
    "with a thread that ends": 104,
    "not to the bit": 105,
    "with scratch memory": 106,
}


@dataclass
class Way:
    """Tries candidates of the library on one board."""

    name: str
    board: Board
    folder: Path
    library: Path

    def try_it(self, number: int, seed: int) -> RunResult:
        """Try the candidate of this number; `seed` draws its watched calls."""
        generator = np.random.default_rng(7)
        a, w = generator.standard_normal((2, COUNT)).astype(np.float32)
        out = 2 * a + w
        gaps = number == RIGHT["with gaps"]
        if gaps:
            out.view(np.uint32)[1::2] = 0xFFFFFFFF
        arrays = {f"what-{number}": np.array([number], np.int32), "a": a, "w": w, f"out-{gaps}": out}
        for name, array in arrays.items():
            np.save(self.folder / f"{name}.npy", array)
        self.board.reserve()
        try:
            request = RunRequest(
                candidate_id=f"candidate-{number}",
                library=self.board.put(self.library),
                arrays=tuple(self.board.put(self.folder / f"{name}.npy") for name in arrays),
                roles=("input", "input", "constant", PART if gaps else "output"),
                tolerances=(None, None, None, Tolerance(relative=1e-5)),
                scratch_bytes=128 if number == RIGHT["with scratch memory"] else 0,
                timing=BRIEF,
                deadline_s=DEADLINE_S,
                memory_bytes=256 << 20,
                seed=seed,
            )
            self.board.begin(request)
            while (result := self.board.collect(1.0)) is None:
                pass
        finally:
            self.board.release()
        return replace(result, samples_ns=tuple(result.samples_ns))


@contextmanager
def way(name: str, folder: Path) -> Iterator[Way]:
    """Open one of `WAYS`, with its files in `folder`."""
    target = load_target({"agent-aarch64": "qemu-aarch64", "agent-armv7": "qemu-armv7"}.get(name, "host"))
    library = folder / f"candidates-{target.name}.so"
    options = ["-std=gnu11", "-O2", "-fPIC", "-shared", "-w", "-pthread"]
    subprocess.run([target.compiler.cc, *options, "-o", library, SOURCE, "-lm"], check=True)
    with ExitStack() as stack:
        board = _MAKERS.get(name, _agent)(target, folder, stack)
        stack.callback(board.close)
        yield Way(name, board, folder, library)


def _local(target: Target, folder: Path, _: ExitStack) -> Board:
    return LocalBoard(target, HostResources(folder, split_cores(), folder / "timing.lock"))


def _tvm(target: Target, folder: Path, stack: ExitStack) -> Board:
    server = start_server(folder, "hostile")
    stack.callback(server.close)
    return TvmRpcBoard("tvm", target, DirectDoor(LOOPBACK, server.port, "hostile"), folder)


def _agent(target: Target, _: Path, __: ExitStack) -> Board:
    return AgentBoard(target, ProcessReach(target.name, target), lock_timeout_s=60.0)


_MAKERS = {"local": _local, "tvm": _tvm}
