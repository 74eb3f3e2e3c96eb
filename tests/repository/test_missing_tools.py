"""A test that fails after it asked for a tool which this machine lacks is left out by name, with its error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.missing_tools import TOOLS, MissingTools, missing, tools

ROOT = Path(__file__).parents[2]
LISTING = "# a comment\n\nno-such-compiler some-compiler\n/no/such/folder some-headers\nsh dash\n/usr dash\n"
CONFTEST = """
from tests import conftest
from tests.conftest import *
from pathlib import Path
conftest.TOOLS = Path(__file__).parent / "tools.txt"
"""
TESTS = """
import subprocess
import pytest
from pathlib import Path
from tests.missing_tools import require

@pytest.fixture(scope="module")
def program():
    subprocess.run(["no-such-compiler", "-c", "a.c"], check=True)

def test_needs_it(program):
    raise AssertionError("never reached")

def test_needs_it_too(program):
    raise AssertionError("never reached")

def test_runs_it_deep_down():
    done = subprocess.run(["sh", "-c", "no-such-compiler a.c"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

def test_needs_a_folder():
    require("/no/such/folder")

def test_opens_a_folder():
    list(Path("/no/such/folder").iterdir())

def test_takes_its_absence_as_an_answer():
    assert subprocess.run(["no-such-compiler"]).returncode == 127

def test_is_wrong():
    assert {right}

def test_is_right():
    subprocess.run(["sh", "-c", "true"], check=True)
"""


def run(folder: Path, *words: str, right: bool = True, listing: str = LISTING) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "tools.txt").write_text(listing)
    (folder / "test_some.py").write_text(TESTS.format(right=right))
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\naddopts = --import-mode=importlib\n")
    command = [sys.executable, "-m", "pytest", "--quiet", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.long
@pytest.mark.parametrize("workers", [(), ("--numprocesses", "2")], ids=["here", "workers"])
def test_what_lacks_a_tool_is_left_out_by_name(tmp_path: Path, workers: tuple[str, ...]) -> None:
    done = run(tmp_path, "-rs", *workers)
    assert done.returncode == 0, done.stdout
    assert "3 passed, 5 skipped" in done.stdout
    assert "5 tests left out for want of tools" in done.stdout
    assert "3 need no-such-compiler\n" in done.stdout
    assert "this machine lacks no-such-compiler: no-such-compiler is not installed" in done.stdout
    assert "2 need /no/such/folder" in done.stdout


@pytest.mark.long
def test_another_failure_fails(tmp_path: Path) -> None:
    done = run(tmp_path, right=False)
    assert done.returncode == 1
    assert "1 failed, 2 passed, 5 skipped" in done.stdout


@pytest.mark.long
def test_nothing_may_be_left_out_in_ci(tmp_path: Path) -> None:
    done = run(tmp_path, "--no-skips")
    assert done.returncode != 0
    assert "5 tests left out for want of tools, which counts as failed" in done.stdout


@pytest.mark.long
def test_a_tool_that_is_there_is_no_excuse(tmp_path: Path) -> None:
    done = run(tmp_path, listing="sh dash\n")
    assert done.returncode == 1
    assert "3 failed, 2 passed, 1 skipped, 2 errors" in done.stdout


def test_what_calls_a_part_of_a_tool_calls_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without g++, gcc starts `cc1plus` from PATH for a file of C++."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(programs))
    plugin = MissingTools("g++ g++\n")
    assert subprocess.run(["cc1plus"], capture_output=True, text=True, check=False).stderr == "g++ is not installed\n"
    assert plugin.calls.read_text() == "g++\n"
    plugin.pytest_unconfigure()


def test_what_is_missing_is_what_is_not_there() -> None:
    assert missing(LISTING) == {"no-such-compiler": "some-compiler", "/no/such/folder": "some-headers"}


def test_the_list_names_each_tool_once_with_its_package() -> None:
    listing = TOOLS.read_text(encoding="utf-8")
    rows = [line.split() for line in listing.splitlines() if line and not line.startswith("#")]
    assert all(len(row) == 2 for row in rows)
    assert len({tool for tool, _ in rows}) == len(rows)
    assert len(tools(listing)) == len(rows) - 1  # all but the folder whose name depends on GCC


def system(folder: Path, listing: str, stand_ins: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `.ci/system.sh` where `stand_ins`, scripts by name, come first on PATH."""
    for name, text in stand_ins.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="ascii")
        (folder / name).chmod(0o755)
    (folder / "tools.txt").write_text(listing)
    command = ["sh", str(ROOT / ".ci/system.sh"), str(folder / "tools.txt"), sys.executable]
    (folder / "usr/sbin").mkdir(parents=True)  # no server of this machine is asked for
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "DPKG_ROOT": str(folder)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_the_line_to_type_is_printed_where_nothing_may_be_installed(tmp_path: Path) -> None:
    done = system(tmp_path, LISTING, {"sudo": "exit 1", "id": "echo 1000", "apt-get": "exit 1", "apt-cache": "exit 1"})
    assert done.returncode == 1
    assert "system: missing no-such-compiler /no/such/folder" in done.stdout
    wanted = "apt-get install --yes --no-install-recommends some-compiler some-headers'"
    assert done.stdout.splitlines()[-1] == f"sudo sh -c 'apt-get update && sh .ci/no-new-servers.sh {wanted}"


@pytest.mark.long
@pytest.mark.parametrize("user", ["0", "1000"])
def test_what_is_missing_is_installed_where_that_is_allowed(tmp_path: Path, user: str) -> None:
    told = tmp_path / "told"
    stand_ins = {
        "id": f"echo {user}",
        "sudo": 'shift; test "$1" = true || exec env "$@"',
        "apt-get": f'echo "$DEBIAN_FRONTEND $*" >>{told}',
        "update-rc.d": "exit 0",
    }
    done = system(tmp_path, LISTING, stand_ins)
    assert done.returncode == 0, done.stderr
    install = "noninteractive install --yes --no-install-recommends some-compiler some-headers"
    assert told.read_text().splitlines() == ["noninteractive update", install]


@pytest.mark.long
def test_nothing_is_installed_where_all_is_there(tmp_path: Path) -> None:
    done = system(tmp_path, "sh dash\n/usr dash\n", {"apt-get": "exit 1", "sudo": "exit 1"})
    assert (done.returncode, done.stdout) == (0, "system: all there\n")


@pytest.mark.parametrize("status", [0, 1])
def test_make_test_goes_on_where_nothing_may_be_installed(tmp_path: Path, status: int) -> None:
    """The rest of `make test` is left out here: its targets are there already."""
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci/system.sh").write_text(f"echo 'the line to type'; exit {status}\n")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    makefile = makefile.replace("-directory lint\n", "-directory end\n").replace("--jobs 2 types pytest\n", "end\n")
    (tmp_path / "Makefile").write_text(f"{makefile}\nend:\n\t@echo all tests ran\n")
    environment = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MFLAGS"}}
    command = ["make", "--silent", "test"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "the line to type" in done.stdout
    assert ("the tests that need what is missing are left out" in done.stdout) is bool(status)
    assert done.stdout.splitlines()[-1] == "all tests ran"
