"""Compilers see nothing of the caller's shell but where things are: whole verbs with a compiler that writes it down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgetune.config.doctor import diagnose
from edgetune.errors import CompileFailed, ToolchainMissing
from edgetune.package.diagnostics import compile_failure
from edgetune.target.tool_process import run_tool, tool_environment
from tests.cli.test_termination import save_model

# Each changes what GCC, make or their messages say, or what they write.
FOREIGN = {
    "COLUMNS": "40",
    "LC_ALL": "de_DE.UTF-8",
    "LANGUAGE": "de",
    "CFLAGS": "-DFOREIGN -O0",
    "CC": "false",
    "MAKEFLAGS": "-k",
    "GCC_COLORS": "error=01;31",
    "GCC_COMPARE_DEBUG": "1",
    "SOURCE_DATE_EPOCH": "now",
    "OBJC_INCLUDE_PATH": "/nowhere",
}
COMPILER = """#!/bin/sh
env >>{log}
exec {real} "$@"
"""


def test_kept_are_paths_licences_and_caches() -> None:
    given = {"PATH": "/bin", "CCACHE_DIR": "/c", "ARMLMD_LICENSE_FILE": "1@host", "CPATH": "/i", "PYTHONPATH": "/p"}
    kept = tool_environment(given | FOREIGN)
    assert kept == {
        "PATH": "/bin",
        "CCACHE_DIR": "/c",
        "ARMLMD_LICENSE_FILE": "1@host",
        "CPATH": "/i",
        "LC_ALL": "C",
        "TERM": "dumb",
    }


def test_a_tool_reads_no_input_and_may_write_any_bytes() -> None:
    done = run_tool(["sh", "-c", "cat; printf '\\377ok'; exit 3"], timeout_s=10)
    assert (done.returncode, done.stdout) == (3, "�ok")
    with pytest.raises(subprocess.CalledProcessError):
        run_tool(["false"], timeout_s=10, check=True)


@pytest.mark.long
def test_no_verb_hands_the_shell_of_its_user_to_a_compiler(tmp_path: Path) -> None:
    log, folder = tmp_path / "log", tmp_path / "bin"
    folder.mkdir()
    for name in ("gcc", "make"):
        wrapper = folder / name
        wrapper.write_text(COMPILER.format(log=log, real=f"/usr/bin/{name}"), encoding="ascii")
        wrapper.chmod(0o755)
    save_model(tmp_path / "m.onnx")
    environment = {
        **os.environ,
        **FOREIGN,
        "DEPENDENCIES_OUTPUT": str(tmp_path / "dependencies"),
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    for words in (
        ["tune", "m.onnx", "--board", "host", "--trials", "2", "-o", "out", "--db", "r.db"],
        ["verify", "out", "--model", "m.onnx"],
        ["bench", "out"],
        ["doctor"],
    ):
        log.write_text("")
        command = [sys.executable, "-m", "edgetune", *words, "--json"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (words, done.stderr[-2000:])
        json.loads(done.stdout)
        seen = {line.split("=", 1)[0]: line.split("=", 1)[1] for line in log.read_text().splitlines() if "=" in line}
        assert seen["LC_ALL"] == "C", words
        foreign = {name: value for name, value in FOREIGN.items() if seen.get(name) == value}
        foreign.pop("MAKEFLAGS", None)  # make's own children have some
        assert not foreign, words
    assert not (tmp_path / "dependencies").exists()


@pytest.mark.parametrize("environment", [{}, {"PATH": ""}])
def test_without_path_no_tool_is_started(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", environment)
    with pytest.raises(ToolchainMissing, match="PATH is not set, so that compilers and make do not find"):
        run_tool(["true"], timeout_s=1.0)
    (fault, *_) = diagnose({}, Path.cwd())
    assert (fault.check, fault.ok, fault.exit_code) == ("PATH", False, ToolchainMissing.exit_code)


@pytest.mark.parametrize(
    "output",
    [
        "gcc: fatal error: cannot execute 'as': execvp: No such file or directory\ncompilation terminated.",
        "collect2: fatal error: cannot find 'ld'",
        "make: *** [Makefile:75: build/m_selftest.o] Error 127",
        "make: aarch64-linux-gnu-gcc: No such file or directory",
        "/bin/sh: 1: mkdir: not found",
        "bash: line 1: objcopy: command not found",
    ],
)
def test_a_program_that_a_tool_does_not_find_is_said_to_be_missing_on_path(output: str, tmp_path: Path) -> None:
    error = compile_failure("gcc", "build/m_selftest", output, tmp_path)
    assert isinstance(error, ToolchainMissing)
    assert f"a program that it starts is not on PATH ({os.environ['PATH']})" in error.message


@pytest.mark.parametrize(
    "output",
    [
        "m.c:1:2: error: 'x' undeclared",
        "/usr/bin/ld: cannot find -lfoo",
        "make: Error 2",
        "/usr/bin/ld: cannot find asr_kernels.o: No such file or directory",
        "/usr/bin/ld: cannot find ldscript.x: No such file or directory",
        "ld.lld: error: cannot find linker script ld-board.x",
        "/usr/bin/ld: cannot find as.o: No such file or directory",
        "/usr/bin/ld: cannot find ld/board.x: No such file or directory",
    ],
)
def test_other_failures_of_a_compiler_say_nothing_of_path(output: str, tmp_path: Path) -> None:
    assert isinstance(compile_failure("gcc", "m", output, tmp_path), CompileFailed)
