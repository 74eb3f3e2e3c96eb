"""Leases of a real TVM tracker on the loopback: by key and priority, told by name, through restarts of the tracker."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgetune.boards.holder import Holder
from edgetune.boards.process import ProcessReach, ProcessStream
from edgetune.boards.reach import CommandResult
from edgetune.boards.tvm_rpc.board import TvmRpcBoard
from edgetune.boards.tvm_rpc.deploy import DeployedServer
from edgetune.boards.tvm_rpc.deployed_lease import DeployedLender
from edgetune.boards.tvm_rpc.launched import LOOPBACK, Launched
from edgetune.boards.tvm_rpc.lease import TrackerLender
from edgetune.boards.tvm_rpc.opening import open_tvm_board
from edgetune.boards.tvm_rpc.server_tree import ServerTree, server_tree
from edgetune.boards.tvm_rpc.tracker import LocalTracker
from edgetune.boards.tvm_rpc.tracker_client import Lease, TrackerClient, owner_name
from edgetune.config.boards_file import BoardAddress
from edgetune.config.host import RUN, RUN_ENDS
from edgetune.errors import BoardBusy, BoardLost, BoardUnfit, HostUnknown, ProtocolViolation
from edgetune.events import Event
from edgetune.target.target import load_target
from tests.boards.tvm_rpc_candidates import GOOD, Candidates, descendants, finish, listening_addresses, run
from tests.boards.tvm_rpc_server import start_server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tvm-tracker")


@pytest.fixture(scope="module")
def candidates(folder: Path) -> Candidates:
    return Candidates(load_target("host"), folder)


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return []


@pytest.fixture(scope="module")
def tracker(folder: Path, events: list[Event]) -> Iterator[LocalTracker]:
    tracker = LocalTracker(folder, 0, events.append)
    tracker.ensure()
    yield tracker
    tracker.close()


@pytest.fixture(scope="module")
def server(folder: Path, tracker: LocalTracker) -> Iterator[Launched]:
    """A farm's server: the stock one, registered by itself."""
    server = start_server(folder, "shelf", tracker.address)
    yield server
    server.close()


def farm_board(name: str, tracker: LocalTracker, folder: Path, lock_timeout_s: float = 60.0) -> TvmRpcBoard:
    door = TrackerLender(*tracker.address, "shelf")
    return TvmRpcBoard(name, load_target("host"), door, folder, lock_timeout_s=lock_timeout_s)


@pytest.mark.long
def test_a_farm_lends_a_server_to_one_client_at_a_time(
    tracker: LocalTracker, server: Launched, folder: Path, candidates: Candidates
) -> None:
    first, second = (farm_board(name, tracker, folder, seconds) for name, seconds in (("one", 60.0), ("two", 1.0)))
    try:
        assert run(first, candidates.request()).status == "ok"
        assert first.facts["server"] == f"{LOOPBACK}:{server.port}"
        with pytest.raises(
            BoardBusy, match=rf"key 'shelf'.*within 1 s: leased by {owner_name()} since (\S+ )?\d\d:\d\d; "
        ):
            second.reserve()
        first.close()
        second._lock_timeout_s = 60.0
        assert run(second, candidates.request()).status == "ok"
        assert run(second, candidates.request(GOOD + " out[3] = 0;")).status == "wrong_result"
    finally:
        first.close()
        second.close()


def test_a_tune_like_round_holds_its_lease(
    tracker: LocalTracker, server: Launched, folder: Path, candidates: Candidates
) -> None:
    assert server.alive
    board = farm_board("round", tracker, folder)
    try:
        results = [run(board, candidates.request(body)) for body in (GOOD, "abort();", GOOD, "out[0] = 1;", GOOD)]
        assert [one.status for one in results] == ["ok", "crashed", "ok", "wrong_result", "ok"]
    finally:
        board.close()


def test_the_highest_priority_is_served_first(tracker: LocalTracker, server: Launched) -> None:
    assert server.alive
    held = TrackerClient(*tracker.address)
    lease = held.lease("shelf", 1, 30.0)
    order: list[int] = []

    def wait(priority: int) -> None:
        client = TrackerClient(*tracker.address)
        client.lease("shelf", priority, 60.0)
        order.append(priority)
        client.close()  # never used: the server takes its key back after a while

    threads = [threading.Thread(target=wait, args=(priority,)) for priority in (1, 5)]
    for thread in threads:
        thread.start()
        deadline = time.monotonic() + 60.0
        while held.waiting("shelf") < len([one for one in threads if one.is_alive()]) and time.monotonic() < deadline:
            time.sleep(0.02)
    assert held.waiting("shelf") == 2
    with socket.create_connection((lease.host, lease.port)):
        pass  # it is not used: the server offers itself again
    for thread in threads:
        thread.join(60.0)
    assert order == [5, 1]
    held.close()


def test_a_key_that_nobody_registered_is_told(tracker: LocalTracker) -> None:
    client = TrackerClient(*tracker.address)
    with pytest.raises(BoardBusy, match="no server with that key is registered"):
        client.lease("nothing", 1, 0.3)


def test_no_tracker_and_no_tracker_at_all() -> None:
    with socket.create_server((LOOPBACK, 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(BoardLost, match="greeting"):
            TrackerClient(LOOPBACK, port, timeout_s=0.3)
    with pytest.raises(HostUnknown, match=f"{LOOPBACK}:{port} does not answer"):
        TrackerClient(LOOPBACK, port, timeout_s=0.3)


@pytest.mark.parametrize(
    "answer",
    [b"\0\0\0\0", b"\x71\xf2\x02\0\xff\xff\xff\x7f", b"\x71\xf2\x02\0\x02\0\0\0{]", b"\x71\xf2\x02\0\x02\0\0\0{}"],
)
def test_a_tracker_that_talks_rubbish_does_no_harm(answer: bytes) -> None:
    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(answer)
            while connection.recv(4096):
                pass

    with socket.create_server((LOOPBACK, 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        with pytest.raises(ProtocolViolation):
            ask(listener.getsockname()[1])
        thread.join(10.0)


def ask(port: int) -> Lease:
    client = TrackerClient(LOOPBACK, port)
    try:
        return client.lease("shelf", 1, 5.0)
    finally:
        client.close()


@pytest.fixture(scope="module")
def deployed(
    folder: Path, events: list[Event], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[TvmRpcBoard, LocalTracker, ProcessReach]]:
    """A board that we bring the server to, and a tracker that is ours: a process of this machine stands in."""
    target, here = load_target("host"), tmp_path_factory.mktemp("deployed")
    reach = ProcessReach("desk", target)
    tracker = LocalTracker(here, 0, events.append)
    server = DeployedServer(reach, target, here, events.append, folder / "cache")
    door = DeployedLender(reach, server, tracker=tracker, on_event=events.append)
    board = TvmRpcBoard("desk", target, door, here, on_event=events.append)
    yield board, tracker, reach
    board.close()


@pytest.mark.long
def test_a_server_is_brought_joined_and_used(
    deployed: tuple[TvmRpcBoard, LocalTracker, ProcessReach], candidates: Candidates, events: list[Event]
) -> None:
    board, tracker, _ = deployed
    results = [run(board, candidates.request(body)).status for body in (GOOD, "abort();", "out[0] = 1;", GOOD)]
    assert results == ["ok", "crashed", "wrong_result", "ok"]
    assert any("copied TVM's RPC server" in str(one.data.get("detail")) for one in events)
    other = farm_client(tracker, "desk")
    with pytest.raises(BoardBusy, match=f"leased by {owner_name()}"):
        other.lease(0.5)
    assert listening_addresses(descendants(os.getpid())) == {"0100007F"}


@pytest.mark.long
def test_what_a_server_wants_to_hear_is_nowhere_to_be_read(
    deployed: tuple[TvmRpcBoard, LocalTracker, ProcessReach], candidates: Candidates
) -> None:
    board, _, _ = deployed
    assert run(board, candidates.request()).status == "ok"
    door = board._door
    assert isinstance(door, DeployedLender)
    commands = {command_of(pid) for pid in descendants(os.getpid())}
    assert [one for one in commands if b"launch.py" in one]
    assert not [one for one in commands if door._secret.encode() in one]


def farm_client(tracker: LocalTracker, key: str) -> TrackerLender:
    return TrackerLender(*tracker.address, key)


@pytest.mark.long
def test_a_tracker_that_is_killed_is_started_again(
    deployed: tuple[TvmRpcBoard, LocalTracker, ProcessReach], candidates: Candidates, events: list[Event]
) -> None:
    board, tracker, _ = deployed
    board.reserve()
    place = tracker.address
    assert tracker.pid is not None
    os.kill(tracker.pid, signal.SIGKILL)
    assert run(board, candidates.request()).status == "ok", "a session goes on without the tracker"
    board._end_session()
    assert run(board, candidates.request()).status == "ok"
    assert tracker.address == place
    details = [str(one.data["detail"]) for one in events if one.kind == "board"]
    assert any("had ended and is started again" in one for one in details)


@pytest.mark.long
def test_a_server_that_is_killed_is_a_lost_board_that_comes_back(
    deployed: tuple[TvmRpcBoard, LocalTracker, ProcessReach], candidates: Candidates, events: list[Event]
) -> None:
    board, _, reach = deployed
    board.reserve()
    board.begin(candidates.request("for (;;) pause();"))
    for transport in reach._streams:
        if transport._process.poll() is None:
            os.killpg(transport.pid, signal.SIGKILL)
    with pytest.raises(BoardLost, match="desk"):
        finish(board)
    board.recover()
    assert run(board, candidates.request()).status == "ok"
    assert [one.data["detail"] for one in events if one.data.get("what") == "rung"][-1] in {
        "a new session",
        "a new server",
    }


def test_somebody_else_on_the_board_is_told_by_name(
    deployed: tuple[TvmRpcBoard, LocalTracker, ProcessReach],
    candidates: Candidates,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    board, _, reach = deployed
    assert run(board, candidates.request()).status == "ok"
    events: list[Event] = []
    server = DeployedServer(reach, load_target("host"), tmp_path, cache=Path(str(board._shim)).parents[1] / "none")
    server._place = str(next(reach._place().glob("tvm-*")))
    with pytest.raises(BoardLost, match="'desk' still has a server of this run"):
        server.start("other")
    monkeypatch.setattr("edgetune.boards.tvm_rpc.deploy.owner_name", lambda: "friend@desk-1")
    door = DeployedLender(reach, server, on_event=events.append)
    belongs = rf"'desk' belongs to {owner_name()} since (\S+ )?\d\d:\d\d"
    with pytest.raises(BoardBusy, match=rf"{belongs}: .* expires after \d+ s"):
        door.lease(0.0)
    assert [event.data["what"] for event in events] == []
    server.stop()


@pytest.mark.long
def test_who_finds_a_server_of_a_night_reads_its_cell_its_end_and_how_to_drain_the_board(
    folder: Path, tracker: LocalTracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RUN, "2026-11-24 m@desk")
    monkeypatch.setenv(RUN_ENDS, "2026-11-24T23:40Z")
    since = rf"{owner_name()} since (\S+ )?\d\d:\d\d"
    cell = "for cell m@desk of night 2026-11-24, which probably ends at 2026-11-2"
    drain = "; `edgetune nightly drain desk` takes the board out of the night$"
    with contextlib.closing(TrackerClient(*tracker.address)) as client:
        client.announce("desk-9", Lease(LOOPBACK, 1, "desk-9"))
        said = [one for one in client.summary()["server_info"] if one["key"] == "server:desk-9-leased"]
        assert re.search(cell, Holder.read(said[0]["addr"][0]).words)
        monkeypatch.setattr(TrackerClient, "summary", lambda _: {"server_info": [*said, {"key": "server:desk-9"}]})
        assert re.search(
            rf"leased by {since}, {cell}.*; wait, or raise the priority{drain}", client._why_busy("desk-9", 1)
        )
    reach = ProcessReach("bench", load_target("host"))
    servers = [DeployedServer(reach, load_target("host"), tmp_path, cache=folder / "cache") for _ in range(2)]
    try:
        servers[0].start("secret")
        monkeypatch.setattr("edgetune.boards.tvm_rpc.deploy.owner_name", lambda: "friend@desk-1")
        with pytest.raises(BoardBusy, match=rf"'bench' belongs to {since}, {cell}.*, or use another board{drain}"):
            servers[1].start("secret")
    finally:
        for server in servers:
            server.stop()
        reach.close()


@pytest.mark.long
def test_a_server_that_could_not_be_ended_is_ended_by_a_new_connection(
    deployed: tuple[TvmRpcBoard, LocalTracker, ProcessReach],
    candidates: Candidates,
    events: list[Event],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("edgetune.boards.tvm_rpc.board._PAUSES_S", (0.0,))
    board, _, reach = deployed
    board.reserve()
    door = board._door
    assert isinstance(door, DeployedLender)
    old = door._server._stream
    door._rungs, door._server._stream = 0, None  # as after a link that broke in silence
    events.clear()
    board.recover()
    rungs = [one.data["detail"] for one in events if one.data.get("what") == "rung"]
    assert rungs[:3] == ["a new session", "a new server", "a new connection"]
    assert isinstance(old, ProcessStream)
    assert old not in reach._streams
    assert not Path(f"/proc/{old.pid}").exists()
    assert run(board, candidates.request()).status == "ok"


class Taken(DeployedServer):
    """A server on a board that somebody else has for `times` attempts."""

    def __init__(self, reach: ProcessReach, folder: Path, times: int) -> None:
        super().__init__(reach, load_target("host"), folder)
        self.times, self.attempts = times, 0

    @property
    def running(self) -> bool:
        return self.attempts > self.times

    def start(self, key: str) -> None:
        del key
        self.attempts += 1
        if not self.running:
            raise BoardBusy("board 'desk' belongs to friend@desk-1")


def test_a_board_that_somebody_else_has_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgetune.boards.tvm_rpc.deployed_lease._RETRY_S", 0.0)
    events: list[Event] = []
    reach = ProcessReach("desk", load_target("host"))
    restarts: list[str] = []
    monkeypatch.setattr(reach, "reboot", lambda _: restarts.append("reboot"))
    monkeypatch.setattr(reach, "power_cycle", lambda _: restarts.append("power"))
    patient = DeployedLender(reach, Taken(reach, tmp_path, 3), on_event=events.append)
    patient.lease(60.0)
    assert [(event.data["what"], event.data["detail"]) for event in events] == [
        ("locked", "board 'desk' belongs to friend@desk-1")
    ]
    hasty = DeployedLender(reach, Taken(reach, tmp_path, 9))
    with pytest.raises(BoardBusy, match="friend"):
        hasty.lease(0.0)
    assert [hasty.repair(1.0) for _ in range(4)] == ["a new server", "a new connection", "", ""]
    assert not restarts, "nobody's board is restarted while somebody else measures on it"
    patient.close()
    hasty.close()


@pytest.mark.long
@pytest.mark.parametrize("tracker", ["farm", "local"])
def test_the_priority_of_an_address_is_that_of_its_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tracker: str
) -> None:
    asked: list[int] = []

    def lease(client: TrackerClient, key: str, priority: int, timeout_s: float) -> Lease:
        del client, key, timeout_s
        asked.append(priority)
        raise BoardBusy("no")

    monkeypatch.setattr(TrackerClient, "lease", lease)
    monkeypatch.setattr(DeployedServer, "start", lambda *_: None)
    monkeypatch.setattr(DeployedServer, "running", property(lambda _: True))
    own = LocalTracker(tmp_path, 0)
    monkeypatch.setattr("edgetune.boards.tvm_rpc.opening.LocalTracker", lambda *_, **__: own)
    host, port = own.ensure()
    words = {"name": "desk", "target": "host", "ssh": "nowhere", "rpc": "tvm", "priority": 7}
    place = "local" if tracker == "local" else f"{host}:{port}"
    address = BoardAddress.model_validate({**words, "tracker": place})
    board = open_tvm_board(address, load_target("host"), tmp_path, ProcessReach("desk", load_target("host")))
    try:
        with pytest.raises(BoardBusy):
            board.reserve()
    finally:
        board.close()
        own.close()
    assert asked == [7]


@pytest.mark.long
def test_nothing_remains(
    deployed: tuple[TvmRpcBoard, LocalTracker, ProcessReach], candidates: Candidates, tracker: LocalTracker
) -> None:
    board, own, reach = deployed
    run(board, candidates.request())
    place, pid = reach._place(), own.pid
    assert pid is not None
    farm = descendants(tracker.pid or 0)
    started = {one for one in descendants(os.getpid()) if str(place).encode() in command_of(one)}
    assert started
    board.close()
    assert not place.exists()
    left, deadline = {pid, *started} - farm, time.monotonic() + 20.0
    while any(map(command_of, left)) and time.monotonic() < deadline:  # killed, they may take a moment to go
        time.sleep(0.02)
    assert not [one for one in left if command_of(one)]


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_run_that_is_killed_leaves_no_server(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\n"
        "from edgetune.boards.tvm_rpc.launched import Launched\n"
        "server = Launched('a server', ['server', '127.0.0.1', '0', 'shelf'], Path(sys.argv[1]) / 'log')\n"
        "print(server.pid, flush=True); time.sleep(1000)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True) as run_:
        assert run_.stdout is not None
        server = int(run_.stdout.readline())
        run_.kill()
    deadline = time.monotonic() + 60.0
    while command_of(server):  # also empty for a zombie, until init reaps it
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.long
def test_the_files_of_a_server_are_made_once_for_all_boards(tmp_path: Path) -> None:
    made: list[ServerTree] = []

    def make() -> None:
        made.append(server_tree(os.uname().machine, sys.version_info[:2], cache=tmp_path))

    def together() -> list[ServerTree]:
        made.clear()
        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return list(made)

    first = together()
    assert len(first) == 4
    assert len(set(first)) == 1
    archive = first[0].archive
    whole = archive.read_bytes()
    for damage in (b"", b"no archive", whole[: len(whole) // 2], whole[:100] + bytes(100) + whole[200:]):
        archive.write_bytes(damage)
        assert together() == first
        assert archive.stat().st_size > len(whole) // 2
    assert {path.suffix for path in archive.parent.iterdir()} == {".gz", ".lock"}


def test_a_port_that_something_else_has(tmp_path: Path) -> None:
    def serve(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(b"220 mail.example ready")

    events: list[Event] = []
    with socket.create_server((LOOPBACK, 0)) as other:
        threading.Thread(target=serve, args=(other,), daemon=True).start()
        port = other.getsockname()[1]
        tracker = LocalTracker(tmp_path, port, events.append)
        try:
            assert tracker.ensure() != (LOOPBACK, port)
            TrackerClient(*tracker.address).close()
            place = tracker.address
            assert tracker.ensure() == place
        finally:
            tracker.close()
            other.shutdown(socket.SHUT_RDWR)
    assert [one.data["detail"] for one in events] == [
        f"port {port} is used by another program than TVM's tracker: edgetune's tracker takes a free port"
    ]


@pytest.mark.long
def test_nobody_leases_a_board_whose_address_names_no_tracker(
    tmp_path: Path, folder: Path, candidates: Candidates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgetune.boards.tvm_rpc.server_tree.cache_dir", lambda: folder / "cache")
    target = load_target("host")
    address = BoardAddress.model_validate({"name": "alone", "target": "host", "ssh": "nowhere", "rpc": "tvm"})
    board = open_tvm_board(address, target, tmp_path, ProcessReach("alone", target))
    try:
        before = descendants(os.getpid())
        assert run(board, candidates.request()).status == "ok"
        commands = [command_of(pid).split(b"\0") for pid in descendants(os.getpid()) - before]
        assert [words for words in commands if b"server" in words]
        assert not [words for words in commands if b"tracker" in words]
        board.recover()
        assert run(board, candidates.request()).status == "ok"
    finally:
        board.close()


@pytest.mark.parametrize(
    "said",
    ["", "three 11 x86_64 2.36 1 1", "3 11", "3 1e9 x86_64 2.36 1 1", f"3 {'9' * 5000} x86_64 2.36 1 1", "3 9 - - 1 1"],
)
def test_a_board_whose_python_talks_nonsense(tmp_path: Path, said: str) -> None:
    class Liar(ProcessReach):
        def run(self, command: str, timeout_s: float, stdin: bytes = b"") -> CommandResult:
            del command, timeout_s, stdin
            return CommandResult(0, said, "")

    target = load_target("host")
    reach = Liar("liar", target)
    server = DeployedServer(reach, target, tmp_path)
    with pytest.raises(BoardUnfit, match="'liar' has"):
        server.start("key")
    reach.close()
