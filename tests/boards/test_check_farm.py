"""`edgetune boards check` of boards behind a farm's tracker: the gateway, of another kind than they, is no board."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from edgetune.boards.check import check
from edgetune.config.boards_file import ResolvedBoard
from edgetune.findings import Finding
from edgetune.pipeline.boards import accesses
from edgetune.target.target import load_target
from tests.boards.ssh_bench import Bench

_MAGIC = struct.pack("<i", 0x2F271)


@contextmanager
def tracker(summary: object) -> Iterator[int]:
    """Listen as a tracker that answers one client, whatever it asks, with `summary`; give the port."""

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(4) == _MAGIC
            connection.sendall(_MAGIC)
            connection.recv(4096)
            answer = json.dumps([0, summary]).encode()
            connection.sendall(struct.pack("<i", len(answer)) + answer)
            while connection.recv(4096):  # to the client's end: closed with bytes unread, the answer may be lost
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        yield listener.getsockname()[1]
        thread.join(20.0)


def checked(bench: Bench, port: int) -> dict[str, Finding]:
    gateway = bench.board({"uname -m": "x86_64"})
    address = bench.address(
        gateway, name="farm-7", target="generic-aarch64", rpc="tvm", tracker=f"localhost:{port}", key="shelf"
    )
    target = load_target("generic-aarch64")
    found = list(check(target, accesses(ResolvedBoard(target, (address,)))))
    assert gateway.commands == []
    return {finding.check: finding for finding in found if finding.board == "farm-7"}


def test_the_tracker_is_asked_instead_of_the_gateway(bench: Bench) -> None:
    servers = [{"key": "server:shelf"}, {"key": "server:shelf"}, {"key": "server:other"}]
    with tracker({"server_info": servers}) as port:
        found = checked(bench, port)
    assert list(found) == ["reachable", "host key", "login", "tracker"]
    assert all(finding.ok for finding in found.values())
    assert found["reachable"].detail.endswith(", the host that reaches its farm")
    assert found["tracker"].detail == f"localhost:{port} has key 'shelf' on 2 of its boards"


@pytest.mark.parametrize("summary", [{}, {"server_info": 3}, {"server_info": [None, {"key": "server:other"}]}])
def test_a_key_that_the_tracker_does_not_know_is_a_fault(bench: Bench, summary: object) -> None:
    with tracker(summary) as port:
        found = checked(bench, port)
    wrong = found["tracker"]
    assert (wrong.ok, wrong.required) == (False, True)
    assert wrong.detail == f"localhost:{port} knows no board with key 'shelf'"
    assert "`key:`" in wrong.fix


def test_a_tracker_that_is_not_there_is_a_fault(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    found = checked(bench, port)
    assert found["login"].ok
    assert (found["tracker"].ok, found["tracker"].required) == (False, True)
    assert f"localhost:{port}" in found["tracker"].detail
