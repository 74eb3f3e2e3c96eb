"""Leaves out, by name, the tests that need a tool which this machine lacks.

`.ci/tools.txt` lists the tools. One that is missing gets a stand-in on PATH, which notes that it was called, and fails.
A test that fails after it called a stand-in, or that looked for a missing tool at its place, is skipped, with its error
in the reason: it could not show what it is for. So no test has to say which tools it needs, and none runs less than it
can. Where all tools are installed, as in CI, nothing of this happens.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[1] / ".ci" / "tools.txt"
LEFT_OUT = "left out, because this machine lacks "
_BECAUSE = ": "
_PREFIX = "edgetune-missing-tools-"
# What other programs call of a tool: gcc compiles C++ with a part of g++, which it finds on PATH as well.
_PARTS = {"g++": ("cc1plus",)}
_STAND_IN = """#!/bin/sh
# Stands in for a tool that is not installed: .ci/tools.txt
echo {tool} >>{calls}
echo "{tool} is not installed" >&2
exit 127
"""


def tools(listing: str) -> dict[str, str]:
    """Return the Debian package of each tool; a folder whose name depends on GCC's version is left to `make system`."""
    rows = [line.split() for line in listing.splitlines() if line and not line.startswith("#")]
    return {tool: package for tool, package in rows if "GCC_MAJOR" not in tool}


def missing(listing: str) -> dict[str, str]:
    """Return the tools that are not there, and their packages."""
    return {
        tool: package
        for tool, package in tools(listing).items()
        if not (Path(tool).exists() if tool.startswith("/") else shutil.which(tool))
    }


def lacking(reason: str) -> str:
    """Return the tool that the reason of a skip names; nothing where a test was skipped for something else."""
    return reason.partition(LEFT_OUT)[2].partition(_BECAUSE)[0]


def require(place: str) -> None:
    """Leave the test out where `place`, a file or folder of `.ci/tools.txt`, is not there."""
    if not Path(place).exists():
        pytest.skip(f"{LEFT_OUT}{place}")


def require_mounts() -> None:
    """Leave the test out where this account may mount nothing, not even in a namespace of its own (unshare(1))."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"{LEFT_OUT}the right to mount")


class MissingTools:
    """Plugin: puts the stand-ins on PATH, and turns failures for want of a tool into skips."""

    def __init__(self, listing: str) -> None:
        path = [entry for entry in os.environ["PATH"].split(os.pathsep) if _PREFIX not in entry]  # not a parent's
        os.environ["PATH"] = os.pathsep.join(path)
        self.missing = missing(listing)
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self.calls = self.folder / "calls"
        self._causes: dict[int, tuple[BaseException, str]] = {}
        programs = self.folder / "bin"
        programs.mkdir()
        for tool in self.missing:
            for name in () if tool.startswith("/") else (tool, *_PARTS.get(tool, ())):
                script = programs / name
                script.write_text(_STAND_IN.format(tool=tool, calls=shlex.quote(str(self.calls))), encoding="utf-8")
                script.chmod(0o755)
        os.environ["PATH"] = os.pathsep.join([*path, str(programs)])

    def pytest_unconfigure(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        self.calls.unlink(missing_ok=True)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed and call.excinfo is not None and (tool := self._cause(call.excinfo.value)):
            report.outcome = "skipped"
            report.longrepr = (
                str(item.path),
                item.reportinfo()[1] or 0,
                f"{LEFT_OUT}{tool}{_BECAUSE}{_first_line(call.excinfo.value)}",
            )
        return report

    def _cause(self, error: BaseException) -> str:
        """Return the tool for want of which a test failed, or nothing.

        A fixture that several tests share fails once and raises the same error for each of them.
        """
        if id(error) not in self._causes:
            called = self.calls.read_text("utf-8").split() if self.calls.exists() else []
            sought = [tool for tool in self.missing if _is_not_there(tool, error)]
            self._causes[id(error)] = (error, next(iter([*called, *sought]), ""))
        return self._causes[id(error)][1]


def _first_line(error: BaseException) -> str:
    return next((line for line in str(error).splitlines() if line), type(error).__name__)[:200]


def _is_not_there(tool: str, error: BaseException) -> bool:
    """Return whether an error says that a tool was sought at its place: by a path, not by PATH."""
    if isinstance(error, FileNotFoundError) and Path(str(error.filename)).name == tool:
        return True
    place = tool if tool.startswith("/") else f"bin/{tool}"
    return re.search(rf"{re.escape(place)}(?![\w-])", str(error)) is not None
