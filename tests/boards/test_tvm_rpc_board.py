"""Candidates on a real server of TVM's RPC on the loopback: good ones are timed, bad ones are recorded as such."""

from __future__ import annotations

import dataclasses
import fnmatch
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from edgetune.boards.environment import read_environment
from edgetune.boards.tvm_rpc import board as board_module
from edgetune.boards.tvm_rpc import trial
from edgetune.boards.tvm_rpc import worker as worker_module
from edgetune.boards.tvm_rpc.board import SHIM, TvmRpcBoard
from edgetune.boards.tvm_rpc.launched import LOOPBACK, Launched
from edgetune.boards.tvm_rpc.messages import Files
from edgetune.boards.tvm_rpc.remote import RemoteArrays, RemoteError
from edgetune.errors import BoardLost, BoardUnfit
from edgetune.events import Event
from edgetune.resources import templates_dir
from edgetune.target.target import load_target
from tests.boards.tvm_rpc_candidates import GOOD, Candidates, descendants, finish, listening_addresses, run
from tests.boards.tvm_rpc_server import DirectDoor, start_server

FORK_AWAY = "if (fork() == 0) { setsid(); for (;;) pause(); }"
HANGS_S = 2.0  # to get, on a busy machine, to where it hangs
ENDS_S = 30.0
ONCE = "static int n; if (n++ < 1)"
FORGE = """
static int n;
long long *up = (long long *)&up; /* the order to watch a call lies up the stack: a token, 1, 1, 1 */
for (int i = 0; n == 1 && i < 1500; ++i)
    if (up[i + 1] == 1 && up[i + 2] == 1 && up[i + 3] == 1)
        for (int f = 3; f < 64; ++f) {
            long long answer[2] = {up[i], 42};
            if (write(f, answer, sizeof answer) < 0)
                continue;
        }
++n;
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tvm-rpc")


@pytest.fixture(scope="module")
def candidates(folder: Path) -> Candidates:
    return Candidates(load_target("host"), folder)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Launched]:
    server = start_server(folder, "shelf")
    yield server
    server.close()


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return []


@pytest.fixture(scope="module")
def board(server: Launched, folder: Path, events: list[Event]) -> Iterator[TvmRpcBoard]:
    door = DirectDoor(LOOPBACK, server.port, "shelf")
    board = TvmRpcBoard("shelf-1", load_target("host"), door, folder, on_event=events.append)
    yield board
    board.close()


@pytest.mark.parametrize(("dtype", "fill"), [("float32", 0xFF), ("int8", 0x5A), ("uint8", 0x5A)])
def test_who_writes_into_the_gaps_of_an_output_is_wrong(
    board: TvmRpcBoard, candidates: Candidates, folder: Path, dtype: str, fill: int
) -> None:
    expected = np.load(candidates.arrays[2])
    expected.view(np.uint8).reshape(-1, 8)[:, 4:] = fill
    np.save(folder / "gaps.npy", expected.view(dtype))
    arrays, roles = (*candidates.arrays[:2], str(folder / "gaps.npy")), ("input", "constant", "part")
    result = run(
        board, dataclasses.replace(candidates.request(GOOD.replace("++i", "i += 2")), arrays=arrays, roles=roles)
    )
    assert result.status == "ok", result.reason
    result = run(board, dataclasses.replace(candidates.request(), arrays=arrays, roles=roles))
    assert (result.status, "output 2 differs" in result.reason) == ("wrong_result", True), result.reason


def test_a_good_candidate_is_timed(board: TvmRpcBoard, candidates: Candidates) -> None:
    result = run(board, candidates.request())
    assert result.status == "ok", result.reason
    assert len(result.samples_ns) >= 3
    assert all(value > 10 for value in result.samples_ns)
    assert result.error_relative < 1e-6
    assert set(result.seconds) == {"load", "check", "time"}


def test_scratch_is_given(board: TvmRpcBoard, candidates: Candidates) -> None:
    result = run(board, candidates.request("memset(scratch, 1, 48); " + GOOD, scratch=48))
    assert result.status == "ok", result.reason


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ("for (int i = 0; i < 999; ++i) out[i] = 2.0f * a[i] + w[i];", "wrong_result", "output 2 differs"),
        (GOOD + " out[7] += 1;", "wrong_result", "output 2 differs from the reference by 1 "),
        (GOOD + " out[1000] = 1;", "wrong_result", "writes to parameter 2 after its end"),
        (GOOD + " out[-1] = 1;", "wrong_result", "writes to parameter 2 before its start"),
        (GOOD + " ((float *)a)[0] = 1;", "crashed", "SIGSEGV in phase 'check'"),
        ("abort();", "crashed", "SIGABRT in phase 'check'"),
        (GOOD + " exit(0);", "crashed", "exit code 0"),
        (GOOD + " static int n; if (n++ > 3) abort();", "crashed", "SIGABRT in phase 'time'"),
        ("for (;;) { char *p = malloc(1 << 20); memset(p, 1, 1 << 20); }", "crashed", "SIGSEGV"),
        ("for (;;);", "timeout", "phase 'check'"),
        (GOOD + " static int n; if (n++ > 3) for (;;) pause();", "timeout", "phase 'time'"),
        (GOOD + " if (fork() == 0) for (;;);", "crashed", "started a process"),
        (GOOD + FORK_AWAY, "crashed", "started a process"),
        (ONCE + GOOD, "wrong_result", "in call 2: output 2 differs"),
    ],
)
def test_a_bad_candidate_is_recorded_and_the_next_one_is_fine(
    board: TvmRpcBoard, candidates: Candidates, body: str, status: str, reason: str
) -> None:
    deadline_s = HANGS_S if status == "timeout" else ENDS_S
    result = run(board, candidates.request(body, deadline_s=deadline_s))
    assert result.status == status, result.reason
    assert reason in result.reason
    assert not result.samples_ns
    assert run(board, candidates.request()).status == "ok"


def test_a_library_that_does_not_load_is_a_build_that_failed(board: TvmRpcBoard, candidates: Candidates) -> None:
    request = candidates.request()
    Path(request.library).write_bytes(b"\x7fELF rubbish")
    result = run(board, request)
    assert result.status == "build_failed"
    assert run(board, candidates.request()).status == "ok"


def test_rubbish_on_every_descriptor_does_no_harm(board: TvmRpcBoard, candidates: Candidates) -> None:
    shout = 'for (int d = 0; d < 64; ++d) if (write(d, "0123456789abcdef0123456789", 16)) {} '
    assert run(board, candidates.request(shout + GOOD)).status == "ok"


def test_orphans_of_a_candidate_are_ended(server: Launched, board: TvmRpcBoard, candidates: Candidates) -> None:
    run(board, candidates.request())
    before = descendants(server.pid)
    run(board, candidates.request(GOOD + FORK_AWAY))
    assert descendants(server.pid) == before


def test_no_candidate_is_left_on_the_board(server: Launched, board: TvmRpcBoard, candidates: Candidates) -> None:
    run(board, candidates.request())
    root = next(one for one in Path(f"/proc/{server.pid}/environ").read_bytes().split(b"\0") if b"TMPDIR=" in one)
    files = [path.name for path in Path(root.decode().removeprefix("TMPDIR=")).rglob("*") if path.is_file()]
    assert files == ["edgetune_shim.so"]


def test_the_board_tells_what_it_is(board: TvmRpcBoard) -> None:
    board.reserve()
    assert board.facts["machine"] == os.uname().machine
    assert board.facts["kernel"] == os.uname().release
    assert str(board.facts["libc"]).startswith("glibc 2.")
    assert board.facts["emulated"] == 0
    assert board.facts["clock"] == "time"
    assert isinstance(board.health()["load_1min"], float)


def test_nothing_listens_off_the_loopback(server: Launched, board: TvmRpcBoard) -> None:
    board.reserve()
    assert listening_addresses(descendants(server.pid)) == {"0100007F"}
    assert listening_addresses(descendants(os.getpid()) - descendants(server.pid)) <= {"0100007F"}


@pytest.mark.long
def test_a_candidate_that_kills_the_session_costs_the_board_not_the_run(
    board: TvmRpcBoard, candidates: Candidates, events: list[Event]
) -> None:
    board.reserve()
    board.begin(candidates.request(GOOD + " kill(getppid(), SIGKILL);"))
    with pytest.raises(BoardLost, match=r"shelf-1.*in step 'check'"):
        finish(board)
    board.recover()
    assert [one.data["detail"] for one in events if one.data.get("what") == "rung"] == ["a new session"]
    assert run(board, candidates.request()).status == "ok"


def test_a_server_that_hangs_ends_by_the_deadline(
    server: Launched, board: TvmRpcBoard, candidates: Candidates, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.reserve()
    sessions = descendants(server.pid) - {server.pid}
    stopped = {*sessions, server.pid}
    try:
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        with monkeypatch.context() as impatient:
            impatient.setattr(board, "_patience", 0.5)
            board.begin(candidates.request(deadline_s=0.5))
            with pytest.raises(BoardLost, match=r"did not answer within 1 s in step '\w+'"):
                finish(board)
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    board.recover()
    assert run(board, candidates.request()).status == "ok"


def test_a_client_that_is_killed_costs_the_session_only(board: TvmRpcBoard, candidates: Candidates) -> None:
    board.reserve()
    board.begin(candidates.request("for (;;) pause();"))
    board._worker.interrupt()
    with pytest.raises(BoardLost, match="SIGKILL"):
        finish(board)
    board.recover()
    assert run(board, candidates.request()).status == "ok"


@pytest.mark.long
def test_a_server_that_is_gone_is_a_lost_board(folder: Path, candidates: Candidates) -> None:
    server = start_server(folder, "gone")
    board = TvmRpcBoard("shelf-2", load_target("host"), DirectDoor(LOOPBACK, server.port, "gone"), folder)
    try:
        assert run(board, candidates.request()).status == "ok"
        pids = descendants(server.pid)
        board.begin(candidates.request("for (;;) pause();"))
        server.close()
        with pytest.raises(BoardLost, match="shelf-2"):
            finish(board)
        with pytest.raises(BoardLost, match="does not come back"):
            board.recover()
        assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    finally:
        board.close()
        server.close()


@pytest.mark.long
@pytest.mark.parametrize("time", ["-5.0", "0.0", "0.0 / 0.0", "1e300"])
def test_a_board_that_tells_times_that_are_none(tmp_path: Path, time: str) -> None:
    told = "(double)(end - start) / (double)repeat"
    with (
        _altered(tmp_path, told, f"start != end + 1 ? {time} : 1.0") as board,
        pytest.raises(BoardLost, match="altered"),
    ):
        run(board, Candidates(load_target("host"), tmp_path).request())


@contextmanager
def _altered(folder: Path, told: str, lie: str) -> Iterator[TvmRpcBoard]:
    """Make a board whose shim has `lie` in the place of `told`."""
    target, source = load_target("host"), (templates_dir() / SHIM).read_text()
    assert told in source
    altered = folder / "tvm_shim.c"
    altered.write_text(source.replace(told, lie))
    library = folder / f"tvm_shim_{target.name}.so"
    headers = f"-I{(templates_dir() / SHIM).parent}"
    command = [target.compiler.cc, "-D_GNU_SOURCE", "-fPIC", "-shared", headers, "-o", str(library), str(altered)]
    subprocess.run(command, check=True)
    server = start_server(folder, "altered")
    board = TvmRpcBoard("altered", target, DirectDoor(LOOPBACK, server.port, "altered"), folder)
    try:
        yield board
    finally:
        board.close()
        server.close()


def test_more_parameters_than_a_server_is_given(board: TvmRpcBoard, candidates: Candidates) -> None:
    some = candidates.request()
    request = dataclasses.replace(
        some,
        arrays=some.arrays[:1] * 64 + some.arrays[2:],
        roles=("input",) * 64 + ("output",),
        tolerances=(None,) * 65,
    )
    result = run(board, request)
    assert (result.status, result.reason) == (
        "crashed",
        "the kernel has 65 parameters: a server of TVM's RPC takes at most 64",
    )
    assert run(board, some).status == "ok"


def test_files_that_a_board_was_not_asked_for(tmp_path: Path) -> None:
    names = ["/proc/load\0avg", "/proc/loadavg/x", "/../../etc/x", "/proc/../proc/loadavg", "x" * 5000, ""]
    names += ["/sys/class/thermal/thermal_zone/../../temp", "/sys/class/thermal/thermal_zone" + "1" * 500 + "/temp"]
    files = Files({**dict.fromkeys(names, b"7"), "/proc/loadavg": b"0.5 0 0"})
    assert board_module._readings(files, 0) == {"load_1min": 0.5}
    assert not list(tmp_path.iterdir())


def test_every_file_of_a_reading_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sys/class/thermal/thermal_zone10/temp", "sys/class/hwmon/hwmon3/temp1_input"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("40000")
    read: list[str] = []
    whole = Path.read_text

    def note(path: Path, *arguments: str, **more: str) -> str:
        read.append(f"/{path.relative_to(tmp_path)}")
        return whole(path, *arguments, **more)

    monkeypatch.setattr(Path, "read_text", note)
    assert read_environment(12, tmp_path) == {"temperature_c": 40.0}
    assert len(read) > 8
    for name in read:
        assert [pattern for pattern in board_module.READINGS if fnmatch.fnmatchcase(name, pattern)], name
        assert board_module._ASKED.fullmatch(name), name


def test_cases_are_compared_here_with_their_tolerance(board: TvmRpcBoard, candidates: Candidates) -> None:
    request = candidates.request(GOOD + " out[0] = 0.0f / 0.0f;")
    result = run(board, request)
    assert result.status == "wrong_result"
    assert np.isinf(result.error_relative)


def test_arrays_are_on_the_board_before_the_deadline_of_a_candidate_begins(
    board: TvmRpcBoard, candidates: Candidates
) -> None:
    request = candidates.request()
    board.reserve()
    for array in request.arrays:
        assert board.put(Path(array)) == array
    assert board._worker.step == "put"
    assert run(board, request).status == "ok"


class SlowLink:
    """A session over which each transfer takes 13 s, by a clock that only it moves."""

    def __init__(self) -> None:
        self.now, self.left_s = 100.0, 0.0

    def tensors(self, contents: list[np.ndarray], _: object) -> list[np.ndarray]:
        self.now += 13.0 * len(contents)
        return contents

    def upload(self, library: Path) -> str:
        self.now += 13.0
        return library.name

    def open(self, *_: object, timeout_s: float, **__: object) -> tuple[int, str]:
        self.left_s = timeout_s
        return 2, "exit code 1"

    def close_candidate(self) -> None:
        pass

    def remove(self, _: str) -> None:
        pass


def test_a_slow_link_does_not_eat_the_deadline(candidates: Candidates, monkeypatch: pytest.MonkeyPatch) -> None:
    link = SlowLink()
    monkeypatch.setattr("edgetune.boards.tvm_rpc.trial.time.monotonic", lambda: link.now)
    result = trial.try_candidate(link, candidates.request(deadline_s=10.0), (0,), lambda _: None)  # type: ignore[arg-type]
    assert (result.status, link.left_s) == ("crashed", 10.0)


def test_an_array_that_does_not_arrive_costs_the_board_in_the_time_of_its_size(
    server: Launched, board: TvmRpcBoard, candidates: Candidates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.reserve()
    np.save(tmp_path / "new.npy", np.arange(100, dtype=np.float32))
    stopped = descendants(server.pid)
    try:
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        with monkeypatch.context() as impatient:
            impatient.setattr(board_module, "_BRING_S", 0.5)
            with pytest.raises(BoardLost, match="in step 'put'"):
                board.put(tmp_path / "new.npy")
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    board.recover()
    assert run(board, candidates.request()).status == "ok"


def test_what_a_candidate_needs_is_brought_once_and_what_is_old_makes_room() -> None:
    made: list[int] = []
    filled: list[bytes] = []

    def allocate(size: int) -> list[int]:
        made.append(size)
        return made

    there = RemoteArrays(allocate, lambda _, content: filled.append(content.tobytes()), most_bytes=250)
    first, second, third = (np.full(100, value, np.uint8) for value in (1, 2, 3))
    for _ in range(2):
        there.bring(first)
        there.bring(second)
        for _ in range(2):  # a second attempt at the same candidate finds all of it
            there.of_candidate([first, second, second], ["input", "constant", "output"])
    assert (made, filled) == ([100, 100, 100], [bytes([1]) * 100, bytes([2]) * 100])
    there.bring(third)  # the first two are the oldest
    there.bring(first)
    assert made == [100] * 5, "only what was dropped comes again"
    there.of_candidate([third, first], ["input", "output"])
    assert filled[2:] == [bytes([3]) * 100, bytes([1]) * 100]


@pytest.mark.parametrize(
    ("asked", "allowed", "chosen"),
    [((), "0-3", (3,)), ((), "0-0,5-6", (6,)), ((2, 3), "0-3", (2, 3)), ((5,), "0-0,5-5", (5,))],
)
def test_cores_are_those_of_the_address_or_the_last(
    asked: tuple[int, ...], allowed: str, chosen: tuple[int, ...]
) -> None:
    assert worker_module.chosen_cores(asked, allowed) == chosen


@pytest.mark.parametrize("allowed", ["", "3", "0-", "3-1", "0-1;2-3", "0-99999"])
def test_a_server_that_does_not_say_which_cores_it_may_use(allowed: str) -> None:
    with pytest.raises(RemoteError):
        worker_module.chosen_cores((), allowed)


@pytest.fixture
def cores(board: TvmRpcBoard, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Change the cores of the board's address."""

    def ask(*numbers: int) -> None:
        board._lose()
        monkeypatch.setattr(board, "_asked_cores", numbers)

    yield ask
    board._lose()


def test_a_core_that_a_board_lacks_is_refused(board: TvmRpcBoard, cores: Callable[..., None]) -> None:
    cores(1000)
    with pytest.raises(BoardUnfit, match=r"'shelf-1'.* may not use core 1000, only .*`cores` in boards.yaml"):
        board.reserve()


def test_candidates_are_kept_on_all_cores_of_the_address(
    board: TvmRpcBoard, candidates: Candidates, cores: Callable[..., None]
) -> None:
    some = sorted(os.sched_getaffinity(0))[:2]
    cores(*some)
    mask = sum(1 << core for core in some)
    ask = f"unsigned long of[16] = {{0}}; sched_getaffinity(0, sizeof of, of); if (of[0] != {mask}ul) abort();"
    declared = "int sched_getaffinity(int, size_t, void *);"
    assert run(board, candidates.request(f"{ask} {GOOD}", globals_=declared)).status == "ok"
    assert board.facts["cores"] == ",".join(map(str, some))


@pytest.mark.long
def test_a_candidate_that_cannot_be_kept_on_its_cores_is_not_timed(tmp_path: Path) -> None:
    with _altered(
        tmp_path, "CPU_ISSET((size_t)first, &set)", "(first == 1000 || CPU_ISSET((size_t)first, &set))"
    ) as board:
        board._asked_cores = (1000,)
        with pytest.raises(BoardUnfit, match="a candidate cannot be kept on its cores there"):
            run(board, Candidates(load_target("host"), tmp_path).request())


@pytest.mark.long
def test_an_answer_that_the_shim_does_not_have_costs_no_board(board: TvmRpcBoard, candidates: Candidates) -> None:
    result = run(board, candidates.request(GOOD + FORGE))
    assert (result.status, result.reason) == ("crashed", "answers in place of the process that runs it")
    assert run(board, candidates.request()).status == "ok"
