"""Links that drop, hang and crawl, boards that take no files: one sentence, by the deadline, nothing lost."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paramiko
import pytest

from edgetune.boards.reach import CommandResult
from edgetune.boards.ssh import connection, dial, remote_process, sessions
from edgetune.boards.ssh.connection import MOST_WAITING
from edgetune.boards.ssh.deadline import Alarm
from edgetune.boards.ssh.reach import SshReach
from edgetune.errors import BoardFull, BoardLost, BoardUnavailable, HostUnknown
from tests.boards.ssh_bench import Bench, ended, received


@pytest.mark.parametrize("size", [1, 5_000, 70_000])
def test_a_link_that_drops_while_a_program_talks(bench: Bench, echo: Path, size: int) -> None:
    board = bench.board()
    reach = bench.reach(board)
    program = reach.start(echo, [])
    board.link.drop_after = 0
    with contextlib.suppress(BoardLost):  # a link may go down while more than a window is sent, or after that
        program.send(b"x" * size, 10.0)
    assert "the link went down" in ended(program).message
    board.link.drop_after = None
    with pytest.raises(BoardLost):
        program.send(b"more", 5.0)
    program.close()
    again = reach.start(echo, [])  # connects again, and finds its file there
    again.send(b"here", 10.0)
    assert received(again, 4) == b"here"
    reach.close()
    assert board.left() == []
    assert board.files() == []


@pytest.mark.parametrize("after", [30, 600, 1500, 2500, 4000, 6000])
def test_a_link_that_drops_anywhere_on_the_way(bench: Bench, echo: Path, after: int) -> None:
    board = bench.board()
    board.link.drop_after = after
    reach = bench.reach(board)
    began = time.monotonic()
    with contextlib.suppress(BoardUnavailable):
        reach.facts()
        reach.start(echo, [])
    assert time.monotonic() - began < 40.0
    board.link.drop_after = None
    program = reach.start(echo, [])
    program.send(b"here", 10.0)
    assert received(program, 4) == b"here"
    reach.close()
    assert board.left() == []
    assert board.files() == []


def test_a_link_that_drops_as_the_input_of_a_command_ends(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def drop(channel: paramiko.Channel) -> None:
        channel.get_transport().close()
        raise EOFError  # as paramiko does where the socket is gone when it says so

    reach = bench.reach(bench.board())
    with monkeypatch.context() as patch:
        patch.setattr(paramiko.Channel, "shutdown_write", drop)
        with pytest.raises(BoardLost, match="the link went down while a command ran"):
            reach.facts()
    reach.facts()  # connects again
    reach.close()


def test_output_that_follows_the_exit_status_is_read(bench: Bench) -> None:
    """OpenSSH sends the status as soon as the program ends, and then what is left of the output."""
    board = bench.board()
    reach = bench.reach(board)
    reach.facts()
    board.faults.late_output_s = 0.3
    assert reach.run("echo hello; exit 3", 60.0) == CommandResult(3, "hello\n", "")
    assert reach.facts().machine
    reach.close()


def test_a_program_left_running_with_the_output_is_not_waited_for(bench: Bench) -> None:
    board = bench.board()
    reach = bench.reach(board)
    began = time.monotonic()
    board.faults.late_output_s = 600.0
    assert reach.run("echo hello", 900.0).status == 0
    assert time.monotonic() - began < 300.0
    board.faults.late_output_s = 0.0
    reach.close()


def test_a_link_that_hangs_is_left_at_the_deadline(bench: Bench, echo: Path) -> None:
    board = bench.board()
    reach = bench.reach(board)
    program = reach.start(echo, [])
    board.link.freeze()
    began = time.monotonic()
    with pytest.raises(BoardLost, match=r"within \d+ s"):
        reach.run("echo hello", 1.0)
    with pytest.raises(BoardLost):
        program.send(bytes(50_000_000), 1.0)  # more than all buffers on the way
    assert time.monotonic() - began < 30.0
    board.link.thaw()
    assert "went down" in ended(program).message
    assert reach.run("echo hello", 10.0).stdout == "hello\n"


@contextlib.contextmanager
def late(seconds: float, abort: Callable[[], None]) -> Iterator[Alarm]:
    """Do not watch the clock in another thread, as if that came too late on a busy machine."""
    del seconds, abort
    yield Alarm()


@pytest.mark.parametrize("step", ["open a channel", "write"])
def test_a_link_is_cut_at_the_deadline_even_when_the_call_notices_it_first(
    bench: Bench, echo: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    board = bench.board()
    reach = bench.reach(board)
    program = reach.start(echo, [])
    board.link.freeze()
    with monkeypatch.context() as patch:
        patch.setattr(connection, "guarded", late)
        patch.setattr(remote_process, "guarded", late)
        steps: dict[str, Callable[[], object]] = {
            "open a channel": lambda: reach.run("echo hello", 1.0),
            "write": lambda: program.send(bytes(50_000_000), 1.0),  # more than all buffers on the way
        }
        with pytest.raises(BoardLost, match=r"within \d+ s"):
            steps[step]()
    board.link.thaw()
    assert "went down" in ended(program).message


def test_keep_alive_finds_a_dead_link(bench: Bench, echo: Path) -> None:
    board = bench.board()
    bench.configure("Host *\nServerAliveInterval 1\nServerAliveCountMax 5\n")  # a busy machine may answer late
    program = bench.reach(board).start(echo, [])
    time.sleep(2.5)
    assert program.receive() == b""  # a living link is left alone
    board.link.freeze()
    assert "went down" in ended(program).message


def test_a_slow_link(bench: Bench, echo: Path) -> None:
    board = bench.board()
    board.link.delay_s = 0.02
    board.link.bytes_per_s = 2e6
    program = bench.reach(board).start(echo, [], 60.0)
    program.send(bytes(100_000), 60.0)
    assert received(program, 100_000, 60.0) == bytes(100_000)


def test_a_server_that_never_answers_a_command(bench: Bench) -> None:
    board = bench.board()
    reach = bench.reach(board)
    reach.connect()
    board.faults.hang_commands = True
    with pytest.raises(BoardLost, match=r"did not start a command within \d+ s"):
        reach.run("echo hello", 1.0)


def test_commands_of_ours_that_are_killed(bench: Bench, echo: Path) -> None:
    board = bench.board()
    board.faults.kill_after = 60  # once it says something after its first line
    reach = bench.reach(board)
    for step in (reach.facts, lambda: reach.put(echo, 10.0)):
        with pytest.raises(BoardLost):
            step()
    board.faults.kill_after = None
    reach.close()
    assert board.files() == []


def test_half_closed(bench: Bench, echo: Path) -> None:
    board = bench.board()
    reach = bench.reach(board)
    program = reach.start(echo, [])
    board.faults.half_close_after = 3
    program.send(b"abc", 5.0)
    assert "closed its output or was killed" in ended(program).message
    program.close()
    board.faults.half_close_after = None
    reach.close()
    assert board.left() == []


def test_a_program_that_is_killed(bench: Bench, echo: Path) -> None:
    board = bench.board()
    program = bench.reach(board).start(echo, [])
    board.faults.kill_after = 3
    program.send(b"abc", 5.0)
    assert received(program, 3) == b"abc"
    assert "was killed" in ended(program).message


def test_a_status_that_is_lost(bench: Bench) -> None:
    board = bench.board()
    board.faults.status_lost = True
    assert bench.reach(board).run("echo hello", 10.0).stdout == "hello\n"


@pytest.mark.long
def test_rubbish_before_the_first_output(bench: Bench, echo: Path) -> None:
    board = bench.board()
    board.faults.noise = b"Welcome!\x1b[0m\nmachine=vax\n\x00\xff edgetune-"
    reach = bench.reach(board)
    assert reach.facts().machine == "aarch64"
    program = reach.start(echo, [])
    program.send(b"abc", 5.0)
    assert received(program, 3) == b"abc"
    board.faults.noise = b"x" * 200_000
    with pytest.raises(BoardUnavailable, match="prints without end"):
        reach.run("true", 20.0)


def test_no_sftp(bench: Bench, echo: Path) -> None:
    board = bench.board()
    board.faults.sftp = False
    program = bench.reach(board).start(echo, [])
    program.send(b"abc", 5.0)
    assert received(program, 3) == b"abc"
    assert [told for told in bench.told() if "files are sent through cat from now on" in told]


def test_sftp_that_hangs(bench: Bench, echo: Path) -> None:
    board = bench.board()
    board.faults.sftp_hangs = True
    reach = bench.reach(board)
    reach.facts()
    program = reach.start(echo, [], 6.0)
    program.send(b"abc", 5.0)
    assert received(program, 3) == b"abc"
    assert [told for told in bench.told() if "files are sent through cat from now on" in told]


def test_noexec_folder(bench: Bench, echo: Path) -> None:
    board = bench.board()
    board.faults.noexec = ["shm"]
    program = bench.reach(board).start(echo, [])
    program.send(b"abc", 5.0)
    assert received(program, 3) == b"abc"
    (told,) = bench.told()
    assert f"files go to {board.folders[1]}: {board.folders[0]} programs there cannot run (noexec)" in told
    assert not [name for name in board.files() if name.startswith("shm")]


def test_unwritable_folder_of_the_address(bench: Bench) -> None:
    board = bench.board()
    facts = bench.reach(board, folder="/proc/nowhere").facts()
    assert facts.folder.startswith(board.folders[0])
    assert "/proc/nowhere cannot be written" in bench.told()[0]


def test_home_is_the_last_resort(bench: Bench) -> None:
    board = bench.board()
    facts = bench.reach(board, folders=["/proc/nowhere", "$HOME/.cache", "$HOME"]).facts()
    assert facts.folder.startswith(f"{board.root}/home/.edgetune-")


@pytest.mark.parametrize("sftp", [True, False])
def test_a_disk_that_fills_while_a_file_is_sent(bench: Bench, echo: Path, sftp: bool) -> None:
    board = bench.board()
    reach = bench.reach(board)
    reach.facts()
    board.faults.sftp = sftp
    board.faults.disk_bytes = 1000
    with pytest.raises(BoardFull) as caught:
        reach.put(echo, 20.0)
    assert "No space left on device" in caught.value.message
    assert "KiB free" in caught.value.message
    assert not [name for name in board.files() if name.endswith((".part", "echo"))]
    reach.close()
    assert board.files() == []
    board.faults.disk_bytes = None


def test_a_write_that_fails_in_the_middle_of_a_file_is_noticed(bench: Bench, tmp_path: Path) -> None:
    board = bench.board()
    reach = bench.reach(board)
    reach.facts()
    (tmp_path / "long").write_bytes(b"x" * (2 * 32768 + 100))
    board.faults.disk_bytes = 32768 + 1000  # the first part fits, the second does not, the last would
    with pytest.raises(BoardFull):
        reach.put(tmp_path / "long", 20.0)
    board.faults.disk_bytes = None
    path = Path(reach.put(tmp_path / "long", 20.0))
    assert path.read_bytes() == b"x" * (2 * 32768 + 100)


def test_a_file_is_sent_once_per_content(bench: Bench, tmp_path: Path) -> None:
    board = bench.board()
    reach = bench.reach(board)
    (tmp_path / "a").write_bytes(b"one")
    (tmp_path / "it's $HOME").write_bytes(b"two")
    first = reach.put(tmp_path / "a", 20.0)
    before = len(board.commands)
    assert reach.put(tmp_path / "a", 20.0) == first
    assert len(board.commands) <= before + 1  # whether the folder is still there
    (tmp_path / "a").write_bytes(b"three")
    third = reach.put(tmp_path / "a", 20.0)
    assert third != first
    assert Path(first).read_bytes() == b"one"
    assert Path(third).read_bytes() == b"three"
    assert Path(reach.put(tmp_path / "it's $HOME", 20.0)).read_bytes() == b"two"


@pytest.mark.long
def test_the_next_session_removes_what_a_dead_one_left(bench: Bench, echo: Path) -> None:
    board = bench.board()
    script = f"""
import os, sys
from collections.abc import Callable
from pathlib import Path
from edgetune.boards.ssh.reach import SshReach
from edgetune.config.boards_file import BoardAddress
from edgetune.target.target import load_target
address = BoardAddress(name="shelf-1", target="generic-aarch64", ssh="pi@127.0.0.1:{board.port}")
reach = SshReach(address, load_target("generic-aarch64"), folders={board.folders!r})
reach.start(Path({str(echo)!r}), [])
print("started", flush=True)
os.kill(os.getpid(), {int(signal.SIGKILL)})
"""
    living = bench.reach(board)
    living.facts()
    subprocess.run([sys.executable, "-c", script], check=False, timeout=120)
    assert len([name for name in board.files() if name.endswith("/owner")]) == 2
    reach = bench.reach(board)
    reach.facts()
    assert [told for told in bench.told() if "files of a session that died were removed" in told]
    reach.close()
    assert board.left() == []
    owners = [name for name in board.files() if name.endswith("/owner")]
    assert len(owners) == 1  # the living session of this process keeps its own
    living.close()
    assert board.files() == []


def test_sessions_of_other_machines_are_left_alone_until_they_are_old(bench: Bench) -> None:
    board = bench.board()
    folder = Path(board.folders[0], sessions.PREFIX + "0123456789abcdef")
    folder.mkdir()
    (folder / "owner").write_text("elsewhere-1 1234 5678\n")
    (folder / "pids").write_text("")
    foreign = Path(board.folders[0], "precious")
    foreign.mkdir()
    (Path(board.folders[0]) / (sessions.PREFIX + "link")).symlink_to(foreign)
    bench.reach(board).facts()
    assert folder.is_dir()
    long_ago = time.time() - 7200
    os.utime(folder, (long_ago, long_ago))
    bench.reach(board).facts()
    assert not folder.exists()
    assert foreign.is_dir()


def test_what_a_dead_session_left_and_cannot_be_removed_is_told_as_such(bench: Bench) -> None:
    board = bench.board()
    stuck, loose = (Path(board.folders[0], f"{sessions.PREFIX}{digit * 16}") for digit in "01")
    for folder in (stuck, loose):
        folder.mkdir()
        (folder / "owner").write_text("elsewhere-1 1234 5678\n")
        (folder / "pids").write_text("")
        os.utime(folder, (0, 0))
    board.answers[f"rm -rf {stuck}"] = "rm: Read-only file system"  # and it stays
    bench.reach(board).facts()
    assert [words for words in bench.told() if "files of a session that died" in words] == [
        f"fallback: files of a session that died were removed: {loose}",
        f"fallback: files of a session that died cannot be removed: {stuck}",
    ]
    assert (stuck.exists(), loose.exists()) == (True, False)


def test_sessions_of_this_machine_whose_owner_is_hidden_count_as_living(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, pid, start = sessions.Session().owner.split()

    def line(pid: str, start: str, rest: str = "dead new") -> str:
        return f"session={rest} {machine} {pid} {start} /srv/{sessions.PREFIX}00"

    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        began = sessions._start_time(other.pid)
        assert sessions.stale(line(str(other.pid), began)) == []
        assert sessions.stale(line(str(other.pid), "1")) == [f"/srv/{sessions.PREFIX}00"], "the id was given again"
        with monkeypatch.context() as hidden:
            hidden.setattr(sessions, "_start_time", lambda _: "0")  # as /proc mounted with hidepid
            assert sessions.stale(line(str(other.pid), began)) == []
            assert sessions.stale(line(str(other.pid), began, "alive old")) == []
            assert sessions.stale(line(str(other.pid), began, "dead old")) == [f"/srv/{sessions.PREFIX}00"]
    assert sessions.stale(line(str(other.pid), began)) == [f"/srv/{sessions.PREFIX}00"]
    elsewhere = line(str(other.pid), began).replace(machine, machine[:-1] + "x")  # another container
    assert sessions.stale(elsewhere) == []
    assert sessions.stale(line(pid, start)) == [f"/srv/{sessions.PREFIX}00"]
    assert sessions.stale(line("9" * 5000, start)) == []


def notice(reach: SshReach) -> None:
    """Wait until it is noticed that the link went down."""
    end = time.monotonic() + 60.0
    while reach._connection.alive:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_close_reports_what_it_cannot_remove(bench: Bench) -> None:
    board = bench.board()
    reach = bench.reach(board)
    reach.facts()
    board.link.refuse()
    reach.close()
    assert [told for told in bench.told() if "could not be removed" in told]
    board.link.accept_again()


def test_reboot(bench: Bench, echo: Path) -> None:
    board = bench.board()
    reach = bench.reach(board, reboot="reboot")
    program = reach.start(echo, [])
    assert reach.reboot(30.0)
    assert "went down" in ended(program).message
    assert reach.run("echo back", 10.0).stdout == "back\n"
    assert not bench.reach(board).reboot(1.0)


def test_a_board_that_boots_already_is_not_rebooted_again(bench: Bench) -> None:
    board = bench.board()
    reach = bench.reach(board, reboot="false")
    reach.facts()
    booting = threading.Thread(target=board.reboot, args=(2.0,))
    booting.start()
    notice(reach)
    assert reach.reboot(30.0)
    booting.join()
    assert bench.told() == ["rung: it has restarted by itself"]


def test_a_reboot_that_is_refused(bench: Bench) -> None:
    reach = bench.reach(bench.board(), reboot="echo may not >&2; false")
    with pytest.raises(BoardLost, match="failed there: may not"):
        reach.reboot(10.0)


def test_a_board_that_does_not_come_back(bench: Bench) -> None:
    board = bench.board()
    reach = bench.reach(board, reboot="true")
    reach.connect()
    with pytest.raises(BoardLost, match=r"did not come back within \d+ s: it is still the same boot"):
        reach.reboot(2.0)


def test_power(bench: Bench, tmp_path: Path) -> None:
    board = bench.board()
    mark = tmp_path / "power"
    reach = bench.reach(board, power=["touch", str(mark)])
    reach.facts()
    board.new_boot()
    assert reach.power_cycle(20.0)
    assert mark.exists()
    with pytest.raises(BoardLost, match="cannot be started here"):
        bench.reach(board, power=["/nowhere/power.sh"]).power_cycle(5.0)
    with pytest.raises(BoardLost, match="failed with status 1"):
        bench.reach(board, power=["false"]).power_cycle(5.0)
    with pytest.raises(BoardLost, match=r"did not end within \d+ s"):
        bench.reach(board, power=["sleep", "100"]).power_cycle(1.0)
    assert not bench.reach(board).power_cycle(1.0)


def test_what_a_power_command_leaves_running_switches_the_power_on(bench: Bench, tmp_path: Path) -> None:
    board = bench.board()
    on = tmp_path / "on"
    reach = bench.reach(board, power=["sh", "-c", f"(sleep 0.5; touch {on}) & exit 0"])
    reach.facts()
    board.new_boot()
    assert reach.power_cycle(20.0)
    deadline = time.monotonic() + 20.0
    while not on.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_board_that_is_gone_for_good(bench: Bench, echo: Path) -> None:
    board = bench.board()
    reach = bench.reach(board)
    reach.start(echo, [])
    board.link.refuse()
    notice(reach)
    with pytest.raises(HostUnknown):
        reach.start(echo, [])
    board.link.accept_again()


def test_a_program_survives_that_its_folder_is_full(bench: Bench, echo: Path, tmp_path: Path) -> None:
    board = bench.board()
    reach = bench.reach(board)
    program = reach.start(echo, [])
    large = tmp_path / "large"
    large.write_bytes(bytes(8_000_000))
    board.faults.disk_bytes = 5_000_000  # of every folder
    with pytest.raises(BoardFull, match="did not accept a file of 8000000 bytes"):
        reach.put(large, 20.0)
    board.faults.disk_bytes = None
    program.send(b"here", 10.0)
    assert received(program, 4) == b"here"
    assert Path(reach.put(large, 20.0)).stat().st_size == 8_000_000
    reach.close()
    assert board.files() == []


def test_closing_ends_the_wait_for_a_restart(bench: Bench, echo: Path) -> None:
    board = bench.board()
    reach = bench.reach(board, reboot="true", power=["sleep", "100"])
    reach.start(echo, [])
    for step in (reach.reboot, reach.power_cycle):
        reach.connect()
        said: list[str] = []

        def wait(step: Callable[[float], bool] = step, said: list[str] = said) -> None:
            with pytest.raises(BoardLost) as lost:
                step(100.0)
            said.append(lost.value.message)

        waiting = threading.Thread(target=wait)
        waiting.start()
        time.sleep(1.0)
        began = time.monotonic()
        reach.clean()
        reach.close()
        waiting.join(30.0)
        assert time.monotonic() - began < 30.0
        assert said == ["board 'shelf-1' was closed"]
        with pytest.raises(BoardLost, match="was closed"):
            reach.power_cycle(100.0)  # the next rung is not climbed
    assert board.left() == []
    assert board.files() == []


def test_commands_that_may_hold_passwords_are_not_shown(bench: Bench) -> None:
    board = bench.board()
    for words in (["sh", "-c", "echo no plug >&2; exit 1", "-pSECRET"], ["/nowhere/SECRET"]):
        with pytest.raises(BoardLost, match="its `power` command") as lost:
            bench.reach(board, power=words).power_cycle(5.0)
        assert "SECRET" not in lost.value.message
    with pytest.raises(BoardLost, match="its `reboot` command failed there: no") as lost:
        bench.reach(board, reboot="echo no >&2; false SECRET").reboot(10.0)
    assert "SECRET" not in lost.value.message


def test_asking_what_a_board_is_changes_nothing_there(bench: Bench) -> None:
    board = bench.board()
    folder = Path(board.folders[0], sessions.PREFIX + "0123456789abcdef")
    folder.mkdir()
    (folder / "owner").write_text("elsewhere-1 1234 5678\n")
    long_ago = time.time() - 7200
    os.utime(folder, (long_ago, long_ago))
    before = board.files()
    bench.reach(board).describe()
    assert board.files() == before


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_server_that_sends_more_than_it_may(bench: Bench, tmp_path: Path, stream: str) -> None:
    board = bench.board()
    board.faults.ignores_window = True
    flood = tmp_path / "flood"
    flood.write_text(f"#!/bin/sh\nhead -c 100000000 /dev/zero >&{stream}\nsleep 1000\n")
    flood.chmod(0o700)
    program = bench.reach(board).start(flood, [])
    link, channel = program._process._link, program._process.channel
    link.join(30.0)  # nobody reads
    assert not link.is_active()
    assert len(channel.in_buffer) + len(channel.in_stderr_buffer) <= MOST_WAITING
    assert "went down" in ended(program).message


def test_errors_without_end_do_not_keep_a_reader(bench: Bench, tmp_path: Path) -> None:
    board = bench.board()
    flood = tmp_path / "flood"
    flood.write_text("#!/bin/sh\ncat /dev/zero >&2\n")
    flood.chmod(0o700)
    program = bench.reach(board).start(flood, [])
    for _ in range(5):
        assert program.receive() == b""
    program.close()


def test_closing_ends_a_call_that_nobody_answers(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    board = bench.board()
    with contextlib.ExitStack() as open_:
        silent = open_.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(8):  # until the system drops further calls
            client = open_.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(silent.getsockname())
        reach = bench.reach(board, ssh=f"pi@127.0.0.1:{silent.getsockname()[1]}")
        said: list[str] = []

        def connect() -> None:
            with pytest.raises(HostUnknown) as unknown:
                reach.connect(60.0)
            said.append(unknown.value.message)

        calling, call = threading.Event(), dial._connect

        def tell(*call_of: Any) -> None:
            calling.set()
            call(*call_of)

        monkeypatch.setattr(dial, "_connect", tell)
        waiting = threading.Thread(target=connect)
        waiting.start()
        assert calling.wait(60.0)
        began = time.monotonic()
        reach.close()
        waiting.join(30.0)
        assert len(said) == 1
        assert time.monotonic() - began < 30.0
