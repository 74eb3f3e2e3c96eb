"""A session as a whole: order, callbacks, accounts, ends of all kinds."""

from __future__ import annotations

import importlib
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from edgetune.backends import c_linux
from edgetune.boards.cores import CoreSplit, confined, split_cores
from edgetune.boards.host_resources import HostResources
from edgetune.boards.local.board import LocalBoard
from edgetune.boards.opening import BoardFactory, boards_of
from edgetune.boards.protocol import RunRequest
from edgetune.config.boards_file import ResolvedBoard
from edgetune.errors import BoardUnavailable, DiskFull, ToolchainMissing
from edgetune.events import Event
from edgetune.measure.build_worker import BuildPolicy, BuildWorker, OutOfSpace, WorkerSetup
from edgetune.measure.builder import BuildPool
from edgetune.measure.compiler import build_library, toolchain_of
from edgetune.measure.jobs import BuildJob, CandidateBuild, ReferenceResult
from edgetune.measure.measurement import Measurement, MeasureStart
from edgetune.measure.peaks import Peaks
from edgetune.measure.session import MeasureSession
from edgetune.measure.workspace import Workspace
from edgetune.pipeline.boards import accesses
from edgetune.target.target import load_target

HERE = Path(__file__).parents[1]
STEPS = BuildPolicy("measure_steps:make_source", "measure_steps:make_case")

RUN = """
import sys
from pathlib import Path
import measure_steps as steps
from edgetune.backends.c_linux import BACKEND
from edgetune.boards.opening import boards_of
from edgetune.config.boards_file import ResolvedBoard
from edgetune.boards.options import MeasuringOptions
from edgetune.measure.build_worker import BuildPolicy
from edgetune.measure.jobs import BuildJob
from edgetune.pipeline.boards import accesses
from edgetune.target.target import load_target
from edgetune.measure.session import MeasureSession
host = load_target("host")
boards = boards_of(accesses(ResolvedBoard(host)), lock_file=Path(sys.argv[1]))
session = MeasureSession(host, boards, BACKEND, workers=1,
                         building=BuildPolicy("measure_steps:make_source", "measure_steps:make_case"),
                         measuring=MeasuringOptions(deadline_s=600),
                         on_start=lambda start: print("started", start.job_id, flush=True))
session.prepare([steps.spec()])
print(session._workspace.path, flush=True)
body = steps.GOOD if sys.argv[2] == "go" else "for (volatile int i = 1; i;) { }"
jobs = [BuildJob(str(n), "k", steps.trace(f"/* {n} */" + body)) for n in range(1000)]
jobs.insert(1, BuildJob("hang", "k", steps.trace(lowering="hang")))
try:
    with session:
        for n, measured in enumerate(session.measure(jobs if sys.argv[2] != "go" else jobs[:1] + jobs[2:])):
            print(n, flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


# A noisy machine may refuse a set of samples; that is no fault of the candidate.
FINE = {"ok", "refused_noisy"}


def open_session(
    folder: Path,
    on_start: Callable[[MeasureStart], None] = lambda _: None,
    on_event: Callable[[Event], None] = lambda _: None,
) -> MeasureSession:
    target, lock = load_target("host"), folder / "lock"
    boards = boards_of(accesses(ResolvedBoard(target)), lock_file=lock)
    return MeasureSession(target, boards, c_linux.BACKEND, on_start=on_start, on_event=on_event, building=STEPS)


@pytest.fixture
def steps() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))
        yield importlib.import_module("measure_steps")


@pytest.mark.long
def test_measurements_hold_the_limits_of_the_core(tmp_path: Path, steps: ModuleType) -> None:
    with open_session(tmp_path) as session:
        session.prepare([steps.spec()])
        jobs = [BuildJob(str(number), "k", steps.trace(f"/* {number} */{steps.GOOD}")) for number in range(4)]
        measured = list(session.measure(jobs))
    assert Peaks.of_environment(measured[-1].environment) is not None


class Broken(LocalBoard):
    """Waits in `begin` for the word to fail with an error of ours."""

    def __init__(self, folder: Path) -> None:
        super().__init__(load_target("host"), HostResources(folder, split_cores(), folder / "lock"))
        self.begun, self.word = threading.Event(), threading.Event()

    def begin(self, request: RunRequest) -> None:
        self.begun.set()
        self.word.wait()
        raise TypeError(f"our own, at {request.candidate_id}")


def test_what_breaks_is_raised_after_what_is_measured(
    steps: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = Broken(tmp_path)
    with MeasureSession(
        load_target("host"), BoardFactory(lambda *_: [board], here=True), c_linux.BACKEND, building=STEPS
    ) as session:
        session.prepare([steps.spec()])
        session.submit(BuildJob("good", "k", steps.trace()))
        while not board.begun.is_set():
            assert session.poll(0.01) == []
        session.submit(BuildJob("bad", "k", steps.trace(lowering="raise")))
        built: list[CandidateBuild | ReferenceResult] = []
        while not built:
            built += session._open_pool.poll(1.0)
        monkeypatch.setattr(session._open_pool, "poll", lambda *_: [built.pop()] if built else [])
        board.word.set()
        assert select.select([session._open_fleet.fileno()], [], [], 60.0)[0]
        assert [one.job_id for one in session.poll(10.0)] == ["bad"]
        with pytest.raises(TypeError, match="our own"):
            session.poll(10.0)


@pytest.mark.long
def test_results_stream_in_order_of_building_with_a_start_each(steps: ModuleType, tmp_path: Path) -> None:
    starts: list[MeasureStart] = []
    weights = np.linspace(-1, 1, steps.LENGTH, dtype=np.float32)
    with open_session(tmp_path, on_start=starts.append) as session:
        first = steps.spec("first")
        assert session.prepare([first, steps.spec("second")], constants={"first": {1: weights}}) == {}
        jobs = [BuildJob(str(n), "first", steps.trace(f"/* {n} */ {steps.GOOD}")) for n in range(6)]
        jobs.append(BuildJob("6", "second", steps.trace()))
        measured: list[Measurement] = []
        for one in session.measure(jobs):
            assert [start.job_id for start in starts][: len(measured) + 1] == [m.job_id for m in measured] + [
                one.job_id
            ]
            measured.append(one)
        assert {one.status for one in measured} <= FINE
        for one in measured:
            assert (one.board, one.environment["clock"], one.environment["emulated"]) == ("host", "time", 0)
            assert one.environment["trust"] in {"A", "B", "C", "D"}
            assert one.environment["trust_reason"]
        assert [(s.job_id, s.candidate_id) for s in starts] == [(m.job_id, m.candidate_id) for m in measured]
        known = {"first": [m.candidate_id for m in measured[:2] if m.candidate_id]}
        session.prepare([first], known=known)
        (again,) = session.measure([BuildJob("7", "first", jobs[0].trace)])
        assert again.status == "duplicate"
        summary = session.summary()
        assert list(session._workspace.path.glob("candidates/*")) == []
    # How many sets were too noisy to keep is the machine's business.
    assert summary["candidates"] == Counter(one.status for one in [*measured, again])
    assert summary["wall_s"] > 0  # type: ignore[operator]
    seconds = summary["seconds"]
    assert isinstance(seconds, dict)
    assert seconds["compile"] > seconds["load"] >= 0
    assert 0 < summary["runner_busy"] <= 1  # type: ignore[operator]
    boards = summary["boards"]
    assert isinstance(boards, dict)
    assert boards["host"]["candidates"] == len(measured)
    assert str(summary["bottleneck"]).startswith(("boards: ", "builders: ", "search: "))


@pytest.mark.long
def test_candidates_known_from_an_earlier_run_are_not_started(steps: ModuleType, tmp_path: Path) -> None:
    starts: list[MeasureStart] = []
    job = BuildJob("1", "k", steps.trace())
    ids: list[str | None] = []
    for known in ([], ids):
        with open_session(tmp_path, on_start=starts.append) as session:
            session.prepare([steps.spec()], known={"k": [one for one in known if one]})
            ids += [measured.candidate_id for measured in session.measure([job])]
    assert len(starts) == 1
    assert ids[0] == ids[1]


@pytest.mark.long
@pytest.mark.usefixtures("no_sample_is_noisy")
def test_a_much_slower_candidate_is_timed_briefly(steps: ModuleType, tmp_path: Path) -> None:
    slow = 'for (int n = 0; n < 1000; ++n) { __asm__ volatile("" ::: "memory"); ' + steps.GOOD + " }"
    with open_session(tmp_path) as session:
        session.prepare([steps.spec()])
        (fast,) = session.measure([BuildJob("1", "k", steps.trace())])
        (hopeless,) = session.measure([BuildJob("2", "k", steps.trace(slow))])
    assert fast.status in FINE
    assert hopeless.status in FINE
    assert len(hopeless.samples_ns) == 3
    assert "briefly" in hopeless.reason


def start_run(tmp_path: Path, what: str) -> tuple[subprocess.Popen[str], Path]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE)])}
    command = [sys.executable, "-c", RUN, str(tmp_path / "lock"), what]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    assert run.stdout is not None
    folder = Path(run.stdout.readline().strip())
    # stuck: this candidate hangs in the runner, and the only worker, which had it built before, hangs in lowering
    assert run.stdout.readline() == "started 0\n"
    return run, folder


def descendants(root: int) -> set[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, grew = {root}, True
    while grew:
        new = {pid for pid, parent in parents.items() if parent in found} - found
        found |= new
        grew = bool(new)
    return found - {root}


def wait_until_gone(processes: set[int], seconds: float = 60.0) -> set[int]:
    deadline = time.monotonic() + seconds
    alive = processes
    while alive and time.monotonic() < deadline:
        alive = {pid for pid in alive if _alive(pid)}
        time.sleep(0.05)
    return alive


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.long
@pytest.mark.parametrize("what", ["go", "stuck"])
def test_kill_9_leaves_no_process_and_the_next_run_clears_the_folder(tmp_path: Path, what: str) -> None:
    run, folder = start_run(tmp_path, what)
    with run:
        family = descendants(run.pid)
        assert len(family) >= 2
        assert folder.exists()  # other runs leave it alone while this one lives, and clear it at any time afterwards
        run.kill()
        run.wait()
    assert wait_until_gone(family) == set()
    Workspace().close()
    assert not folder.exists()


@pytest.mark.long
@pytest.mark.parametrize("what", ["go", "stuck"])
def test_ctrl_c_ends_all_processes_and_removes_the_folder(tmp_path: Path, what: str) -> None:
    run, folder = start_run(tmp_path, what)
    with run:
        assert run.stdout is not None
        family = descendants(run.pid)
        os.killpg(run.pid, signal.SIGINT)
        rest = run.stdout.read()
        assert run.wait(timeout=60) == 0
    assert rest.endswith("interrupted\n")
    assert wait_until_gone(family) == set()
    assert not folder.exists()


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    with Workspace([tmp_path]) as first, Workspace([tmp_path]) as second:
        assert first.path != second.path
        assert first.path.exists()
    assert not first.path.exists()


def test_no_folder_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BoardUnavailable, match="TMPDIR"):
        Workspace([tmp_path / "file"])


def test_no_compiler_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    target = load_target("host")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolchainMissing, match="not on PATH"):
        toolchain_of(target)


def test_a_full_disk_is_not_the_candidates_fault(
    steps: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []
    target = load_target("host")
    setup = WorkerSetup(tmp_path, target, toolchain_of(target), STEPS, cores=None)
    worker = BuildWorker(setup, told.append)
    worker._specs["k"] = steps.spec()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(c_linux, "build_library", full)
    worker.handle(BuildJob("1", "k", steps.trace()))
    assert isinstance(told[-1], OutOfSpace)
    pool = BuildPool(tmp_path, target, toolchain_of(target), STEPS)
    try:
        with pytest.raises(DiskFull, match="No space"):
            pool._take(pool._workers[0], told[-1])
    finally:
        pool.close()


@pytest.mark.long
def test_an_unprepared_kernel_is_a_mistake(steps: ModuleType, tmp_path: Path) -> None:
    with open_session(tmp_path) as session, pytest.raises(KeyError, match="not prepared"):
        session.submit(BuildJob("1", "k", steps.trace()))
    with pytest.raises(ValueError, match="closed"):
        session.prepare([steps.spec()])


@pytest.mark.long
def test_the_measuring_core_is_nobody_elses(steps: ModuleType, tmp_path: Path) -> None:
    """Processes bind themselves when they begin, before anything is built or timed."""
    split = split_cores()
    with open_session(tmp_path) as session:
        (lane,) = session._open_fleet.lanes
        assert isinstance(lane.board, LocalBoard)
        session.prepare([steps.spec()])
        asked = {worker.process.pid: split.building for worker in session._open_pool._workers}
        asked[lane.board._runner.pid] = split.measuring
        deadline = time.monotonic() + 60.0
        while (found := {pid: os.sched_getaffinity(pid) for pid in asked}) != asked and time.monotonic() < deadline:
            time.sleep(0.05)
    assert found == asked
    assert split.shared or not split.measuring & split.building


def test_one_core_is_shared_and_said() -> None:
    assert split_cores(frozenset({3})) == CoreSplit(frozenset({3}), frozenset({3}), shared=True)
    assert split_cores(frozenset({0, 2, 5})) == CoreSplit(frozenset({5}), frozenset({0, 2}), shared=False)


def test_this_process_can_keep_off_the_measuring_core() -> None:
    before = os.sched_getaffinity(0)
    building = split_cores().building
    with confined(building):
        assert os.sched_getaffinity(0) == set(building)
    assert os.sched_getaffinity(0) == before


def test_objects_are_compiled_as_they_ship() -> None:
    target = load_target("host")
    toolchain = toolchain_of(target)
    assert toolchain.kernel_flags == ("-std=gnu11", *target.compiler.kernel_line)
    assert toolchain.position_flags == ()  # Debian's compilers make position independent executables
    assert shutil.which(toolchain.size)


def test_a_compiler_that_wants_too_much_memory_fails_alone(tmp_path: Path) -> None:
    toolchain = replace(toolchain_of(load_target("host")), memory_bytes=16 << 20)
    unit, shim = tmp_path / "unit.c", tmp_path / "shim.c"
    unit.write_text("int answer = 42;\n")
    shim.write_text("")
    compiled = build_library(toolchain, unit, shim, tmp_path / "x.so")
    assert compiled.reason
    assert not compiled.timed_out
