"""The process of a host: it tells systemd that it lives, starts anew after a freeze, and ends on a signal."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from edgetune.farm.host_process import Freezes, Pulse, alive, signals_noted
from tests.farm.hosts import Host


def test_systemd_is_told_that_the_process_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        alive()
        assert listener.recv(100) == b"READY=1\nWATCHDOG=1"
    (tmp_path / "notify").unlink()
    alive()  # a watchdog that is gone harms nobody


def test_a_process_that_did_not_run_for_too_long_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    started: list[list[str]] = []
    said: list[str] = []
    monkeypatch.setattr("edgetune.farm.host_process._clock", lambda: now[0])
    monkeypatch.setattr(os, "execv", lambda _, words: started.append(words))
    pulse = Pulse(10.0, said.append, lambda: said.append("its cells are dead"))
    now[0] += 9.0
    pulse.beat()
    assert started == []
    now[0] += 11.0
    pulse.beat()
    assert started == [[sys.executable, *sys.orig_argv[1:]]]
    assert said == [
        "this process was frozen for 11 s, so that others may have its cells: it starts anew",
        "its cells are dead",
    ]


def test_a_freeze_is_noticed_though_no_thread_has_run_since(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("edgetune.farm.host_process._clock", lambda: now[0])
    monkeypatch.setattr("threading.Thread.start", lambda _: None)
    freezes = Freezes()
    now[0] += 75.0
    assert freezes.longest() == 75.0
    now[0] = 100.0
    assert freezes.longest() == 75.0


def test_signals_are_noted_inside_and_have_their_handlers_back_outside() -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def noted() -> list[int]:
        with signals_noted() as came:
            os.kill(os.getpid(), signal.SIGTERM)
            while not came:
                await asyncio.sleep(0.01)
        return came

    assert asyncio.run(noted()) == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) == before


ANEW = """
import os
from edgetune.cli import stderr
from edgetune.cli.stderr_reader import stderr_is_read
from edgetune.farm import host_process

with stderr_is_read(as_json=False):
    print(os.readlink(f"/proc/self/fd/{stderr.stream().fileno()}"), flush=True)
    if not os.environ.get("ANEW"):
        os.environ["ANEW"] = "1"
        host_process.before_restart.append(stderr.give_back)
        host_process.Pulse(-1.0, stderr.say, lambda: None).beat()
"""


def test_a_process_that_starts_anew_still_writes_to_its_stderr() -> None:
    done = subprocess.run([sys.executable, "-c", ANEW], capture_output=True, text=True, check=True, timeout=60)
    first, second = done.stdout.split()
    assert first == second, "not into the pipe of the reader that the first process had"
    (line,) = done.stderr.splitlines()
    assert line.startswith("this process was frozen"), "the reader of the first process takes no end for its death"


def test_an_address_off_loopback_is_found_in_the_processes_of_a_host(tmp_path: Path) -> None:
    """Without this, no test would notice that `Host.listens` finds nothing."""
    text = "import socket; s = socket.socket(); s.bind(('{}', 0)); s.listen(); print(1, flush=True); input()"
    for address, found in (("127.0.0.1", 0), ("0.0.0.0", 1)):  # noqa: S104  this is what must be found
        words = [sys.executable, "-c", text.format(address)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            assert len(Host("h", process, tmp_path / "log").listens()) == found
            process.kill()
