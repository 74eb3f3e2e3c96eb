"""The verbs of `edgetune boards` against a board that is a real SSH server on loopback (T1)."""

from __future__ import annotations

import io
import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import click
import paramiko
import pytest

from edgetune.boards.conditions import findings
from edgetune.boards.host_resources import OnEvent
from edgetune.boards.reach import Reach
from edgetune.boards.ssh.command_line import ssh_command
from edgetune.boards.ssh.known_hosts import fingerprint
from edgetune.boards.ssh.reach import SshReach
from edgetune.boards.transports.agent import AgentTransport
from edgetune.cli.main import run
from edgetune.cli.options import BOARD, TARGET
from edgetune.config.boards_file import BoardAddress, boards_path
from edgetune.pipeline.boards import diagnose, list_addresses
from edgetune.target.target import Target
from tests.boards.ssh_server import AARCH64, SshBoard


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return tmp_path / "home"


@pytest.fixture
def board(home: Path, tmp_path: Path) -> Iterator[SshBoard]:
    """A board "shelf-1" of target rpi4 that takes the key of the user and whose own key nobody knows."""
    file = home / ".ssh" / "id_ecdsa"
    key = paramiko.ECDSAKey.generate()
    key.write_private_key_file(str(file))
    served = SshBoard(tmp_path / "board", AARCH64, user_key=key)
    address = f"pi@127.0.0.1:{served.port}"
    assert run(["boards", "add", "shelf-1", "--target", "rpi4", "--ssh", address, "--identity", str(file), "-q"]) == 0
    try:
        yield served
    finally:
        served.close()


def test_add_and_list(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["boards", "add", "shelf-1", "--target", "rpi4", "--ssh", "pi@shelf-1.local", "--cores", "2,3"]
    argv += ["--reboot", "sudo reboot", "--power", "./power.sh 'shelf 1'", "--folder", "/srv/scratch", "--rpc", "tvm"]
    assert run([*argv, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"board": "shelf-1", "file": str(boards_path())}
    (address,) = list_addresses()
    assert (address.cores, address.reboot, address.rpc) == ((2, 3), "sudo reboot", "tvm")
    assert address.power == (str(Path.cwd() / "power.sh"), "shelf 1")
    assert run(argv) == 3
    assert "line 3: board 'shelf-1' exists already" in capsys.readouterr().err
    assert run(["boards", "add", "b", "--target", "rpi4", "--ssh", "h", "--cores", "x"]) == 2
    assert run(["boards", "add", "b", "--target", "rpi4", "--ssh", "pi:secret@h"]) == 2
    assert "secret" not in capsys.readouterr().err
    assert run(["boards", "list"]) == 0
    shown = capsys.readouterr().out
    assert "1 board" in shown
    assert "pi@shelf-1.local" in shown
    assert run(["boards", "list", "--json"]) == 0
    named = {target["name"]: target["boards"] for target in json.loads(capsys.readouterr().out)}
    assert [item["name"] for item in named["rpi4"]] == ["shelf-1"]
    assert named["host"] == []
    assert home.exists()


@pytest.mark.long
def test_completion_knows_boards_and_targets(home: Path) -> None:
    assert run(["boards", "add", "rack-1", "--target", "rpi4", "--ssh", "h", "-q"]) == 0
    context = click.Context(click.Command("x"))

    def names(kind: click.ParamType[str], incomplete: str) -> list[str]:
        return [item.value for item in kind.shell_complete(context, click.Argument(["b"]), incomplete)]

    assert names(BOARD, "r") == ["rack-1", "rp2040", "rp2350", "rpi3", "rpi4", "rpi5"]
    assert names(TARGET, "r") == ["rp2040", "rp2350", "rpi3", "rpi4", "rpi5"]
    (healthy,) = (found for found in diagnose({}, home) if found.check == "boards file")
    assert healthy.ok
    boards_path().write_text("boards: [", encoding="utf-8")
    assert names(BOARD, "h") == ["h200", "host"]
    (wrong,) = (found for found in diagnose({}, home) if found.check == "boards file")
    assert (wrong.ok, wrong.required, wrong.exit_code) == (False, True, 3)
    assert home.exists()


def test_trust_shows_asks_and_remembers(
    board: SshBoard, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = fingerprint(board.host_key)
    assert run(["boards", "trust", "shelf-1", "--json"]) == 23
    assert "--yes" in json.loads(capsys.readouterr().err)["error"]["message"]
    monkeypatch.setattr("sys.stdin", io.StringIO())  # of a job without a terminal
    assert run(["boards", "trust", "shelf-1"]) == 23
    assert "was not trusted: confirm it, or use --yes" in capsys.readouterr().err
    assert run(["boards", "trust", "rpi4", "--yes"]) == 0  # the only board of its kind
    said = capsys.readouterr().out
    assert f"shows {shown}, which is not known yet" in said
    assert run(["boards", "trust", "shelf-1", "--json"]) == 0
    host = f"[127.0.0.1]:{board.port}"
    assert json.loads(capsys.readouterr().out) == [{"host": host, "key": shown, "before": "known"}]
    board.host_key = paramiko.ECDSAKey.generate()
    assert run(["boards", "trust", "shelf-1", "--yes"]) == 0
    assert "is NOT the key that was known" in capsys.readouterr().out
    assert run(["boards", "trust", "shelf-1"]) == 0
    assert "known" in capsys.readouterr().out


def test_trust_says_no_to_what_has_no_address(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, words in {
        "host": "it is this machine",
        "qemu-aarch64": "it is emulated here",
        "rpi4": "edgetune boards add NAME --target rpi4",
    }.items():
        assert run(["boards", "trust", name]) == 2
        assert words in capsys.readouterr().err
    for name in ("a", "b"):
        assert run(["boards", "add", name, "--target", "rpi4", "--ssh", "h", "-q"]) == 0
    capsys.readouterr()
    assert run(["boards", "trust", "rpi4"]) == 2
    assert "'rpi4' has several boards: give one of a, b" in capsys.readouterr().err
    assert home.exists()


def test_shell_of_the_systems_ssh_knows_what_was_trusted(board: SshBoard, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["boards", "trust", "shelf-1", "--yes", "-q"]) == 0
    capfd.readouterr()
    assert run(["boards", "shell", "shelf-1", "--", "echo $HOME; exit 7"]) == 7
    assert capfd.readouterr().out == f"{board.root / 'home'}\n"
    assert run(["boards", "shell", "shelf-1", "--", "echo", "two words", "$HOME"]) == 0
    assert capfd.readouterr().out == "two words $HOME\n"
    assert run(["boards", "shell", "shelf-1", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["command"][0] == "ssh"
    assert run(["boards", "shell", "qemu-rpi4", "--json"]) == 2
    assert "no command to print: leave out --json" in capfd.readouterr().err
    assert run(["boards", "shell", "generic-armv7", "--", "tool", "--json"]) == 2  # the tool's flag, not ours
    assert capfd.readouterr().err.startswith("edgetune: error: ")
    for name in ("host", "generic-armv7"):
        assert run(["boards", "shell", name]) == 2
        assert "has no " in capfd.readouterr().err


def test_the_command_line_of_a_shell(home: Path) -> None:
    address = BoardAddress(name="a", target="rpi4", ssh="pi@[fe80::1%eth0]:2222", identity="/k")
    command = ssh_command(address, ("uptime",))
    assert command[3:] == [
        "-i",
        "/k",
        "-o",
        "IdentitiesOnly=yes",
        "-l",
        "pi",
        "-p",
        "2222",
        "--",
        "fe80::1%eth0",
        "uptime",
    ]
    assert ssh_command(BoardAddress(name="a", target="rpi4", ssh="shelf"))[3:] == ["--", "shelf"]
    asked = subprocess.run([*command[:-3], "-G", "shelf"], capture_output=True, text=True, check=True)
    assert f"globalknownhostsfile /etc/ssh/ssh_known_hosts {home.parent}/config/edgetune/known_hosts" in asked.stdout


def rows(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    found = json.loads(capsys.readouterr().out)
    return {row["check"]: row for row in found if row["board"]}


@pytest.mark.long
def test_check_tells_each_step(board: SshBoard, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["boards", "check", "shelf-1", "--json"]) == 23
    found = rows(capsys)
    assert list(found) == ["reachable", "host key"]
    assert found["host key"]["fix"] == "edgetune boards trust shelf-1"
    assert run(["boards", "trust", "shelf-1", "--yes", "-q"]) == 0
    capsys.readouterr()
    assert run(["boards", "check", "shelf-1", "--json"]) == 0
    found = rows(capsys)
    assert {"login", "architecture", "libc", "cores", "folder", "lock", "governor", "clock", "load"} <= found.keys()
    assert all(row["ok"] or row["fix"] for row in found.values())
    assert board.files() == []
    assert run(["boards", "check", "shelf-1"]) == 0
    assert "fix" in capsys.readouterr().out
    board.faults.refuse_login = True
    assert run(["boards", "check", "shelf-1", "--json"]) == 22
    assert str(rows(capsys)["login"]["fix"]).startswith("ssh-copy-id ")
    board.faults.refuse_login = False
    board.answers["uname -m"] = "x86_64"
    assert run(["boards", "check", "shelf-1", "--json"]) == 24
    found = rows(capsys)
    assert not found["architecture"]["ok"]
    assert "governor" in found  # what can still be read is shown
    board.link.refuse()
    assert run(["boards", "check", "shelf-1", "--json"]) == 21
    assert not rows(capsys)["reachable"]["ok"]


def test_one_lost_board_does_not_hide_its_twin(board: SshBoard, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["boards", "trust", "shelf-1", "--yes", "-q"]) == 0
    assert run(["boards", "add", "shelf-0", "--target", "rpi4", "--ssh", "127.0.0.1:1", "-q"]) == 0
    capsys.readouterr()
    assert run(["boards", "check", "rpi4", "--json"]) == 21
    found = [row for row in json.loads(capsys.readouterr().out) if row["board"]]
    assert [row["check"] for row in found if row["board"] == "shelf-0"] == ["reachable"]
    assert len([row for row in found if row["board"] == "shelf-1"]) > 5
    assert board.files() == []


@pytest.mark.parametrize(
    ("told", "skew_s", "check", "detail", "fix"),
    [
        (
            {"scaling_governor": ["ondemand"]},
            0,
            "governor",
            "ondemand: its clock will vary",
            "echo performance | sudo tee",
        ),
        ({}, 90, "clock", "90 s ahead of this machine's", "timedatectl set-ntp true"),
        ({}, -900, "clock", "900 s behind this machine's", "timedatectl set-ntp true"),
        (
            {"throttled": ["throttled=0x50005"]},
            0,
            "throttling",
            "the voltage is too low; it is throttled",
            "power supply",
        ),
        ({"throttled": ["40000"]}, 0, "throttling", "since boot: it is throttled", "heat sink"),
        ({"temp": ["45000", "82100"]}, 0, "temperature", "82 °C", "let it cool"),
        ({"temp": ["71000"]}, 0, "temperature", "71 °C", "heat sink"),
        ({"load": ["1.50 0.9 0.7 1/99 1234"]}, 0, "load", "1.50 runnable", "boards shell b -- top"),
        ({"lock": [""]}, 0, "lock", "another run measures on it now", "wait"),
    ],
)
def test_conditions_that_cost_trust(
    told: dict[str, list[str]], skew_s: float, check: str, detail: str, fix: str
) -> None:
    (wrong,) = (finding for finding in findings("b", told, skew_s) if not finding.ok)
    assert (wrong.check, wrong.required) == (check, False)
    assert wrong.detail.startswith(detail)
    assert fix in wrong.fix


def test_conditions_that_are_fine_or_not_told() -> None:
    calm = {
        "scaling_governor": ["performance"],
        "throttled": ["throttled=0x0"],
        "temp": ["45000", ""],
        "load": ["0.02 0.1 0.1 1/99 1234"],
    }
    fixed = {"scaling_governor": ["userspace"], "scaling_min_freq": ["1500000"], "scaling_max_freq": ["1500000"]}
    for told in (calm, fixed, {}, {"temp": ["?", "9" * 5000], "load": ["?"], "throttled": ["error=1 x"]}):
        assert [finding for finding in findings("b", told, 0.0) if not finding.ok] == []


def test_a_clock_that_is_wrong_is_seen(board: SshBoard, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["boards", "trust", "shelf-1", "--yes", "-q"]) == 0
    board.answers["date +%s"] = str(int(time.time()) - 3600)
    capsys.readouterr()
    assert run(["boards", "check", "shelf-1", "--json"]) == 0
    clock = rows(capsys)["clock"]
    assert re.fullmatch(r"3[56]\d\d s behind this machine's", str(clock["detail"]))
    board.answers["date +%s"] = "9" * 5000
    assert run(["boards", "check", "shelf-1", "--json"]) == 20
    assert not rows(capsys)["shell"]["ok"]


def test_a_board_that_can_do_less_is_told(
    board: SshBoard, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def link(_: object, target: Target, address: BoardAddress | None, on_event: OnEvent) -> Reach:
        assert address is not None
        return SshReach(address, target, on_event=on_event, folders=board.folders)

    monkeypatch.setattr(AgentTransport, "link", link)
    assert run(["boards", "trust", "shelf-1", "--yes", "-q"]) == 0
    board.faults.noexec = ["shm"]
    board.faults.noise = b"Welcome to shelf-1\n"
    capsys.readouterr()
    assert run(["boards", "check", "shelf-1", "--json"]) == 0
    found = rows(capsys)
    assert "noexec" in str(found["fallback"]["detail"])
    assert str(found["folder"]["detail"]).startswith(str(board.root / "tmp"))
    board.faults.noexec = ["shm", "tmp"]
    assert run(["boards", "check", "shelf-1", "--json"]) == 25
    found = rows(capsys)
    assert not found["folder"]["ok"]
    assert "load" in found
    assert board.files() == []


@pytest.mark.long
def test_setup_opens_the_board_and_leaves_nothing(
    board: SshBoard, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("edgetune.boards.setup._LOCK_S", 0.2)
    assert run(["boards", "setup", "shelf-1", "--json"]) == 23
    assert "agent" not in rows(capsys)
    assert run(["boards", "trust", "shelf-1", "--yes", "-q"]) == 0
    capsys.readouterr()
    assert run(["boards", "setup", "shelf-1", "--json"]) == 0
    assert str(rows(capsys)["agent"]["detail"]).startswith("ran there and was removed again")
    assert (board.files(), board.left()) == ([], [])
    with socket.socket(socket.AF_UNIX) as somebody:
        somebody.bind(f"\0edgetune-{board.mark}")
        somebody.listen(4)
        assert run(["boards", "setup", "shelf-1", "--json"]) == 26
        found = rows(capsys)
        assert found["lock"]["detail"] == "another run measures on it now"
        assert not found["agent"]["ok"]
        assert found["agent"]["fix"] == "edgetune boards check shelf-1"
    assert (board.files(), board.left()) == ([], [])


@pytest.mark.long
def test_setup_of_a_real_board_asks_for_no_emulator(
    board: SshBoard, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, *rest: None if name.startswith("qemu-") else which(name, *rest))
    assert run(["boards", "trust", "shelf-1", "--yes", "-q"]) == 0
    capsys.readouterr()
    assert run(["boards", "setup", "shelf-1", "--json"]) == 0
    told = capsys.readouterr().out
    assert "qemu" not in told
    assert board.commands
    assert run(["boards", "setup", "qemu-aarch64", "--json"]) == 9
    assert "sudo apt-get install qemu-user" in capsys.readouterr().out


@pytest.mark.long
def test_a_board_with_another_instruction_set(board: SshBoard, capsys: pytest.CaptureFixture[str]) -> None:
    board.answers["uname -m"] = "riscv64"
    address = f"pi@127.0.0.1:{board.port}"
    assert run(["boards", "add", "star-1", "--target", "generic-riscv64", "--ssh", address, "-q"]) == 0
    assert run(["boards", "trust", "star-1", "--yes", "-q"]) == 0
    capsys.readouterr()
    assert run(["boards", "setup", "generic-riscv64", "--json"]) == 0
    found = rows(capsys)
    assert str(found["architecture"]["detail"]).startswith("riscv64, 64-bit programs")
    assert found["agent"]["ok"]


@pytest.mark.long
@pytest.mark.usefixtures("home")
def test_emulated_boards_need_no_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["boards", "setup", "qemu-aarch64", "--json"]) == 0
    assert rows(capsys)["agent"]["ok"]
    assert run(["boards", "check", "qemu-aarch64"]) == 0
    assert "started here" in capsys.readouterr().out


def test_an_emulated_machine_without_image_names_the_command(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    assert run(["boards", "check", "qemu-rpi4", "--json"]) == 8
    assert rows(capsys)["reachable"]["fix"] == "edgetune boards setup qemu-rpi4"
    assert run(["boards", "shell", "qemu-rpi4", "--", "true"]) == 8
    assert "edgetune boards setup qemu-rpi4" in capsys.readouterr().err
