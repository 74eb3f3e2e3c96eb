"""Packages and searches on one board take turns: the second waits, and says who has the board."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import PIPE

import pytest

from edgetune import api
from edgetune.boards.cores import split_cores
from edgetune.boards.host_resources import HostResources
from edgetune.boards.lock import TimingLock
from edgetune.boards.tvm_rpc.launched import LAUNCH, LOOPBACK
from edgetune.cli.main import run
from edgetune.errors import BoardBusy
from edgetune.events import Event
from edgetune.pipeline.boards import accesses, load_board
from edgetune.pipeline.on_board import at_board
from edgetune.verify import work_copy
from edgetune.verify.place import OnBoard
from edgetune.verify.work_copy import ProgramResult
from tests import package_sample as sample
from tests.boards.agent_bench import command_of
from tests.boards.ssh_bench import Bench
from tests.boards.ssh_server import SshBoard
from tests.boards.test_packages_on_boards import shelve

WAIT_S = 0.3
GONE_S = 10.0


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("in_turns") / "package"
    sample.emit(folder, target=sample.arm("generic-aarch64"), weights="external", measure=False)
    return folder


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("here") / "package"
    sample.emit(folder, measure=False)
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@contextmanager
def searching(name: str, folder: Path, lock_timeout_s: float = 60.0) -> Iterator[None]:
    """Have all boards of that name as a search has them."""
    host = HostResources(folder, split_cores(), lock_timeout_s=lock_timeout_s)
    boards = [access.board(host) for access in accesses(load_board(name))]
    with ExitStack() as ends:
        for board in boards:
            ends.callback(board.close)
        for board in boards:
            board.reserve()
        yield


Ask = Callable[[Path, str], object]
ASKED: dict[str, Ask] = {"bench": api.bench, "verify": api.verify}


@pytest.mark.long
@pytest.mark.parametrize("verb", list(ASKED))
def test_a_package_finds_its_board_taken_by_a_search(
    bench: Bench, emitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    board = bench.board()
    shelve(bench, attic=board)
    monkeypatch.setattr("edgetune.pipeline.on_board.LOCK_TIMEOUT_S", WAIT_S)
    with searching("attic", tmp_path):
        with pytest.raises(BoardBusy, match=r"'attic' belongs to .* process \d+"):
            ASKED[verb](emitted, "attic")
        assert run([verb, str(emitted), "--board", "attic", "-q"]) == 26
        assert not any("_bench" in command or "_selftest" in command for command in board.commands)
    assert (board.files(), board.left()) == ([], [])


@pytest.mark.long
@pytest.mark.parametrize("verb", list(ASKED))
def test_a_package_finds_its_board_taken_by_a_server_of_tvm(
    bench: Bench, emitted: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    board = bench.board()
    shelve(bench, attic=board)
    monkeypatch.setattr("edgetune.pipeline.on_board.LOCK_TIMEOUT_S", WAIT_S)
    environment = {**os.environ, "EDGETUNE_OWNER": "tvm@shelf-7", "EDGETUNE_LOCK": f"edgetune-{board.mark}"}
    command = [sys.executable, str(LAUNCH), "server", LOOPBACK, "0", "key"]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.readline().startswith(b"port ")
        with pytest.raises(BoardBusy, match="'attic' belongs to tvm@shelf-7"):
            ASKED[verb](emitted, "attic")
        server.stdin.close()


@pytest.mark.long
def test_a_package_waits_for_the_end_of_a_search(bench: Bench, emitted: Path, tmp_path: Path) -> None:
    board = bench.board()
    shelve(bench, attic=board)
    programs: list[str] = []
    events: list[Event] = []
    with ExitStack() as search:
        search.enter_context(searching("attic", tmp_path))

        def end() -> None:
            while not any(event.data.get("what") == "locked" for event in events):
                time.sleep(0.02)
            programs.extend(command for command in board.commands if "_selftest" in command)
            search.close()

        ending = threading.Thread(target=end)
        ending.start()
        report = api.verify(emitted, "attic", events=events.append)
        ending.join()
    assert report.ran_on.startswith("board attic")
    assert programs == []
    (told,) = [str(event.data["detail"]) for event in events if event.data.get("what") == "locked"]
    assert told.startswith("waiting for ")


@pytest.mark.long
def test_a_search_finds_its_board_taken_by_a_package(bench: Bench, tmp_path: Path) -> None:
    board = bench.board()
    shelve(bench, attic=board)

    def use(place: OnBoard, _: Sequence[int]) -> str:
        with pytest.raises(BoardBusy, match="'attic' belongs to"), searching("attic", tmp_path, WAIT_S):
            pass
        return place.where

    assert at_board(accesses(load_board("attic")), bench.events.append, use).startswith("board attic")
    with searching("attic", tmp_path):
        assert board.processes()
    assert (board.files(), board.left()) == ([], [])


@pytest.mark.long
def test_of_several_boards_a_free_one_is_taken(bench: Bench, emitted: Path, tmp_path: Path) -> None:
    boards = [bench.board() for _ in range(3)]
    shelve(bench, a=boards[0], b=boards[1], c=boards[2])
    boards[1].close()
    events: list[Event] = []
    with searching("a", tmp_path):
        report = api.bench(emitted, "generic-aarch64", events.append)
    assert report.ran_on.startswith("board c ")
    assert [event.data["board"] for event in events if event.kind == "board"] == ["b"]
    assert [board.files() for board in boards] == [[], [], []]


@pytest.mark.long
def test_when_all_boards_are_taken_the_first_that_comes_free_serves(
    bench: Bench, emitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boards: list[SshBoard] = [bench.board(), bench.board()]
    shelve(bench, a=boards[0], b=boards[1])
    monkeypatch.setattr("edgetune.pipeline.on_board._RETRY_S", 0.1)
    events: list[Event] = []
    with searching("a", tmp_path), ExitStack() as second:
        second.enter_context(searching("b", tmp_path))

        def tell(event: Event) -> None:
            events.append(event)
            if event.data.get("what") == "locked":
                second.close()

        assert api.verify(emitted, "generic-aarch64", events=tell).ran_on.startswith("board b ")
        monkeypatch.setattr("edgetune.pipeline.on_board.LOCK_TIMEOUT_S", WAIT_S)
        with searching("b", tmp_path), pytest.raises(BoardBusy):
            api.verify(emitted, "generic-aarch64")
    (told,) = [event for event in events if event.data.get("what") == "locked"]
    assert told.data["board"] == "a, b"


@pytest.mark.long
def test_a_board_that_restarts_under_a_package_is_brought_back(bench: Bench) -> None:
    board = bench.board()
    shelve(bench, attic=board)
    calls: list[str] = []

    def use(place: OnBoard, _: Sequence[int]) -> str:
        calls.append(place.where)
        if len(calls) == 1:
            threading.Thread(target=restart, daemon=True).start()
            place.execute(Path("/bin/sleep"), ("60",), 90.0)
        place.timed(Path("/bin/true"), (), 30.0)
        return place.where

    def restart() -> None:
        while not any("-sleep 60" in command for command in board.commands):
            time.sleep(0.02)
        board.reboot(1.0)

    assert at_board(accesses(load_board("attic")), bench.events.append, use) == calls[0]
    assert len(calls) == 2
    rungs = [str(event.data["detail"]) for event in bench.events if event.data["what"] == "rung"]
    assert rungs[0].startswith("the same agent: trying it")
    assert any(": succeeded after " in words for words in rungs)
    assert (board.files(), board.left()) == ([], [])


def test_a_board_that_hangs_under_a_package_is_brought_back(bench: Bench) -> None:
    board = bench.board()
    shelve(bench, attic=board)
    bench.configure("Host *\nServerAliveInterval 1\nServerAliveCountMax 5\n")
    calls: list[str] = []

    def use(place: OnBoard, _: Sequence[int]) -> None:
        calls.append(place.where)
        if len(calls) == 1:
            board.link.freeze()
            place.execute(Path("/bin/true"), (), 600.0)

    def tell(event: Event) -> None:
        bench.events.append(event)
        if event.data["what"] == "rung":
            board.link.thaw()

    at_board(accesses(load_board("attic")), tell, use)
    assert len(calls) == 2
    assert [str(event.data["what"]) for event in bench.events][:2] == ["lost", "rung"]
    assert (board.files(), board.left()) == ([], [])


def test_a_program_whose_link_broke_does_not_run_beside_its_second_try(bench: Bench) -> None:
    board = bench.board()
    shelve(bench, attic=board)
    beside: list[int] = []

    def use(place: OnBoard, _: Sequence[int]) -> None:
        if not beside:
            beside.append(0)
            threading.Thread(target=drop, daemon=True).start()
            place.execute(Path("/bin/sleep"), ("60",), 90.0)
        ends = time.monotonic() + GONE_S
        while sleeping() and time.monotonic() < ends:  # killed, it may take a moment to go
            time.sleep(0.02)
        beside.append(len(sleeping()))

    def sleeping() -> list[int]:
        return [pid for pid in board.processes() if "-sleep 60" in command_of(pid)]

    def drop() -> None:
        while not sleeping():
            time.sleep(0.02)
        board.link.drop()

    at_board(accesses(load_board("attic")), bench.events.append, use)
    assert beside == [0, 0]


@pytest.mark.long
@pytest.mark.parametrize("verb", list(ASKED))
def test_this_machine_is_taken_too(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    monkeypatch.setattr("edgetune.boards.lock.lock_path", lambda: tmp_path / "lock")
    monkeypatch.setattr("edgetune.boards.lock.LOCK_TIMEOUT_S", WAIT_S)
    search = TimingLock(tmp_path / "lock")
    search.acquire()
    assert run([verb, str(here), "--board", "host", "-q"]) == 26
    assert "has been timing on this machine" in capsys.readouterr().err
    search.release()
    assert run([verb, str(here), "--board", "host", "-q"]) == 0
    search.acquire()  # it was given back
    search.close()


def test_a_search_waits_while_a_package_is_timed_here(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgetune.boards.lock.lock_path", lambda: tmp_path / "lock")
    running, seen = threading.Event(), threading.Event()

    def run_until_seen(command: Sequence[str], folder: Path, timeout_s: float) -> ProgramResult:
        running.set()
        assert seen.wait(60.0)
        return work_copy.run(command, folder, timeout_s)

    monkeypatch.setattr("edgetune.verify.place.run", run_until_seen)
    timing = threading.Thread(target=api.bench, args=(here, None))
    timing.start()
    search = TimingLock(tmp_path / "lock", timeout_s=0.0)
    try:
        assert running.wait(60.0)
        with pytest.raises(BoardBusy, match="has been timing on this machine"):
            search.acquire()
    finally:
        seen.set()
        timing.join()
    search.acquire()
    search.close()


@pytest.mark.long
def test_a_benchmark_says_how_sure_it_is(
    bench: Bench, emitted: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shelve(bench, attic=bench.board())
    for package, board in ((emitted, "attic"), (here, "host")):
        assert run(["bench", str(package), "--board", board, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert len(told["samples_us"]) == told["runs"] > 2
        low, high = told["interval_us"]
        assert min(told["samples_us"]) <= low <= told["median_us"] <= high <= max(told["samples_us"])
        assert 0.5 < told["coverage"] <= 1
        assert 0 <= told["outliers"] < told["runs"] / 2
        assert told["trust"] in {"B", "C", "D"}  # no canary runs beside a package
        assert told["trust_reason"]
        assert run(["bench", str(package), "--board", board]) == 0
        table = capsys.readouterr().out
        assert "trust reason" in table
        assert "which" in table.split("samples", 1)[1].split("\n")[0]
        assert "samples us" not in table
