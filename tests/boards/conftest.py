"""Fixtures of the tests of boards."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.boards.ssh_bench import Bench, opened

ECHO = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char buffer[4096];
    ssize_t got;
    if (argc > 1) { fprintf(stderr, "words: %s\n", argv[1]); }
    while ((got = read(0, buffer, sizeof buffer)) > 0) { if (write(1, buffer, (size_t)got) != got) { return 3; } }
    return argc > 2 ? 7 : 0;
}
"""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A user's home and boards reached by SSH."""
    with opened(tmp_path / "user", monkeypatch) as bench:
        yield bench


@pytest.fixture(scope="session")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile a program for aarch64 that says what it hears."""
    folder = tmp_path_factory.mktemp("echo")
    (folder / "echo.c").write_text(ECHO)
    subprocess.run(["aarch64-linux-gnu-gcc", "-O1", "-o", "echo", "echo.c"], cwd=folder, check=True)
    return folder / "echo"
