"""TVM's RPC over SSH: a server brought through the link, and a farm whose tracker only the ssh host sees."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgetune.boards.ssh.reach import SshReach
from edgetune.boards.tvm_rpc import deploy
from edgetune.boards.tvm_rpc.deployed_lease import DeployedLender
from edgetune.boards.tvm_rpc.launched import LOOPBACK
from edgetune.boards.tvm_rpc.opening import open_tvm_board
from edgetune.boards.tvm_rpc.server_tree import ServerTree, server_tree
from edgetune.boards.tvm_rpc.tracker import LocalTracker
from edgetune.config.boards_file import BoardAddress
from edgetune.errors import BoardBusy, BoardLost, BoardUnfit
from edgetune.target.target import load_target
from tests.boards.ssh_bench import Bench
from tests.boards.ssh_server import SshBoard
from tests.boards.tvm_rpc_candidates import GOOD, Candidates, descendants, finish, listening_addresses, run
from tests.boards.tvm_rpc_server import start_server


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache in which the files of the server are made once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _cached(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))


@pytest.fixture
def shelf(bench: Bench) -> Iterator[SshBoard]:
    """A board like this machine, which executes natively."""
    board = SshBoard(bench.home / "native", user_key=bench.key)
    bench.know(board.known_hosts_line)
    yield board
    board.close()
    assert board.left() == []


@pytest.fixture
def candidates(tmp_path: Path) -> Candidates:
    return Candidates(load_target("host"), tmp_path)


def way(bench: Bench, board: SshBoard, **more: object) -> tuple[BoardAddress, SshReach]:
    address = bench.address(board, rpc="tvm", **more)
    reach = SshReach(address, load_target("host"), on_event=bench.events.append, folders=board.folders)
    bench.reaches.append(reach)
    return address, reach


@pytest.mark.long
def test_a_server_is_brought_over_ssh_used_and_removed(
    bench: Bench, shelf: SshBoard, candidates: Candidates, tmp_path: Path
) -> None:
    address, reach = way(bench, shelf)
    board = open_tvm_board(address, load_target("host"), tmp_path, reach, bench.events.append)
    try:
        assert run(board, candidates.request()).status == "ok"
        assert run(board, candidates.request(GOOD + " out[9] = 1e9f;")).status == "wrong_result"
        assert run(board, candidates.request("for (;;);", deadline_s=1.0)).status == "timeout"
        assert shelf.processes()
        everything = {one for pid in {*shelf.processes(), os.getpid()} for one in descendants(pid)}
        assert listening_addresses(everything) == {"0100007F"}
        board.begin(candidates.request("for (;;) pause();"))
        shelf.link.drop()
        with pytest.raises(BoardLost):
            finish(board)
        board.recover()
        assert run(board, candidates.request()).status == "ok"
    finally:
        board.close()
    assert shelf.left() == []
    assert shelf.files() == []


@pytest.mark.long
def test_a_farm_is_leased_through_the_ssh_host(
    bench: Bench, shelf: SshBoard, candidates: Candidates, tmp_path: Path
) -> None:
    tracker = LocalTracker(tmp_path, 0)
    server = start_server(tmp_path, "rack", tracker.ensure())
    address, reach = way(bench, shelf, tracker=f"localhost:{tracker.address[1]}", key="rack")
    board = open_tvm_board(address, load_target("host"), tmp_path, reach, bench.events.append)
    try:
        assert run(board, candidates.request()).status == "ok"
        assert board.facts["server"] == f"{LOOPBACK}:{server.port}"
        assert shelf.files() == []
    finally:
        board.close()
        server.close()
        tracker.close()


def test_a_board_without_python_is_told_what_to_do(bench: Bench, shelf: SshBoard, tmp_path: Path) -> None:
    shelf.answers["python3"] = "missing"
    address, reach = way(bench, shelf)
    board = open_tvm_board(address, load_target("host"), tmp_path, reach, bench.events.append)
    try:
        with pytest.raises(BoardUnfit, match=r"has no complete python3.*apt-get install python3.*--rpc agent"):
            board.reserve()
    finally:
        board.close()


@pytest.mark.long
def test_closing_ends_the_wait_for_a_server_that_restarts_its_board(
    bench: Bench, shelf: SshBoard, candidates: Candidates, tmp_path: Path
) -> None:
    address, reach = way(bench, shelf, reboot="true")
    board = open_tvm_board(address, load_target("host"), tmp_path, reach, bench.events.append)
    try:
        assert run(board, candidates.request()).status == "ok"
        door = board._door
        assert isinstance(door, DeployedLender)
        door._rungs, door._repaired = 2, time.monotonic()
        waiting = threading.Thread(target=lambda: said.append(_failure(lambda: door.repair(100.0))))
        said: list[str] = []
        waiting.start()
        time.sleep(1.0)
    finally:
        began = time.monotonic()
        board.close()
    waiting.join(30.0)
    assert said == ["board 'shelf-1' was closed"]
    assert time.monotonic() - began < 40.0
    assert shelf.left() == []
    assert shelf.files() == []


@pytest.mark.long
def test_closing_while_the_server_is_made_leaves_nothing_there(
    bench: Bench, shelf: SshBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, go = threading.Event(), threading.Event()
    tree = server_tree(os.uname().machine, sys.version_info[:2])

    def slow_tree(*_: object) -> ServerTree:
        made.set()
        assert go.wait(60.0)
        return tree

    monkeypatch.setattr("edgetune.boards.tvm_rpc.bring.server_tree", slow_tree)
    address, reach = way(bench, shelf)
    board = open_tvm_board(address, load_target("host"), tmp_path, reach, bench.events.append)
    said: list[str] = []
    waiting = threading.Thread(target=lambda: said.append(_failure(board.reserve)))
    waiting.start()
    assert made.wait(60.0)
    board._door.close()  # all of `close` that does not wait for the other thread
    go.set()
    board.close()
    waiting.join(60.0)
    assert said == ["board 'shelf-1' was closed"]
    assert shelf.left() == []
    assert shelf.files() == []


@pytest.mark.long
def test_the_server_of_a_session_that_died_is_ended_and_removed(
    bench: Bench, shelf: SshBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, reach = way(bench, shelf)
    server = deploy.DeployedServer(reach, load_target("host"), tmp_path)
    with monkeypatch.context() as friend:
        friend.setattr(deploy, "owner_name", lambda: "friend@desk-1")
        server.start("secret")
    old = set(shelf.processes())
    _, other = way(bench, shelf)
    successor = deploy.DeployedServer(other, load_target("host"), tmp_path)
    with pytest.raises(BoardBusy, match="'shelf-1' belongs to friend@desk-1"):
        successor.start("secret")
    reach._staging.end()  # its process is gone, though its link still stands
    successor.start("secret")
    try:
        deadline = time.monotonic() + 20.0
        while (still := old & set(shelf.processes())) and time.monotonic() < deadline:
            time.sleep(0.02)  # killed, they may take a moment to go
        assert not still
        assert any("files of a session that died were removed" in line for line in bench.told())
    finally:
        server.stop()
        successor.stop()
        other.close()
        reach.close()
    assert shelf.files() == []


def test_a_board_of_another_architecture_is_brought_nothing(bench: Bench, tmp_path: Path) -> None:
    foreign = bench.board()
    address, reach = way(bench, foreign)
    board = open_tvm_board(address, load_target("host"), tmp_path, reach, bench.events.append)
    try:
        with pytest.raises(BoardUnfit, match=r"'shelf-1' .*aarch64"):
            board.reserve()
    finally:
        board.close()
    assert foreign.files() == []


def _failure(step: Callable[[], object]) -> str:
    with pytest.raises(BoardLost) as lost:
        step()
    return lost.value.message
