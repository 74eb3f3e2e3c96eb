"""What tests of hosts with a GPU need: the stub of the driver and of nvidia-smi, here and on boards behind SSH."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE

import pytest

from edgetune.resources import templates_dir
from tests.boards.ssh_server import SshBoard

SMI = """#!/bin/sh
case "$*" in
*compute-apps*) echo 4711 ;;
*ecc*) echo 0 ;;
*compute_cap*) echo "Stub GPU, ${STUB_CAPABILITY:-7.5}, 580.1" ;;
*-lms*) while echo "1980, 1980, 61, 0x0"; echo "1200, 1980, 88, 0x0000000000000020"; do sleep 0.05; done ;;
*) echo "1980, 1980, 61, 0x0000000000000000" ;;
esac
"""


def give_gpu(folder: Path, driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this machine and its boards the stub of the driver, and nvidia-smi in `folder`."""
    programs = folder / "programs"
    programs.mkdir()
    (programs / "nvidia-smi").write_text(SMI)
    (programs / "nvidia-smi").chmod(0o755)
    own = SshBoard.environment

    def environment(board: SshBoard) -> dict[str, str]:
        there = own(board)
        given = {name: value for name, value in os.environ.items() if name.startswith("STUB_")}
        return {**there, **given, "EDGETUNE_CUDA_DRIVER": str(driver), "PATH": f"{programs}:{there['PATH']}"}

    monkeypatch.setattr(SshBoard, "environment", environment)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    monkeypatch.setenv("EDGETUNE_CUDA_DRIVER", str(driver))


def compiled_hold(folder: Path) -> Path:
    """The program that holds a host's lock, without a warning."""
    strict = ["-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", f"-I{templates_dir() / 'agent'}"]
    sources = [str(templates_dir() / "bundle/hold.c"), str(templates_dir() / "agent/lock.c")]
    subprocess.run(["gcc", *strict, *sources, "-o", str(folder / "hold")], check=True)
    return folder / "hold"


@contextmanager
def held(board: SshBoard, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another run, of pi@attic, that has the lock of `board` until its input ends, or it is killed."""
    command = [str(compiled_hold(folder)), "pi@attic", "60", "sh", "-c", "echo begun; read -r end"]
    environment = {**os.environ, "EDGETUNE_LOCK": board.environment()["EDGETUNE_LOCK"]}
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True, env=environment) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "begun\n"
        yield holder
        holder.communicate()
