"""How candidates per second grow with the number of boards, and what holds them back.

python benchmarks/boards_scaling.py [--reach process|ssh] [--boards 1,2,4,8,16] [--seconds 0.5] [--candidates 12]

Every board is a real agent, natively on this machine, each behind an SSH server of its own with `--reach ssh`. All
candidates sleep, so that measuring takes a fixed time and no core: what is lost is what edgetune itself costs. The
first table has candidates that are built already; the second builds them on this machine's cores while the boards
measure, and names the bottleneck. Prints one JSON object in the last line.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # as a script, the folder above is not on the path
    sys.path.insert(0, str(ROOT))

from edgetune.boards.agent.board import AgentBoard  # noqa: E402  the path comes first
from edgetune.boards.opening import BoardFactory  # noqa: E402
from edgetune.boards.options import MeasuringOptions  # noqa: E402
from edgetune.boards.process import ProcessReach  # noqa: E402
from edgetune.boards.protocol import Board, RunRequest  # noqa: E402
from edgetune.boards.reach import Reach  # noqa: E402
from edgetune.boards.sampling import TimingPolicy  # noqa: E402
from edgetune.measure.accounting import Accounting  # noqa: E402
from edgetune.measure.attempt import Job  # noqa: E402
from edgetune.measure.build_worker import BuildPolicy  # noqa: E402
from edgetune.measure.compiler import build_library, builder_of, toolchain_of  # noqa: E402
from edgetune.measure.fleet import Fleet  # noqa: E402
from edgetune.measure.jobs import BuildJob, CandidateBuild  # noqa: E402
from edgetune.measure.session import MeasureSession  # noqa: E402
from edgetune.target.target import Target, load_target  # noqa: E402
from tests import measure_steps  # noqa: E402

SAMPLES = 8
CALLS = SAMPLES + 2  # one to check, one to learn how long it takes
UNIT = """#include <time.h>
void sleeper(float *out);
void sleeper(float *out)
{
    const struct timespec t = {0, %dL};
    nanosleep(&t, 0);
    out[0] = 1.0f;
}
"""
SHIM = """void sleeper(float *out);
void edgetune_call(void *const *buffers);
void edgetune_call(void *const *buffers) { sleeper(buffers[0]); }
"""


def policy(seconds: float) -> TimingPolicy:
    """Time a kernel that sleeps `seconds` / CALLS a call so often that a candidate takes `seconds`."""
    return TimingPolicy(
        budget_ns=20e9 * seconds,
        sample_ns=1.0,
        warm_up_ns=0.0,
        min_sampling_ns=0.0,
        narrow=0.0,
        hopeless=1e4,
        min_samples=SAMPLES,
        max_samples=SAMPLES,
    )


def prebuilt(target: Target, folder: Path, seconds: float) -> RunRequest:
    """A candidate that is built: its library and its one output."""
    (folder / "unit.c").write_text(UNIT % int(seconds / CALLS * 1e9))
    (folder / "shim.c").write_text(SHIM)
    compiled = build_library(toolchain_of(target), folder / "unit.c", folder / "shim.c", folder / "candidate.so")
    if compiled.reason:
        sys.exit(compiled.reason)
    np.save(folder / "out.npy", np.ones(1, np.float32))
    return RunRequest(
        "c",
        str(folder / "candidate.so"),
        (str(folder / "out.npy"),),
        ("output",),
        (None,),
        0,
        policy(seconds),
        best_ns=1e6,
    )  # by that time it cannot be the best: it is never timed twice


@contextmanager
def reaches(kind: str, target: Target, folder: Path) -> Iterator[Callable[[int], list[Reach]]]:
    """Ways to any number of boards."""
    if kind == "process":
        yield lambda count: [ProcessReach(f"board-{number}", target) for number in range(count)]
        return
    import paramiko

    from tests.boards.ssh_bench import Bench

    home = folder / "home"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    key = paramiko.ECDSAKey.generate()
    key.write_private_key_file(str(home / ".ssh" / "id_ecdsa"))
    os.environ["HOME"] = str(home)
    bench = Bench(home, key)
    native = {"uname -m": os.uname().machine, "getconf GNU_LIBC_VERSION": "glibc 2.36"}
    yield lambda count: [bench.reach(bench.board(native), target=target, name=f"board-{n}") for n in range(count)]
    for reach in bench.reaches:
        reach.close()
    for board in bench.boards:
        board.close()


def pace(boards: Sequence[Board], request: RunRequest, each: int) -> float:
    """Candidates per second on `boards`, which have `each` to measure."""
    fleet = Fleet(
        boards,
        MeasuringOptions(),
        Accounting(),
        canary=lambda: None,
        on_start=lambda _: None,
        on_event=lambda event: print(event.data, file=sys.stderr),
        reserve_s=60.0,
        remote=True,
    )
    try:
        _finish(fleet, request, len(boards))  # files are there, and everything is warm
        count = each * len(boards)
        started = time.monotonic()
        _finish(fleet, request, count)
        return count / (time.monotonic() - started)
    finally:
        fleet.close()


def _finish(fleet: Fleet, request: RunRequest, count: int) -> None:
    for number in range(count):
        built = CandidateBuild(str(number), "k", "built", candidate_id=str(number), library=Path(request.library))
        now = time.monotonic()
        fleet.offer(Job(built, replace(request, candidate_id=str(number)), now))
    left = count
    while left:
        for one in fleet.advance():
            left -= 1
            if one.taken is None or not one.taken.samples:
                sys.exit(f"a candidate failed: {one.reason or (one.taken and one.taken.reason)}")
        if left:
            select.select([fleet.fileno()], [], [], 0.5)


def building(target: Target, boards: Sequence[Board], seconds: float, each: int) -> dict[str, object]:
    """Candidates per second and the bottleneck when candidates are built as they are measured."""
    pause = int(seconds / CALLS * 1e6)
    with MeasureSession(
        target,
        BoardFactory(lambda _folder, _on_event: boards, here=True),
        builder_of(target),
        measuring=MeasuringOptions(timing=policy(seconds)),
        building=BuildPolicy("tests.measure_steps:make_source", "tests.measure_steps:make_case"),
    ) as session:
        session.prepare([measure_steps.spec()])
        text = "int usleep(unsigned);"
        jobs = [
            BuildJob(
                str(number),
                "k",
                measure_steps.trace(f"/* {number} */ usleep({pause}); {measure_steps.GOOD}", globals=text),
            )
            for number in range(each * len(boards))
        ]
        started = time.monotonic()
        count = sum(1 for _ in session.measure(jobs))
        took = time.monotonic() - started
        return {"per_second": round(count / took, 2), "bottleneck": session.summary()["bottleneck"]}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 1 when the largest number of boards reaches less than `--least` of that many times one board."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reach", choices=("process", "ssh"), default="process")
    parser.add_argument("--boards", default="1,2,4,8,16")
    parser.add_argument("--seconds", type=float, default=0.5, help="that measuring a candidate takes")
    parser.add_argument("--candidates", type=int, default=12, help="per board")
    parser.add_argument("--least", type=float, default=0.9)
    options = parser.parse_args(arguments)
    counts = [int(word) for word in options.boards.split(",")]
    target = load_target("host")
    ready: dict[int, float] = {}
    built: dict[int, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as name, reaches(options.reach, target, Path(name)) as ways:
        request = prebuilt(target, Path(name), options.seconds)

        def boards(count: int) -> list[AgentBoard]:
            return [AgentBoard(target, reach) for reach in ways(count)]

        print("boards  candidates/s  of so many times one board (built already)")
        for count in counts:
            ready[count] = pace(boards(count), request, options.candidates)
            share = ready[count] / (count / counts[0] * ready[counts[0]])
            print(f"{count:6}  {ready[count]:12.2f}  {100 * share:5.1f} %")
        print(f"boards  candidates/s  bottleneck (building on {os.cpu_count()} cores)")
        for count in counts:
            built[count] = building(target, boards(count), options.seconds, max(2, options.candidates // 4))
            print(f"{count:6}  {built[count]['per_second']:12}  {built[count]['bottleneck']}")
    share = ready[counts[-1]] / (counts[-1] / counts[0] * ready[counts[0]])
    print(json.dumps({"reach": options.reach, "built_already": ready, "share": round(share, 4), "building": built}))
    return 0 if share >= options.least else 1


if __name__ == "__main__":
    sys.exit(main())
