"""Ways to a board: jump hosts, ProxyCommand, agent, tunnels; with paramiko's server and with a real sshd."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import paramiko
import pytest

from edgetune.boards.ssh.client_config import ClientConfig
from edgetune.boards.ssh.reach import SshReach
from edgetune.boards.ssh.route import resolve_route
from edgetune.boards.ssh.trusting import offered_keys
from edgetune.config.boards_file import BoardAddress
from edgetune.errors import AuthenticationRefused, BoardLost, BoardUnavailable, ConfigError, HostUnknown
from edgetune.target.target import Target, load_target
from tests.boards.agent_bench import processes
from tests.boards.conftest import ECHO
from tests.boards.listening import listeners
from tests.boards.openssh import OpenSshServer
from tests.boards.ssh_bench import Bench, ended, received

Serve = Callable[..., OpenSshServer]


@pytest.fixture
def sshd(bench: Bench, tmp_path: Path) -> Iterator[Serve]:
    """Start real servers that let the bench's key in."""
    servers: list[OpenSshServer] = []

    def serve(*settings: str, sftp: bool = True) -> OpenSshServer:
        servers.append(OpenSshServer(tmp_path / f"sshd{len(servers)}", bench.key, *settings, sftp=sftp))
        bench.know(servers[-1].known_hosts_line)
        return servers[-1]

    yield serve
    for reach in bench.reaches:
        reach.close()
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def native_echo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("native")
    (folder / "echo.c").write_text(ECHO)
    subprocess.run(["gcc", "-O1", "-o", "echo", "echo.c"], cwd=folder, check=True)
    return folder / "echo"


def native() -> Target:
    """A target for boards that are this machine."""
    isa = {"x86_64": "x86_64", "aarch64": "aarch64"}[os.uname().machine]
    return load_target("generic-aarch64").model_copy(update={"isa": isa})


def way(bench: Bench, server: OpenSshServer, ssh: str = "", identity: str | None = None) -> SshReach:
    address = BoardAddress(
        name="shelf-1",
        target="native",
        ssh=ssh or f"{server.user}@127.0.0.1:{server.port}",
        folder=str(server.root / "tmp"),
        identity=identity,
    )
    reach = SshReach(address, native(), on_event=bench.events.append)
    bench.reaches.append(reach)
    return reach


def left(server: OpenSshServer) -> list[Path]:
    return [*(server.root / "tmp").iterdir(), *(server.root / "home").iterdir()]


@pytest.mark.parametrize("sftp", [True, False])
def test_a_real_server(bench: Bench, sshd: Serve, native_echo: Path, sftp: bool) -> None:
    server = sshd(sftp=sftp)
    reach = way(bench, server)
    facts = reach.facts()
    assert (facts.machine, facts.bits) == (os.uname().machine, 64)
    assert facts.libc.startswith("glibc 2.")
    assert facts.folder.startswith(str(server.root / "tmp"))
    program = reach.start(native_echo, ["words"])
    data = os.urandom(3_000_000)
    sender = threading.Thread(target=program.send, args=(data, 60.0))
    sender.start()
    assert received(program, len(data), 60.0) == data
    sender.join()
    assert program.diagnostics() == "words: words"
    assert bool([told for told in bench.told() if "files are sent through cat from now on" in told]) == (not sftp)
    pid = program._process.pid
    assert Path(f"/proc/{pid}").is_dir()
    assert reach.run("cat; exit 9", 20.0, stdin=b"x" * 100_000).status == 9
    reach.close()
    end = time.monotonic() + 10.0
    while Path(f"/proc/{pid}").is_dir() and time.monotonic() < end:
        time.sleep(0.02)  # it was killed, or its server has yet to look
    assert not Path(f"/proc/{pid}").is_dir()
    assert left(server) == []


def test_a_real_server_that_goes_away(bench: Bench, sshd: Serve, native_echo: Path) -> None:
    server = sshd()
    reach = way(bench, server)
    program = reach.start(native_echo, [])
    server.cut()
    assert "went down" in ended(program).message
    again = reach.start(native_echo, [])
    again.send(b"here", 10.0)
    assert received(again, 4) == b"here"
    reach.close()
    assert left(server) == []


def test_real_server_kills_a_command_that_does_not_end(bench: Bench, sshd: Serve) -> None:
    reach = way(bench, sshd())
    reach.connect()
    long = f"1234.{os.getpid()}"  # unlike that of anybody else's test
    with pytest.raises(BoardLost, match=r"did not end within \d+ s"):
        reach.run(f"echo $$; sleep {long} & sleep {long}", 1.0)
    end = time.monotonic() + 10.0
    while running := processes(lambda command: f"sleep {long}" in command):
        assert time.monotonic() < end, f"{running} go on"
        time.sleep(0.02)


def test_an_account_without_a_shell(bench: Bench, sshd: Serve) -> None:
    reach = way(bench, sshd("ForceCommand echo files only; echo no shell >&2; exit 1"))
    with pytest.raises(BoardUnavailable, match="does not run commands by /bin/sh; it printed: files only no shell"):
        reach.run("true", 10.0)


def test_two_jump_hosts(bench: Bench, sshd: Serve, native_echo: Path) -> None:
    first, second, board = sshd(), sshd(), sshd()
    user = board.user
    bench.configure(
        f"Host first\nHostName 127.0.0.1\nPort {first.port}\nUser {user}\n"
        f"Host second\nHostName 127.0.0.1\nPort {second.port}\nUser {user}\n"
        f"Host shelf\nHostName 127.0.0.1\nPort {board.port}\nUser {user}\nProxyJump first,second\n"
    )
    reach = way(bench, board, "shelf")
    program = reach.start(native_echo, [], 30.0)
    program.send(b"far away", 10.0)
    assert received(program, 8) == b"far away"
    assert f"127.0.0.1 port {second.port}" in first.log.read_text()
    assert f"127.0.0.1 port {board.port}" in second.log.read_text()
    keys = offered_keys(reach._address)
    assert [key.host for key in keys] == [f"[127.0.0.1]:{server.port}" for server in (first, second, board)]
    first.close()
    assert "went down" in ended(program).message
    with pytest.raises(HostUnknown, match=f"port {first.port} of 127.0.0.1 refuses"):
        reach.run("true", 10.0)


def test_a_jump_host_that_cannot_go_on(bench: Bench, sshd: Serve) -> None:
    jump = sshd("AllowTcpForwarding no")
    bench.configure(f"Host shelf\nHostName nowhere.invalid\nProxyJump {jump.user}@127.0.0.1:{jump.port}\n")
    with pytest.raises(HostUnknown, match=r"127\.0\.0\.1 cannot reach nowhere\.invalid:22: "):
        way(bench, jump, "shelf").connect()


def test_trust_goes_host_by_host(bench: Bench) -> None:
    jump, board = bench.board(known=False), bench.board(known=False)
    bench.configure(f"Host shelf\nHostName 127.0.0.1\nPort {board.port}\nProxyJump 127.0.0.1:{jump.port}\n")
    address = bench.address(board, ssh="pi@shelf")
    (first,) = offered_keys(address)
    assert first.host == f"[127.0.0.1]:{jump.port}"
    first.trust()
    known, second = offered_keys(address)
    assert (known.status, second.status, second.host) == ("known", "unknown", f"[127.0.0.1]:{board.port}")
    second.trust()
    assert bench.reach(board, ssh="pi@shelf").facts().cores == 4


def test_proxy_command(bench: Bench) -> None:
    board = bench.board(known=False)
    bench.know(f"shelf {board.host_key.get_name()} {board.host_key.get_base64()}\n")
    relay = (
        "import os, socket, sys, threading; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "def up():\n"
        "  while d := os.read(0, 65536): s.sendall(d)\n"
        "threading.Thread(target=up, daemon=True).start()\n"
        "while d := s.recv(65536): os.write(1, d)\n"
    )
    (bench.home / "relay.py").write_text(relay)
    (bench.home / "relay.sh").write_text(f"#!/bin/sh\nexec python3 {bench.home}/relay.py {board.port}\n")
    (bench.home / "relay.sh").chmod(0o755)
    bench.configure(f"Host shelf\nHostKeyAlias shelf\nProxyCommand {bench.home}/relay.sh %h %p\n")
    reach = bench.reach(board, ssh="pi@shelf")
    assert reach.facts().cores == 4
    reach.close()
    running = subprocess.run(["pgrep", "-f", str(bench.home / "relay.py")], capture_output=True, check=False)
    assert not running.stdout
    bench.configure("Host shelf\nHostKeyAlias shelf\nProxyCommand false\n")
    with pytest.raises(HostUnknown, match="the ProxyCommand of shelf:22 reached no SSH server"):
        bench.reach(board, ssh="pi@shelf").connect()


@contextmanager
def ssh_agent(path: Path) -> Iterator[None]:
    """OpenSSH's agent, listening at `path`."""
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60.0
        while not path.exists() and time.monotonic() < end:
            time.sleep(0.02)
        yield
    finally:
        agent.terminate()
        agent.wait(10.0)


def test_keys_of_the_agent(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    board = bench.board()
    file = bench.home / ".ssh" / "id_ecdsa"
    path = bench.home / "agent"
    with ssh_agent(path):
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        subprocess.run(["ssh-add", "-q", str(file)], check=True)
        file.unlink()
        assert bench.reach(board).facts().cores == 4
        bench.configure("Host *\nIdentitiesOnly yes\n")
        with pytest.raises(AuthenticationRefused):
            bench.reach(board).connect()
        monkeypatch.delenv("SSH_AUTH_SOCK")
        bench.configure(f"Host *\nIdentityAgent {path}\n")
        assert bench.reach(board).facts().cores == 4


def test_the_identity_of_the_address_is_not_lost_among_keys_of_the_agent(
    bench: Bench, sshd: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = sshd("MaxAuthTries 3")
    named = (bench.home / ".ssh" / "id_ecdsa").rename(bench.home / "named")
    path = bench.home / "agent"
    with ssh_agent(path):
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        for number in range(4):
            file = bench.home / f"other{number}"
            paramiko.ECDSAKey.generate().write_private_key_file(str(file))
            subprocess.run(["ssh-add", "-q", str(file)], check=True)
        with pytest.raises(AuthenticationRefused, match="name the right key as 'identity'"):
            way(bench, server).connect()
        way(bench, server, identity=str(named)).connect()
        # Encrypted, and without its public half beside it: the agent has it, and gets a request for that one alone.
        subprocess.run(["ssh-add", "-q", str(named)], check=True)
        change = ["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", str(named)]
        subprocess.run(change, check=True, capture_output=True)
        way(bench, server, identity=str(named)).connect()


def test_identity_of_the_address_comes_first(bench: Bench) -> None:
    board = bench.board()
    file = bench.home / ".ssh" / "id_ecdsa"
    moved = file.rename(bench.home / "elsewhere")
    other = paramiko.ECDSAKey.generate()
    other.write_private_key_file(str(file))
    assert bench.reach(board, identity=str(moved)).facts().cores == 4
    with pytest.raises(AuthenticationRefused):
        bench.reach(board).connect()


def test_the_configuration_of_openssh(bench: Bench) -> None:
    (bench.home / ".ssh" / "more.d").mkdir()
    (bench.home / ".ssh" / "more.d" / "a.conf").write_text("Host inside\nPort 2201\nUser inner\n")
    bench.configure(
        "Include more.d/*.conf\nConnectTimeout 7\n"
        "Host outside\n  HostName example.invalid\n  Port 2202\n  IdentityFile ~/.ssh/%r_key\n  HostKeyAlias other\n"
        "  ProxyJump inner@[::1]:99,inside\n"
        "Host *\n  User everyone\n"
    )
    config = ClientConfig()
    route = resolve_route("outside", config)
    assert [str(hop) for hop in route.hops] == ["[::1]:99", "inside:2201", "example.invalid:2202"]
    assert [hop.user for hop in route.hops] == ["inner", "inner", "everyone"]
    assert [hop.known_as for hop in route.hops] == ["[::1]:99", "[inside]:2201", "other"]
    assert route.board.settings.identities == (bench.home / ".ssh" / "everyone_key",)
    assert route.board.settings.connect_timeout_s == 7.0
    assert resolve_route("me@inside:5", config).board.port == 5
    assert resolve_route("me@inside:5", config).board.user == "me"
    assert resolve_route("me@outside", config).board.settings.identities == (bench.home / ".ssh" / "me_key",)
    bench.configure("Host via\nHostName there\nProxyCommand relay %r@%h:%p %n 100%%\nProxyJump late\n")
    assert resolve_route("me@via:7", ClientConfig()).proxy_command == "relay me@there:7 via 100%"
    assert len(resolve_route("me@via:7", ClientConfig()).hops) == 1
    bench.configure("Host via\nProxyJump early\nProxyCommand relay\n")
    assert [hop.host for hop in resolve_route("via", ClientConfig()).hops] == ["early", "via"]
    bench.configure("Host x\nPort many\n")
    with pytest.raises(ConfigError, match="is not valid"):
        resolve_route("x", ClientConfig())


def test_files_that_are_included_under_a_host(bench: Bench) -> None:
    more = bench.home / ".ssh" / "more folder"
    more.mkdir()
    (more / "a.conf").write_text("Port 2201\nHost *\nUser inner\nHostName there\n")
    bench.configure('Host x\n  Include "more folder/a.conf"\n  ConnectTimeout 7\nHost *\n  User everyone\n')
    config = ClientConfig()
    inside, other = (config.lookup(name, None, None) for name in ("x", "y"))
    assert (inside.host, inside.port, inside.user, inside.connect_timeout_s) == ("there", 2201, "inner", 7.0)
    assert (other.host, other.port, other.user, other.connect_timeout_s) == ("y", None, "everyone", None)
    for block in ("Host y", "Match host y", "Host !x *"):
        (more / "a.conf").write_text(f"{block}\nProxyCommand relay\n")
        with pytest.raises(ConfigError, match=f"'{re.escape(block)}' in a file that is included under 'Host x'"):
            ClientConfig()
    bench.configure('Include "more folder/a.conf')
    with pytest.raises(ConfigError, match="cannot be read"):
        ClientConfig()


def test_known_hosts_files_with_blanks_in_their_names(bench: Bench) -> None:
    bench.configure('Host a\nUserKnownHostsFile "/my keys/%h" ~/other\nHost b\nUserKnownHostsFile = "/one two"\n')
    assert ClientConfig().lookup("a", "me", None).known_hosts == (Path("/my keys/a"), bench.home / "other")
    assert ClientConfig().lookup("b", "me", None).known_hosts == (Path("/one two"),)


def test_a_user_without_a_name(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 987_654)
    assert bench.home.is_dir()
    assert ClientConfig().lookup("a", "me", None).user == "me"
    assert ClientConfig().lookup("a", None, None).user == "987654"


def test_a_tunnel_and_that_nothing_listens_off_loopback(bench: Bench, echo: Path) -> None:
    board = bench.board()
    reach = bench.reach(board)
    program = reach.start(echo, [])
    with socket.create_server(("127.0.0.1", 0)) as service:
        port = service.getsockname()[1]

        def serve() -> None:
            for _ in range(2):
                client, _ = service.accept()
                with client:
                    while data := client.recv(1 << 16):
                        client.sendall(data.upper())

        thread = threading.Thread(target=serve)
        thread.start()
        tunnel = reach.forward(port)
        ours = listeners([os.getpid()])
        assert ("127.0.0.1", tunnel.port) in ours
        assert {address for address, _ in ours} == {"127.0.0.1"}
        assert board.processes()
        assert listeners(board.processes()) == []
        for text in (b"hello", b"x" * 500_000):
            with socket.create_connection(("127.0.0.1", tunnel.port), timeout=20.0) as client:
                sender = threading.Thread(target=_send, args=(client, text))
                sender.start()
                got = bytearray()
                while data := client.recv(1 << 16):
                    got += data
                sender.join()
            assert got == text.upper()
        thread.join()
    with socket.create_connection(("127.0.0.1", tunnel.port), timeout=20.0) as client:
        assert client.recv(1) == b""  # nobody is there any more
    assert program.receive() == b""
    reach.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", tunnel.port), timeout=5.0)


def test_tunnels_that_were_closed_are_forgotten(bench: Bench) -> None:
    reach = bench.reach(bench.board())
    kept = reach.forward(9)
    for _ in range(3):  # as for a farm whose link is brought back again and again
        reach.forward(9).close()
    reach.forward(9)
    assert len(reach._tunnels) == 2
    assert not kept.closed
    reach.close()
    assert kept.closed


def _send(client: socket.socket, text: bytes) -> None:
    client.sendall(text)
    client.shutdown(socket.SHUT_WR)


def test_a_server_that_allows_one_session_at_a_time(bench: Bench, sshd: Serve, native_echo: Path) -> None:
    server = sshd("MaxSessions 1")
    reach = way(bench, server)
    assert reach.facts().cores > 0
    program = reach.start(native_echo, [])
    program.send(b"here", 10.0)
    assert received(program, 4) == b"here"
    with pytest.raises(BoardUnavailable, match="refuses another session channel"):
        reach.run("true", 10.0)
    program.close()
    assert reach.run("echo free", 10.0).stdout == "free\n"
    reach.close()
    assert left(server) == []
