"""Emulated boards at work: login with a verified key, programs, reset, power, several at once, and what remains."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from edgetune.boards.agent.board import AgentBoard
from edgetune.boards.machine.image import Image, find_image, setup
from edgetune.boards.machine.machine import Machine
from edgetune.boards.machine.reach import MachineReach
from edgetune.boards.ssh.client_config import ClientConfig
from edgetune.boards.ssh.reach import SshReach
from edgetune.errors import BoardLost, HostKeyRefused, ToolchainMissing
from edgetune.events import Event
from edgetune.target.target import Target, load_target
from tests.boards.listening import listeners

_BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
_ANSWER_S = 60.0

STARTER = """
import sys
from pathlib import Path
from edgetune.boards.agent.board import AgentBoard
from edgetune.boards.machine.image import find_image
from edgetune.boards.machine.machine import Machine
from edgetune.target.target import load_target
Machine(find_image(load_target("qemu-rpi4"), Path(sys.argv[1])), "qemu-rpi4", "orphan").start()
"""


@pytest.fixture(scope="module")
def target() -> Target:
    return load_target("qemu-rpi4")


@pytest.fixture(scope="module")
def image(target: Target) -> Image:
    return setup(target)


@pytest.fixture
def cache(image: Image, tmp_path: Path) -> Path:
    """Return a cache of our own with that image: other runs on this machine use the shared one."""
    folder = tmp_path / "machines" / "qemu-rpi4"
    folder.mkdir(parents=True)
    for original in (image.folder, image.client_key.parent):
        (folder / original.name).symlink_to(original)
    return folder.parent


@pytest.fixture(scope="module")
def board(image: Image, target: Target) -> Iterator[MachineReach]:
    """Keep one machine for all tests that leave it as they found it."""
    events: list[Event] = []
    board = MachineReach(target, events.append, name="board-1")
    board.connect(_ANSWER_S)
    process = psutil.Process(board.machine.pid)
    folder = board.ssh_config.parent
    assert folder.parent == image.folder.parent / "runs"
    yield board
    board.close()
    board.close()
    assert not process.is_running()
    assert not folder.exists()
    assert not [event for event in events if event.data["what"] == "lost"], "nothing is told about a clean end"


@pytest.mark.long
def test_board_is_what_its_target_says(board: MachineReach) -> None:
    facts = board.facts()
    assert (facts.machine, facts.bits, facts.cores) == ("aarch64", 64, 4)
    assert facts.libc.startswith("glibc 2.")
    assert facts.free_bytes > 100 << 20
    assert re.fullmatch("[0-9a-f]{32}", facts.identity["machine_id"])
    assert board.run("id -un; uname -n", _ANSWER_S).stdout.split() == ["board", "board-1"]


def test_cross_compiled_program_runs_there(board: MachineReach, echo: Path) -> None:
    path = board.put(echo, _ANSWER_S)
    done = board.run(f"{path} hello", _ANSWER_S, b"round and back")
    assert (done.status, done.stdout) == (0, "round and back")
    assert "words: hello" in done.stderr
    board.clean()
    assert board.run(f"ls {path}", _ANSWER_S).status != 0


def test_only_loopback_leads_there_and_nothing_leads_out(board: MachineReach) -> None:
    port = int(board.address.ssh.rpartition(":")[2])
    assert listeners([board.machine.pid]) == [("127.0.0.1", port)]
    refused = board.run(f"timeout 5 bash -c 'echo > /dev/tcp/10.0.2.2/{port}'", _ANSWER_S)
    assert refused.status != 0


def test_openssh_verifies_the_host_key(board: MachineReach) -> None:
    command = ["ssh", "-F", str(board.ssh_config), "-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes"]
    done = subprocess.run([*command, board.name, "uname -m"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("aarch64\n", 0), done.stderr


def test_another_host_key_is_refused(board: MachineReach, target: Target, tmp_path: Path) -> None:
    other = subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")], check=True, capture_output=True
    )
    assert other.returncode == 0
    kind, key, *_ = (tmp_path / "other.pub").read_text().split()
    (tmp_path / "known_hosts").write_text(f"{board.name} {kind} {key}\n")
    text = board.ssh_config.read_text()
    (tmp_path / "config").write_text(
        re.sub(r'UserKnownHostsFile ".*"', f"UserKnownHostsFile {tmp_path}/known_hosts", text)
    )
    reach = SshReach(board.address, target, config=ClientConfig([tmp_path / "config"]))
    with pytest.raises(HostKeyRefused):
        reach.connect(_ANSWER_S)


@pytest.mark.long
def test_second_board_is_another_one_and_its_agent_comes_back_after_a_power_failure(
    board: MachineReach, target: Target
) -> None:
    events: list[Event] = []
    twin = MachineReach(target, events.append, name="board-2")
    measured = AgentBoard(target, twin, on_event=events.append)
    try:
        measured.reserve()
        assert twin.address.ssh != board.address.ssh
        both = [reach.run(f"{_BOOT_ID}; cat /etc/machine-id", _ANSWER_S).stdout.split() for reach in (board, twin)]
        assert len({*both[0], *both[1]}) == 4

        os.kill(twin.machine.pid, signal.SIGKILL)
        with pytest.raises(BoardLost):
            measured.health()
        measured.recover()
        assert measured.health()
        measured.release()
    finally:
        measured.close()
    rungs = [str(event.data["detail"]) for event in events if event.data["what"] == "rung"]
    assert any("succeeded" in rung for rung in rungs), rungs
    with pytest.raises(BoardLost):
        assert not twin.machine.alive
    assert board.run("true", _ANSWER_S).status == 0


@pytest.mark.long
def test_reset_and_power_cycle_bring_it_back_as_new(board: MachineReach, echo: Path) -> None:
    path = board.put(echo, _ANSWER_S)
    address, boots = board.address, [board.run(_BOOT_ID, _ANSWER_S).stdout]
    assert board.reboot(120)
    boots.append(board.run(_BOOT_ID, _ANSWER_S).stdout)
    assert board.run(f"ls {path}", _ANSWER_S).status != 0

    os.kill(board.machine.pid, signal.SIGKILL)
    with pytest.raises(BoardLost):
        board.run("true", _ANSWER_S)
    while board.machine.alive:
        time.sleep(0.01)
    assert not board.reboot(5), "a machine that is off has no reset button"
    with pytest.raises(BoardLost, match=r"board 'board-1' is off: .* a power cycle starts it again"):
        board.connect()
    recovery = threading.Thread(target=board.power_cycle, args=(120,))  # as the session does it
    recovery.start()
    recovery.join()
    boots.append(board.run(_BOOT_ID, _ANSWER_S).stdout)
    assert len(set(boots)) == 3
    assert board.address == address
    assert board.run(f"{board.put(echo, _ANSWER_S)} again", _ANSWER_S, b"!").stdout == "!"


@pytest.mark.long
def test_machine_that_does_not_boot_in_time_is_named_with_its_last_words(cache: Path, target: Target) -> None:
    machine = Machine(find_image(target, cache), "qemu-rpi4", "slow")
    with pytest.raises(BoardLost, match=r"board 'slow' has not booted within 0\.2 s: .+"):
        machine.start(0.2)
    assert not machine.alive
    machine.stop()
    assert not list((cache / "qemu-rpi4" / "runs").iterdir())


def test_emulator_that_does_not_start_is_named_with_its_last_words(image: Image, tmp_path: Path) -> None:
    (tmp_path / "kernel").write_bytes(b"")
    broken = Image(tmp_path / "gone", image.recipe, image.client_key, image.host_public)
    machine = Machine(broken, "qemu-rpi4", "broken")
    with pytest.raises(BoardLost, match=r"the emulator of board 'broken' does not start: .*gone/kernel"):
        machine.start(20)
    machine.stop()


@pytest.mark.long
def test_missing_emulator_is_named(cache: Path, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(cache))
    reach = MachineReach(target, cache=cache)
    with pytest.raises(ToolchainMissing, match="sudo apt-get install qemu-system-arm"):
        reach.connect()
    reach.close()
    assert not list((cache / "qemu-rpi4" / "runs").iterdir())


@pytest.mark.long
def test_machine_dies_with_its_process_and_its_files_go_with_the_next_one(cache: Path, target: Target) -> None:
    runs = cache / "qemu-rpi4" / "runs"
    child = subprocess.Popen([sys.executable, "-c", STARTER, str(cache)])
    try:
        emulator = _emulator(psutil.Process(child.pid))
        child.kill()
        assert not psutil.wait_procs([emulator], timeout=20)[1], "the emulator outlives the process that started it"
    finally:
        child.kill()
        child.wait()
    left = set(runs.iterdir())
    assert left
    machine = Machine(find_image(target, cache), "qemu-rpi4", "next")
    with pytest.raises(BoardLost):
        machine.start(0.1)
    assert not left & set(runs.iterdir())
    machine.stop()


def _emulator(parent: psutil.Process) -> psutil.Process:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for child in parent.children():
            if child.name().startswith("qemu-system"):
                return child
        time.sleep(0.05)
    raise AssertionError("no emulator was started")
