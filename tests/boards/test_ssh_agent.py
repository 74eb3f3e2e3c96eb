"""Candidates tried by a real agent on boards behind SSH, and what becomes of them when the link or the board fails."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgetune.boards.agent.board import AgentBoard
from edgetune.boards.ssh.reach import SshReach
from edgetune.errors import BoardLost
from edgetune.events import Event
from edgetune.target.target import load_target
from tests.boards.agent_bench import AgentBench, command_of, parent_of
from tests.boards.listening import listeners
from tests.boards.ssh_bench import Bench
from tests.boards.ssh_server import SshBoard

SETTLED_S = 60.0


class Shelf(AgentBench):
    """An agent on a board behind SSH (T1)."""

    def __init__(self, bench: Bench, server: SshBoard, folder: Path, cache: Path, **more: object) -> None:
        super().__init__(load_target("generic-aarch64"), folder, cache)
        super().close()  # of the way that processes of this machine have
        self.server = server
        bench.events = self.events
        self.reach: SshReach = bench.reach(server, **more)  # type: ignore[assignment, arg-type]
        self.board = AgentBoard(self.target, self.reach, cache=cache, on_event=self.events.append)

    def processes(self) -> int:
        """How many run on the board, once they are no longer changing: the next candidate's process is forked ahead."""
        number, same, until = 0, 0, time.monotonic() + SETTLED_S
        while same < 10:
            assert time.monotonic() < until, "processes come and go"
            time.sleep(0.02)
            there = self.server.processes()
            ahead = any(command_of(one) == command_of(parent_of(one)) != "" for one in there)
            before, number = number, len(there)
            same = same + 1 if ahead and number == before else 0
        return number


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def shelf(bench: Bench, tmp_path: Path, cache: Path) -> Iterator[Shelf]:
    shelf = Shelf(bench, bench.board(), tmp_path, cache, reboot="reboot")
    yield shelf
    shelf.close()
    assert shelf.server.left() == []
    assert shelf.server.files() == []


def told(events: list[Event]) -> list[str]:
    return [str(event.data["what"]) for event in events]


@pytest.mark.long
def test_candidates_over_ssh(shelf: Shelf) -> None:
    result = shelf.run()
    assert (result.status, result.reason) == ("ok", "")
    assert result.samples_ns
    assert shelf.run(1).status == "crashed"
    assert shelf.run().status == "ok"
    assert shelf.server.processes()
    assert listeners(shelf.server.processes()) == []
    assert {address for address, _ in listeners([os.getpid()])} == {"127.0.0.1"}
    names = [Path(name).name for name in shelf.server.files()]
    assert len(names) == 4  # our folder, owner, pids and the agent: candidates never become files


def test_a_link_that_drops_in_the_middle_of_a_candidate(shelf: Shelf) -> None:
    assert shelf.run().status == "ok"
    shelf.board.begin(shelf.request(2, deadline_s=20.0))
    threading.Timer(0.5, shelf.server.link.drop).start()
    with pytest.raises(BoardLost, match="shelf-1"):
        shelf.wait()
    shelf.board.recover()
    assert shelf.helped() == ["connecting again"] or shelf.helped() == ["a new agent"]
    assert shelf.run().status == "ok"


def test_nothing_of_a_candidate_outlives_it(shelf: Shelf) -> None:
    assert shelf.run().status == "ok"
    before = shelf.processes()
    for what in (26, 27):
        assert shelf.run(what, deadline_s=0.3).status in {"crashed", "timeout"}
    assert shelf.run().status == "ok"
    assert shelf.processes() == before


def test_an_agent_that_is_killed(shelf: Shelf) -> None:
    assert shelf.run().status == "ok"
    shelf.board.begin(shelf.request(2, deadline_s=20.0))
    time.sleep(0.3)
    shelf.server.kill_programs()
    with pytest.raises(BoardLost):
        shelf.wait()
    shelf.board.recover()
    assert shelf.run().status == "ok"


@pytest.mark.long
def test_a_board_that_reboots_in_the_middle(shelf: Shelf) -> None:
    assert shelf.run().status == "ok"
    shelf.board.begin(shelf.request(2, deadline_s=20.0))
    rebooting = threading.Thread(target=shelf.server.reboot, args=(1.0,))
    rebooting.start()
    with pytest.raises(BoardLost):
        shelf.wait()
    shelf.board.recover()
    rebooting.join()
    assert shelf.run().status == "ok"


def test_a_link_that_hangs(shelf: Shelf) -> None:
    assert shelf.run().status == "ok"
    shelf.server.link.freeze()
    began = time.monotonic()
    with pytest.raises(BoardLost):
        shelf.run(deadline_s=0.5)
    assert time.monotonic() - began < 60.0
    shelf.server.link.thaw()
    shelf.board.recover()
    assert shelf.run().status == "ok"


@pytest.mark.parametrize("fault", ["no sftp", "noexec", "noise"])
def test_boards_with_a_will_of_their_own(shelf: Shelf, fault: str) -> None:
    faults = shelf.server.faults
    faults.sftp = fault != "no sftp"
    faults.noexec = ["shm"] if fault == "noexec" else []
    faults.noise = b"Last login: never\r\n" if fault == "noise" else b""
    assert shelf.run().status == "ok"
    assert bool(told(shelf.events)) == (fault != "noise")
