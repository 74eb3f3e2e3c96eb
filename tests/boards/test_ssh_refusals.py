"""What cannot be reached is refused with its class and one sentence, in time, and nothing stays open."""

from __future__ import annotations

import logging
import socket
import threading
import time
from pathlib import Path

import paramiko
import pytest

from edgetune.boards.ssh.client_config import ClientConfig
from edgetune.boards.ssh.connection import Connection
from edgetune.boards.ssh.deadline import Deadline
from edgetune.boards.ssh.known_hosts import HostKeyEntry, fingerprint, own_file, trust
from edgetune.boards.ssh.route import resolve_route
from edgetune.boards.ssh.trusting import offered_keys
from edgetune.errors import (
    AuthenticationRefused,
    BoardFull,
    BoardLost,
    BoardUnavailable,
    BoardUnfit,
    ConfigError,
    HostKeyRefused,
    HostUnknown,
    OutputRefused,
)
from edgetune.target.target import load_target
from tests.boards.ssh_bench import Bench
from tests.boards.ssh_server import SshBoard


def refused(bench: Bench, board: SshBoard, kind: type[BoardUnavailable], **more: object) -> str:
    """Return the sentence with which a board is refused."""
    with pytest.raises(kind) as caught:
        bench.reach(board, **more).facts()  # type: ignore[arg-type]
    assert type(caught.value) is kind
    sentence = caught.value.message
    assert "shelf-1" in sentence
    assert "\n" not in sentence
    return sentence


def test_unknown_host(bench: Bench) -> None:
    assert "no host nowhere.invalid" in refused(bench, bench.board(), HostUnknown, ssh="pi@nowhere.invalid")


def test_refused_port(bench: Bench) -> None:
    board = bench.board()
    board.link.refuse()
    assert f"port {board.port} of 127.0.0.1 refuses" in refused(bench, board, HostUnknown)


def test_a_host_that_takes_connections_but_says_nothing(bench: Bench) -> None:
    board = bench.board()
    board.link.freeze()
    reach = bench.reach(board)
    began = time.monotonic()
    with pytest.raises(BoardLost, match="did not answer as an SSH server within 1 s"):
        reach.connect(1.0)
    assert time.monotonic() - began < 20.0


def test_something_else_than_an_ssh_server(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            client, _ = listener.accept()
            with client:
                client.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        board = bench.board()
        sentence = refused(bench, board, BoardLost, ssh=f"127.0.0.1:{listener.getsockname()[1]}")
        thread.join()
    assert "is that an SSH server?" in sentence


def test_wrong_key(bench: Bench) -> None:
    board = bench.board()
    board.faults.refuse_login = True
    sentence = refused(bench, board, AuthenticationRefused)
    assert "user 'pi'" in sentence
    assert "id_ecdsa" in sentence
    assert f"ssh-copy-id -p {board.port} pi@127.0.0.1" in sentence


def test_no_key_at_all(bench: Bench) -> None:
    (bench.home / ".ssh" / "id_ecdsa").unlink()
    assert "there is no key in the agent or in ~/.ssh" in refused(bench, bench.board(), AuthenticationRefused)


def test_a_key_with_a_passphrase_is_not_asked_for(bench: Bench) -> None:
    bench.key.write_private_key_file(str(bench.home / ".ssh" / "id_ecdsa"), password="secret")  # noqa: S106 (nobody else has this key)
    sentence = refused(bench, bench.board(), AuthenticationRefused)
    assert "encrypted: add it with ssh-add" in sentence
    assert "secret" not in sentence


def test_unknown_host_key_and_trust(bench: Bench) -> None:
    board = bench.board(known=False)
    sentence = refused(bench, board, HostKeyRefused)
    shown = fingerprint(board.host_key)
    assert shown.startswith("ECDSA SHA256:")
    assert shown in sentence
    assert "`edgetune boards trust shelf-1`" in sentence
    (key,) = offered_keys(bench.address(board))
    assert (key.status, key.fingerprint, key.host) == ("unknown", shown, f"[127.0.0.1]:{board.port}")
    assert key.trust() == own_file()
    assert own_file().read_text() == board.known_hosts_line
    assert bench.reach(board).facts().cores == 4
    assert offered_keys(bench.address(board))[0].status == "known"


def test_changed_host_key(bench: Bench) -> None:
    board = bench.board()
    old = fingerprint(board.host_key).split()[1]
    board.host_key = paramiko.ECDSAKey.generate()
    sentence = refused(bench, board, HostKeyRefused)
    assert fingerprint(board.host_key) in sentence
    assert old in sentence
    assert "known_hosts:1" in sentence
    (key,) = offered_keys(bench.address(board))
    assert key.status == "changed"
    key.trust()
    assert bench.reach(board).facts().cores == 4


@pytest.mark.usefixtures("bench")
def test_trust_keeps_other_hosts_and_leaves_no_scrap() -> None:
    first, second = paramiko.ECDSAKey.generate(), paramiko.ECDSAKey.generate()
    trust("one", first)
    own_file().write_text(own_file().read_text().rstrip("\n"))  # an editor may leave the last line open
    trust("two", first)
    trust("one", second)
    assert [line.split()[0] for line in own_file().read_text().splitlines()] == ["two", "one"]
    assert [path.name for path in own_file().parent.iterdir()] == ["known_hosts"]


def test_revoked_host_key(bench: Bench) -> None:
    board = bench.board()
    bench.know(f"@revoked {board.known_hosts_line}")
    assert "revoked" in refused(bench, board, HostKeyRefused)


def test_an_exception_of_a_known_hosts_line_holds_in_any_case() -> None:
    entry = HostKeyEntry(("shelf-*", "!Shelf-1"), "ssh-ed25519", b"", "known_hosts:1")
    assert [name for name in ("shelf-1", "SHELF-1", "shelf-2") if entry.holds(name)] == ["shelf-2"]


def test_hashed_names_in_known_hosts(bench: Bench) -> None:
    board = bench.board(known=False)
    name = paramiko.HostKeys.hash_host(f"[127.0.0.1]:{board.port}")
    bench.know(f"{name} {board.host_key.get_name()} {board.host_key.get_base64()}\n")
    assert bench.reach(board).facts().cores == 4


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"uname -m": "armv6l"}, "has a processor of kind armv6l, which cannot run aarch64 programs"),
        ({"getconf LONG_BIT": "32"}, "32-bit userland on a aarch64 kernel"),
        ({"getconf GNU_LIBC_VERSION": "glibc 2.13"}, "glibc 2.13, older than glibc 2.17"),
        (
            {"getconf GNU_LIBC_VERSION": "missing", "ldd --version": "musl libc (aarch64) Version 1.2.4"},
            "has musl 1.2.4, but needs glibc 2.17",
        ),
    ],
)
def test_boards_that_do_not_fit(bench: Bench, answers: dict[str, str], words: str) -> None:
    board = bench.board(answers)
    assert words in refused(bench, board, BoardUnfit)
    assert board.files() == []  # nothing is put on a board that will not do


def test_a_32_bit_userland_fits_a_32_bit_target(bench: Bench) -> None:
    board = bench.board({"getconf LONG_BIT": "32"})
    assert bench.reach(board, target=load_target("generic-armv7")).facts().bits == 32


def test_no_space(bench: Bench) -> None:
    board = bench.board()
    board.faults.disk_bytes = 0
    sentence = refused(bench, board, BoardFull)
    assert "0 KiB free" in sentence
    assert all(folder in sentence for folder in board.folders)
    assert board.files() == []


def test_refused_channels(bench: Bench) -> None:
    board = bench.board()
    board.faults.refuse_channels = True
    assert "refuses another session channel" in refused(bench, board, BoardUnavailable)


def test_the_address_makes_no_sense(bench: Bench) -> None:
    bench.configure("Host loop\nProxyJump loop\n")
    with pytest.raises(ConfigError, match="back to itself"):
        resolve_route("loop", ClientConfig())


def test_nothing_is_printed_when_links_break(
    bench: Bench, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # pytest's own handler would hide what logging's last resort prints
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    board = bench.board()
    reach = bench.reach(board)
    reach.connect()
    board.link.drop()
    with pytest.raises(BoardUnavailable):
        reach._connection.channel(Deadline(5.0))
    board.link.drop_after = 100
    with pytest.raises(BoardUnavailable):
        reach.connect(5.0)
    reach.close()
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_an_unwritable_home_of_ours(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    with pytest.raises(OutputRefused, match="cannot be written"):
        trust("host", bench.key)


def test_a_connection_that_fails_leaves_no_thread_and_no_socket(bench: Bench) -> None:
    board = bench.board(known=False)
    for _ in range(3):
        with pytest.raises(HostKeyRefused):
            Connection("shelf-1", resolve_route(bench.address(board).ssh, ClientConfig())).open(10.0)
    deadline = time.monotonic() + 20.0
    while time.monotonic() < deadline:
        clients = [t for t in threading.enumerate() if isinstance(t, paramiko.Transport) and not t.server_mode]
        if not clients:
            break
        time.sleep(0.1)
    assert not clients


def test_a_server_that_runs_no_commands(bench: Bench) -> None:
    board = bench.board()
    board.faults.refuse_commands = True
    assert "refuses to run commands" in refused(bench, board, BoardUnavailable)
