"""Candidates on a real server of TVM's RPC on the loopback: good ones are timed, bad ones are recorded as such."""

from __future__ import annotations

import dataclasses
import fnmatch
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgetune.boards.tvm_rpc import board as board_module
from edgetune.boards.tvm_rpc.board import TvmRpcBoard
from edgetune.boards.tvm_rpc.launched import LOOPBACK, Launched
from edgetune.boards.tvm_rpc.messages import Files
from edgetune.boards.tvm_rpc.shim import SHIM
from edgetune.config.resources import templates_dir
from edgetune.config.target import load_target
from edgetune.errors import BoardLost
from edgetune.events import Event
from edgetune.measure.environment import read_environment
from tests.boards.tvm_rpc_candidates import GOOD, Candidates, descendants, finish, listening_addresses, run
from tests.boards.tvm_rpc_server import DirectDoor, start_server

FORK_AWAY = "if (fork() == 0) { setsid(); for (;;) pause(); }"
ONCE = "static int n; if (n++ < 1)"


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
        (GOOD + " out[1000] = 1;", "wrong_result", "writes to parameter 2 behind its end"),
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
        (ONCE + GOOD, "wrong_result", "after many calls"),
    ],
)
def test_a_bad_candidate_is_recorded_and_the_next_one_is_fine(
    board: TvmRpcBoard, candidates: Candidates, body: str, status: str, reason: str
) -> None:
    result = run(board, candidates.request(body, deadline_s=1.0))
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
    monkeypatch.setattr(board, "_patience", 0.5)
    board.reserve()
    sessions = descendants(server.pid) - {server.pid}
    stopped = {*sessions, server.pid}
    try:
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
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


@pytest.mark.parametrize("time", ["-5.0", "0.0", "0.0 / 0.0", "1e300"])
def test_a_board_that_tells_times_that_are_none(tmp_path: Path, time: str) -> None:
    target, candidates = load_target("host"), Candidates(load_target("host"), tmp_path)
    source = (templates_dir() / SHIM).read_text()
    told = "(double)(end - start) / (double)repeat"
    assert told in source
    lying = tmp_path / "lying"
    (lying / "agent").mkdir(parents=True)
    (lying / SHIM).write_text(source.replace(told, f"start != end + 1 ? {time} : 1.0"))
    library = tmp_path / f"tvm_shim_{target.name}.so"
    subprocess.run([target.compiler.cc, "-D_GNU_SOURCE", "-fPIC", "-shared", "-o", library, lying / SHIM], check=True)
    server = start_server(tmp_path, "liar")
    board = TvmRpcBoard("liar", target, DirectDoor(LOOPBACK, server.port, "liar"), tmp_path)
    try:
        with pytest.raises(BoardLost, match="liar"):
            run(board, candidates.request())
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
        "the kernel has 65 parameters, a server of TVM's RPC is given 64 at most",
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
    assert np.isinf(result.error_absolute)
