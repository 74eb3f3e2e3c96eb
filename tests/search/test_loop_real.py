"""The whole room at work on a matmul of 32x32: real sketches, C, compiler and timing, killed with its processes.

Run as a script it is the command that the test kills: `python test_loop_real.py DATABASE TRIALS`.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from tvm import te

from edgetune.boards.options import MeasuringOptions
from edgetune.config.boards_file import ResolvedBoard
from edgetune.frontend.tensor_expression.kernel import kernel_from_te
from edgetune.graph.program import Buffer, BufferKind, Call, Kernel, Program, TensorSpec
from edgetune.pipeline.boards import accesses
from edgetune.records import RecordFilter, RecordStore
from edgetune.search.options import TuneOptions
from edgetune.search.outcome import TuneOutcome
from edgetune.search.tune import tune
from edgetune.target.target import load_target
from tests.record_starts import starts

SIZE = 32
TRIALS = 24
KILLS = 1


def matmul() -> Kernel:
    a = te.placeholder((SIZE, SIZE), name="a")
    b = te.placeholder((SIZE, SIZE), name="b")
    k = te.reduce_axis((0, SIZE), name="k")
    c = te.compute((SIZE, SIZE), lambda i, j: te.sum(a[i, k] * b[k, j], k), name="c")
    return kernel_from_te([a, b, c], "matmul")


def program() -> Program:
    shape = (SIZE, SIZE)
    specs = [TensorSpec(name, shape, "float32") for name in "abc"]
    kinds: tuple[BufferKind, ...] = ("input", "input", "output")
    buffers = tuple(Buffer(place, "abc"[place], shape, "float32", kind) for place, kind in enumerate(kinds))
    call = Call(0, (0, 1, 2), "matmul")
    return Program("matmul", tuple(specs[:2]), (specs[2],), buffers, (matmul(),), (call,), {}, "0" * 64)


def run(database: Path, trials: int) -> TuneOutcome:
    with RecordStore.open(database) as store:
        host = load_target("host")
        measuring = MeasuringOptions(accesses(ResolvedBoard(host)))
        return tune(program(), host, store, TuneOptions(trials=trials), lambda _: None, measuring)


def count(database: Path) -> int:
    if not database.exists():
        return 0
    with RecordStore.open(database) as store:
        return len(store.list())


def noisy_in(store: RecordStore) -> set[str]:
    return {str(row["candidate"]) for row in store.list(RecordFilter(status="refused_noisy"))}


@pytest.mark.long
def test_killed_then_finished(tmp_path: Path) -> None:
    database, draw = tmp_path / "db", random.Random(3)  # noqa: S311
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    command = [sys.executable, __file__, str(database), str(TRIALS)]
    kept: set[str] = set()
    noisy: set[str] = set()  # what the machine that runs the suite made of them: these are measured again
    kills = 0
    for _ in range(KILLS):
        with subprocess.Popen(command, env=environment, start_new_session=True) as process:
            wanted = len(kept) + draw.randrange(2, 6)
            while process.poll() is None and count(database) < wanted:
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)
            kills += process.wait() == -signal.SIGKILL
        with RecordStore.open(database) as store:
            now = {str(row["candidate"]) for row in store.list()}
            noisy |= noisy_in(store)
        assert kept <= now
        kept = now
    assert kills == KILLS
    outcome = run(database, TRIALS)
    with RecordStore.open(database) as store:
        assert len(store.list()) == outcome.records == TRIALS
        begun = Counter(start.candidate for start in starts(database))
        again = [candidate for candidate, times in begun.items() if times > 1 and candidate not in noisy]
        noisy = noisy_in(store)
        assert len(again) <= kills
        assert not set(again) & kept
    assert outcome.after_ns is not None
    assert outcome.seconds["compile"] > 0
    assert run(database, TRIALS).measured <= len(noisy)


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]))
