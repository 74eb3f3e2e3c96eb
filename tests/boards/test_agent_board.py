"""A board behind an agent: started, shared, lost, brought back, and left as it was found."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgetune.boards.agent.board import AgentBoard
from edgetune.boards.agent.build import build_agent, build_plugin
from edgetune.boards.agent.frames import FrameType, encode
from edgetune.boards.agent.messages import Health
from edgetune.boards.environment import read_environment
from edgetune.boards.process import ProcessReach, ProcessStream
from edgetune.boards.protocol import RunRequest
from edgetune.config.host import RUN, RUN_ENDS
from edgetune.errors import BoardBusy, BoardLost, BoardUnfit, EdgetuneError, ProtocolViolation, ToolchainMissing
from edgetune.events import Event
from edgetune.target.target import Target, load_target
from tests.boards.agent_bench import AgentBench, processes

ENDS_S = 60.0


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def opened(cache: Path, tmp_path: Path) -> Iterator[Callable[..., AgentBench]]:
    """Make benches that are closed afterwards."""
    made: list[AgentBench] = []

    def make(name: str = "host", lock: str | None = None) -> AgentBench:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(AgentBench(load_target(name), folder, cache, lock))
        return made[-1]

    yield make
    for bench in made:
        bench.close()


def agent_of(bench: AgentBench) -> int:
    return bench.reach._streams[-1].pid


@pytest.mark.long
def test_facts_and_readings(opened: Callable[..., AgentBench]) -> None:
    bench = opened()
    assert bench.board.facts == {"emulated": 0, "clock": "time"}
    bench.board.reserve()
    assert bench.board.facts["machine"] == os.uname().machine
    assert bench.board.facts["kernel"] == os.uname().release
    assert bench.board.facts["page_bytes"] == os.sysconf("SC_PAGESIZE")
    readings = bench.board.health()
    assert readings["page_faults"] == 0
    here = read_environment(0)
    assert readings.keys() == here.keys() | {"page_faults"}
    changing = {"clock_khz", "temperature_c", "load_1min", "throttle_count", "throttle_flags"}
    for key in here.keys() - changing:
        assert readings[key] == here[key]
    for key in here:
        assert type(readings[key]) is type(here[key])


@pytest.mark.long
def test_an_emulated_board_says_so(opened: Callable[..., AgentBench]) -> None:
    bench = opened("qemu-armv7")
    bench.board.reserve()
    facts = bench.board.facts
    assert (facts["emulated"], facts["clock"], facts["machine"], facts["bits"]) == (1, "instructions", "armv7l", 32)


@pytest.mark.long
def test_the_second_user_is_told_who_has_the_board(opened: Callable[..., AgentBench]) -> None:
    lock = f"edgetune-test-{os.getpid()}"
    first, second = opened(lock=lock), opened(lock=lock)
    first.board.reserve()
    since = rf"process {os.getpid()} since (\S+ )?\d\d:\d\d"
    with pytest.raises(
        BoardBusy, match=rf"belongs to .+@.+ {since}: .* expires after 1[12]\d s\), or use another board$"
    ):
        second.board.reserve(0.2)
    assert re.search(rf"{since}; the lock expires in 1[12]\d s at most$", second.told("locked")[0])
    first.close()
    second.board.reserve()
    assert second.run().status == "ok"


def test_who_finds_a_board_taken_by_a_night_reads_its_cell_its_end_and_how_to_drain_the_board(
    opened: Callable[..., AgentBench], monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = f"edgetune-test-{os.getpid()}"
    first, second = opened(lock=lock), opened(lock=lock)
    with monkeypatch.context() as night:
        night.setenv(RUN, "2026-11-24 m@shelf-7")
        night.setenv(RUN_ENDS, "2026-11-24T23:40Z")
        first.board.reserve()
    cell = (
        r"since (\S+ )?\d\d:\d\d, for cell m@shelf-7 of night 2026-11-24, which probably ends at 2026-11-2\d \d\d:\d\d"
    )
    drain = "; `edgetune nightly drain shelf-7` takes the board out of the night"
    with pytest.raises(BoardBusy, match=rf"{cell}: wait .*, or use another board{drain}$"):
        second.board.reserve(0.2)
    assert second.told("locked")[0].endswith(f" s at most{drain}")


def test_a_board_that_somebody_took_while_it_was_lost_is_not_waited_for(
    opened: Callable[..., AgentBench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgetune.boards.agent.board._RECOVER_LOCK_S", 0.2)
    lock = f"edgetune-test-{os.getpid()}"
    first, second = opened(lock=lock), opened(lock=lock)
    second.board.reserve()
    os.kill(agent_of(second), signal.SIGKILL)
    first.board.reserve()
    with pytest.raises(BoardBusy):
        second.board.recover()


def test_a_user_without_a_name_goes_by_his_number(
    opened: Callable[..., AgentBench], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])  # KeyError, as in a container
    lock = f"edgetune-test-{os.getpid()}"
    first, second = opened(lock=lock), opened(lock=lock)
    first.board.reserve()
    with pytest.raises(BoardBusy, match=rf"belongs to {os.getuid()}@.+ process {os.getpid()}"):
        second.board.reserve(0.2)


def test_the_lock_goes_with_the_agent_however_that_ends(opened: Callable[..., AgentBench]) -> None:
    lock = f"edgetune-test-{os.getpid()}"
    first, second = opened(lock=lock), opened(lock=lock)
    first.board.reserve()
    os.kill(agent_of(first), signal.SIGKILL)
    second.board.reserve()
    assert second.run().status == "ok"


def test_an_agent_expires_when_its_host_is_silent(cache: Path) -> None:
    reach = ProcessReach("silent", load_target("host"), cache=cache)
    transport = reach.start(build_agent(load_target("host"), cache), ["--idle", "0.3"])
    try:
        assert transport._process.wait(ENDS_S) == 0
    finally:
        reach.close()


def test_an_agent_does_not_expire_while_its_board_is_kept(cache: Path, tmp_path: Path) -> None:
    bench = AgentBench(load_target("host"), tmp_path, cache)
    bench.board._idle_s = 5.0  # a busy machine may be some seconds late
    try:
        bench.board.reserve()
        agent = agent_of(bench)
        time.sleep(6.5)
        assert bench.run().status == "ok"
        assert agent_of(bench) == agent
    finally:
        bench.close()


def test_readings_come_while_a_candidate_hangs(opened: Callable[..., AgentBench]) -> None:
    bench = opened()
    bench.board.begin(bench.request(2, deadline_s=30.0))
    assert "load_1min" in bench.board.health()
    assert bench.board.collect(0.1) is None
    bench.board.recover()  # the agent answers, the candidate is given up
    assert bench.helped() == ["the same agent"]
    assert bench.run().status == "ok"


def test_the_descriptor_tells_of_results_and_of_the_end(opened: Callable[..., AgentBench]) -> None:
    bench = opened()
    assert select.select([bench.board], [], [], 0)[0]  # nothing to wait for
    bench.board.begin(bench.request(0))
    assert select.select([bench.board], [], [], 20)[0]
    assert bench.wait().status == "ok"
    assert not select.select([bench.board], [], [], 0)[0]
    os.kill(agent_of(bench), signal.SIGKILL)
    assert select.select([bench.board], [], [], 20)[0]
    with pytest.raises(BoardLost, match="host"):
        bench.run(0)


@pytest.mark.long
@pytest.mark.parametrize("what", [FrameType.STORED, FrameType.REFUSED, FrameType.RESULT, FrameType.PONG])
def test_an_agent_that_sends_without_end_takes_no_memory(
    opened: Callable[..., AgentBench], what: FrameType, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = opened()
    bench.board.reserve()
    payloads = {
        FrameType.STORED: bytes(33),
        FrameType.REFUSED: struct.pack("<HIH", FrameType.PUT, 0, 900) + b"x" * 900,
        FrameType.RESULT: struct.pack("<IBiBBBBHIBI9dQQHI", 9, 1, *[0] * 22),
        FrameType.PONG: struct.pack("<QBB", 1, 0, 0),
    }
    flood = encode(what, payloads[what]) * 50
    rest = iter([flood] * 100)
    link = bench.board._link
    assert link is not None
    monkeypatch.setattr(link._stream, "receive", lambda: next(rest, b""))
    words = "without end" if what == FrameType.RESULT else r"did not answer within 1 s"
    with Path("/dev/zero").open("rb") as endless:
        monkeypatch.setattr(link._stream, "fileno", endless.fileno)
        with pytest.raises(BoardLost, match=words):
            bench.board._await(lambda message: isinstance(message, Health), 1.0)
    assert len(bench.board._early) <= 65


def test_an_agent_that_stops_answering_is_replaced(opened: Callable[..., AgentBench]) -> None:
    bench = opened()
    request = bench.request(0, deadline_s=0.2)
    os.kill(agent_of(bench), signal.SIGSTOP)
    bench.board.begin(request)
    with pytest.raises(BoardLost, match="did not report the result of a candidate within"):
        bench.wait()
    bench.board.recover()
    assert bench.helped() == ["a new agent"]
    assert bench.run().status == "ok"


@pytest.mark.parametrize("end", ["terminate", "hang up", "end of input", "kill"])
def test_a_candidate_ends_with_its_agent(opened: Callable[..., AgentBench], end: str) -> None:
    bench = opened()
    bench.board.begin(bench.request(21, deadline_s=60.0))
    agent, limit = agent_of(bench), time.monotonic() + ENDS_S
    while not (candidates := children_of(agent)):
        assert time.monotonic() < limit, "the candidate does not start"
        time.sleep(0.02)
    assert bench.board.collect(0.3) is None
    assert children_of(agent) == candidates
    assert len(candidates) == 1
    if end == "end of input":
        bench.reach._streams[-1]._stdin.close()
    else:
        number = {"terminate": signal.SIGTERM, "hang up": signal.SIGHUP, "kill": signal.SIGKILL}[end]
        os.kill(agent, number)
    with pytest.raises(BoardLost):
        bench.wait()
    limit = time.monotonic() + ENDS_S
    while any(Path(f"/proc/{process}").exists() for process in candidates):
        assert time.monotonic() < limit, "the candidate outlives its agent"
        time.sleep(0.02)


class OldBoard(ProcessReach):
    """A board whose kernel has no memfd_create."""

    def start(self, program: Path, arguments: Sequence[str], timeout_s: float = 10.0) -> ProcessStream:
        del program
        old = build_agent(load_target("host"), self._cache, ["EDGETUNE_NO_MEMFD"])
        return super().start(old, self.change(arguments), timeout_s)

    def change(self, arguments: Sequence[str]) -> Sequence[str]:
        return arguments


class FullBoard(OldBoard):
    """One that has no folder for files either."""

    def change(self, arguments: Sequence[str]) -> Sequence[str]:
        folder = arguments.index("--folder") + 1
        return [*arguments[:folder], "/nowhere", *arguments[folder + 1 :]]


@pytest.mark.long
def test_without_memfd_libraries_go_through_files_that_have_no_name(
    opened: Callable[..., AgentBench], cache: Path
) -> None:
    bench = opened()
    bench.use(OldBoard("old", bench.target, cache=cache))
    assert bench.run().status == "ok"
    assert bench.told("fallback") == [f"no memfd: libraries go through nameless files in {bench.reach._place()}"]
    assert list(bench.reach._place().iterdir()) == []


@pytest.mark.long
def test_a_board_without_any_place_for_libraries_is_lost_and_not_the_candidate(
    opened: Callable[..., AgentBench], cache: Path
) -> None:
    bench = opened()
    bench.use(FullBoard("full", bench.target, cache=cache))
    with pytest.raises(BoardLost, match="no place for a library"):
        bench.run()


class Small(ProcessReach):
    """A board with 100 MB of memory for an agent and what it keeps."""

    def start(self, program: Path, arguments: Sequence[str], timeout_s: float = 10.0) -> ProcessStream:
        small = 'ulimit -S -v 100000; exec "$0" "$@"'
        return super().start(Path("/bin/sh"), ["-c", small, str(program), *arguments], timeout_s)


def with_one_more(bench: AgentBench, megabytes: int) -> RunRequest:
    request = bench.request(0)
    more = bench.save(f"more-{megabytes}", np.full(megabytes << 20, megabytes, np.uint8))
    return replace(
        request,
        arrays=(*request.arrays, bench.board.put(more)),
        roles=(*request.roles, "input"),
        tolerances=(*request.tolerances, None),
    )


@pytest.mark.long
def test_arrays_that_do_not_fit_are_a_matter_of_the_candidate(opened: Callable[..., AgentBench], cache: Path) -> None:
    bench = opened()
    bench.use(Small("small", bench.target, cache=cache))
    bench.board.begin(with_one_more(bench, 110))
    result = bench.wait()
    words = "the memory of the board has no room for a candidate's arrays: no memory left for what is pushed"
    assert (result.status, result.reason) == ("crashed", words)
    agent = agent_of(bench)
    assert bench.run().status == "ok"
    assert agent_of(bench) == agent
    bench.board._room = 1 << 20  # what is known not to fit is not even sent
    bench.board.begin(with_one_more(bench, 2))
    result = bench.wait()
    assert (result.status, result.reason) == (
        "crashed",
        "its arrays take 2 MB: the memory of the board has room for 1 MB",
    )


@pytest.mark.long
def test_what_others_left_there_makes_room(opened: Callable[..., AgentBench], cache: Path) -> None:
    bench = opened()
    bench.use(Small("small", bench.target, cache=cache))
    bench.board.reserve()
    bench.board.put(bench.save("old", np.zeros(75 << 20, np.uint8)))
    bench.board.begin(with_one_more(bench, 20))
    result = bench.wait()
    assert (result.status, result.reason) == ("ok", "")


class Broken(ProcessReach):
    """A board on which only a restart helps, or not even that."""

    reboots = False

    def connect(self, timeout_s: float = 20.0) -> None:
        if self.broken:
            raise BoardLost(f"board '{self.name}' does not answer within {timeout_s:g} s")
        super().connect(timeout_s)

    broken = False

    def reboot(self, timeout_s: float) -> bool:
        del timeout_s
        if self.reboots:
            self.broken = False
        return self.reboots

    def start(self, program: Path, arguments: Sequence[str], timeout_s: float = 10.0) -> ProcessStream:
        self.connect()
        return super().start(program, arguments, timeout_s)


@pytest.mark.parametrize("reboots", [True, False])
def test_each_rung_of_the_ladder_is_told(cache: Path, *, reboots: bool) -> None:
    events: list[Event] = []
    reach = Broken("far", load_target("host"), cache=cache)
    board = AgentBoard(load_target("host"), reach, cache=cache, on_event=events.append)
    board.reserve()
    reach.broken, reach.reboots = True, reboots
    reach._streams[-1].close()
    if reboots:
        board.recover()
        board.reserve()
        assert board.health()
    else:
        with pytest.raises(BoardLost, match="cutting its power: not set up for this board"):
            board.recover()
    told = [str(event.data["detail"]).split(":")[0] for event in events if event.data["what"] == "rung"]
    rungs = ["the same agent", "a new agent", "connecting again", "restarting the board", "cutting its power"]
    assert list(dict.fromkeys(told)) == rungs[: 4 if reboots else 5]
    board.close()


@pytest.mark.parametrize("reboots", [True, False])
def test_a_board_that_answers_and_is_not_fit_is_restarted_at_once(cache: Path, *, reboots: bool) -> None:
    events: list[Event] = []
    reach = Broken("far", load_target("host"), cache=cache)
    board = AgentBoard(load_target("host"), reach, cache=cache, on_event=events.append)
    board.reserve()
    reach.reboots = reboots
    if reboots:
        board.restart()
        assert board.health()
    else:
        with pytest.raises(BoardLost, match="cutting its power: not set up for this board"):
            board.restart()
    told = [str(event.data["detail"]).split(":")[0] for event in events if event.data["what"] == "rung"]
    assert list(dict.fromkeys(told)) == ["restarting the board", "cutting its power"][: 1 if reboots else 2]
    board.close()


class Restarting(Broken):
    """A board whose restart takes its time, and ends when the reach is closed."""

    def __init__(self, name: str, target: Target, *, cache: Path) -> None:
        super().__init__(name, target, cache=cache)
        self.restarts, self.leaves = threading.Event(), threading.Event()
        self.connected = False

    def connect(self, timeout_s: float = 20.0) -> None:
        super().connect(timeout_s)
        self.connected = True

    def reboot(self, timeout_s: float) -> bool:
        self.restarts.set()
        assert self.leaves.wait(timeout_s)
        self.broken = False
        return True

    def clean(self) -> None:
        self.connected = False
        if self.restarts.is_set():
            self.leaves.set()
        super().clean()


class Silent(ProcessReach):
    """A board on which programs say nothing."""

    def start(self, program: Path, arguments: Sequence[str], timeout_s: float = 10.0) -> ProcessStream:
        del program, arguments
        return super().start(Path("/bin/sleep"), ["60"], timeout_s)


def refused(call: Callable[[], None]) -> Callable[[], str]:
    """Call in a thread; return what waits for the words with which the board is lost."""
    words: list[str] = []

    def run() -> None:
        try:
            call()
        except BoardLost as error:
            words.append(error.message)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def wait() -> str:
        thread.join(ENDS_S)
        assert words, "it goes on"
        return words[0]

    return wait


def test_a_board_that_is_closed_while_it_restarts_is_left_alone(cache: Path) -> None:
    reach = Restarting("far", load_target("host"), cache=cache)
    events: list[Event] = []
    board = AgentBoard(load_target("host"), reach, cache=cache, on_event=events.append)
    board.reserve()
    reach.broken = True
    reach._streams[-1].close()
    words = refused(board.recover)
    assert reach.restarts.wait(ENDS_S)
    board.close()
    assert "was closed" in words()
    assert not reach.connected
    assert reach._streams == []
    assert reach._folder is None
    with pytest.raises(BoardLost, match="was closed"):
        board.reserve()
    assert not reach.connected


def test_a_board_that_is_closed_while_it_is_waited_for_is_left_alone(opened: Callable[..., AgentBench]) -> None:
    lock = f"edgetune-test-{os.getpid()}"
    first, second = opened(lock=lock), opened(lock=lock)
    first.board.reserve()
    second.board._lock_timeout_s = 600.0
    words = refused(second.board.reserve)
    while not second.told("locked"):
        time.sleep(0.02)
    second.close()
    assert "was closed" in words()
    assert second.reach._streams == []


def test_a_board_that_is_closed_while_its_agent_starts_is_left_alone(cache: Path) -> None:
    reach = Silent("mute", load_target("host"), cache=cache)
    board = AgentBoard(load_target("host"), reach, cache=cache)
    words = refused(board.reserve)
    while board._starting is None:
        time.sleep(0.02)
    board.close()
    assert "closed" in words()
    assert reach._streams == []


def test_what_was_put_is_brought_again_to_a_new_agent(opened: Callable[..., AgentBench]) -> None:
    bench = opened()
    request = bench.request(0)
    bench.board._new_agent(10.0)
    bench.board.begin(request)
    assert bench.wait().status == "ok"


def test_the_cache_of_the_agent_stays_within_its_limit(opened: Callable[..., AgentBench]) -> None:
    bench = opened()
    assert bench.run(0).status == "ok"
    bench.board._cache_bytes = 1  # everything that is not needed goes, all the time
    for what in (0, 9, 0, 9):
        assert bench.run(what).status == "ok"
    assert len(bench.board._contents._there) == 5


def test_a_board_of_another_kind_is_unfit(cache: Path) -> None:
    target = load_target("host").model_copy(update={"isa": "aarch64" if os.uname().machine == "x86_64" else "x86_64"})
    reach = ProcessReach("odd", load_target("host"), cache=cache)
    board = AgentBoard(target, reach, cache=cache)
    with pytest.raises(BoardUnfit, match=r"'odd' runs on .* but target 'host' is"):
        board.reserve()
    board.close()


def test_a_core_that_is_not_there_is_refused(cache: Path) -> None:
    target = load_target("host")
    board = AgentBoard(target, ProcessReach("host", target, cache=cache), cores=[999], cache=cache)
    with pytest.raises(BoardUnfit, match="may not use core 999"):
        board.reserve()
    board.close()


def test_an_emulator_that_is_not_installed_is_named(cache: Path) -> None:
    target = load_target("qemu-aarch64").model_copy(update={"emulator": ("qemu-missing",)})
    board = AgentBoard(target, ProcessReach("t0", target, cache=cache), cache=cache)
    with pytest.raises(ToolchainMissing, match="apt-get install qemu-user"):
        board.reserve()
    board.close()


class Echo(ProcessReach):
    """A board that prints what it should start."""

    def start(self, program: Path, arguments: Sequence[str], timeout_s: float = 10.0) -> ProcessStream:
        return super().start(Path("/bin/echo"), [program.name, *arguments], timeout_s)


def test_a_program_that_is_no_agent_is_told(cache: Path) -> None:
    board = AgentBoard(load_target("host"), Echo("odd", load_target("host"), cache=cache), cache=cache)
    with pytest.raises(ProtocolViolation, match="agent --owner"):
        board.reserve()
    board.close()


def children_of(parent: int) -> set[int]:
    return set(map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split()))


@pytest.mark.long
@pytest.mark.parametrize("name", ["host", "qemu-aarch64"])
def test_nothing_remains(name: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    bench = AgentBench(load_target(name), tmp_path, cache)
    bench.run(0)
    agent = build_agent(bench.target, cache)
    assert processes(lambda command: str(agent) in command)
    bench.close()
    bench.close()
    limit = time.monotonic() + ENDS_S
    while processes(lambda command: str(agent) in command):  # what dies with the agent may take a moment to go
        assert time.monotonic() < limit, "a process of the agent's is left"
        time.sleep(0.02)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_an_agent_removes_its_own_file_when_told(cache: Path, tmp_path: Path) -> None:
    target = load_target("host")
    copy = tmp_path / "agent"
    shutil.copy(build_agent(target, cache), copy)
    reach = ProcessReach("own", target, cache=cache)
    transport = reach.start(copy, ["--unlink"])
    assert select.select([transport], [], [], 10)[0]
    assert transport.receive()
    assert not copy.exists()
    reach.close()


def test_commands_and_files_of_a_process_board(cache: Path, tmp_path: Path) -> None:
    reach = ProcessReach("here", load_target("host"), cache=cache)
    (tmp_path / "words").write_text("some words")
    there = reach.put(tmp_path / "words", 5.0)
    assert reach.put(tmp_path / "words", 5.0) == there
    done = reach.run(f"cat {there}; cat; exit 3", 5.0, b" and more")
    assert (done.status, done.stdout) == (3, "some words and more")
    with pytest.raises(BoardLost, match=r"had not ended after 0\.2 s"):
        reach.run("sleep 100", 0.2)
    reach.clean()
    assert not Path(there).exists()
    assert not reach.reboot(1.0)
    assert not reach.power_cycle(1.0)
    reach.close()


def test_the_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EdgetuneError, match="set XDG_CACHE_HOME"):
        build_plugin(tmp_path / "file")
