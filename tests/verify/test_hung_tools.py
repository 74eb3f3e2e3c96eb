"""Tools that hang: each is ended with all that it started, and one sentence says which, on which file, how long."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgetune.errors import SelfTestFailed, ToolHung
from edgetune.farm.health.checking import fitness
from edgetune.measure.compiler import toolchain_of
from edgetune.target import board_check
from edgetune.target.detect import detect_host
from edgetune.target.tool_process import run_tool
from edgetune.verify.toolchain import PackageToolchain
from edgetune.verify.work_copy import make, run, work_copy
from tests import package_sample as sample
from tests.survivors import living, marked, wait_until_none_lives

# What a compiler does that hangs: itself, in a child, in one that ignores SIGTERM, in one that left its group.
HANGS = ["exec sleep {}", "sleep {}", "trap '' TERM; sleep {}; sleep {}", "setsid sleep {}"]
Wrapper = Callable[[str, str], Path]


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[str]:
    with marked(tmp_path, 200000) as number:
        yield number


@pytest.fixture
def wrapper(tmp_path: Path) -> Wrapper:
    """Makes a gcc that hangs as told where its words match a pattern of the shell."""

    def write(pattern: str, hang: str) -> Path:
        path = tmp_path / "bin" / "gcc"
        path.parent.mkdir()
        path.write_text(f'#!/bin/sh\ncase "$*" in {pattern}) {hang} ;; *) exec /usr/bin/gcc "$@" ;; esac\n')
        path.chmod(0o755)
        return path

    return write


@pytest.mark.parametrize("hang", HANGS)
def test_a_tool_that_hangs_is_ended_with_its_children(tmp_path: Path, wrapper: Wrapper, mark: str, hang: str) -> None:
    (tmp_path / "unit.c").touch()
    command = [str(wrapper("*", hang.replace("{}", mark))), "-o", "unit.o", "-O2", "-c", "unit.c"]
    with pytest.raises(ToolHung, match=r"^gcc hung on unit\.c: it did not end within 0\.3 s, .*by hand"):
        run_tool(command, timeout_s=0.3, folder=tmp_path)
    wait_until_none_lives(mark)


def test_a_tool_that_was_asked_without_a_file_is_named_with_its_words() -> None:
    with pytest.raises(ToolHung, match=re.escape("sleep hung in `sleep 60`: it did not end within 0.1 s")):
        run_tool(["/bin/sleep", "60"], timeout_s=0.1)


def test_a_tool_that_ended_did_not_hang_though_its_child_holds_its_output(mark: str) -> None:
    done = run_tool(["sh", "-c", f"sleep {mark} & echo done; echo no >&2; exit 3"], timeout_s=0.3)
    assert (done.returncode, done.stdout, done.stderr) == (3, "done\n", "no\n")
    assert living(mark) == []


def test_what_a_tool_printed_is_not_lost_where_a_daemon_holds_its_output(mark: str) -> None:
    done = run_tool(["sh", "-c", f"(setsid sleep {mark} &); echo done; exit 3"], timeout_s=0.3)
    assert (done.returncode, done.stdout) == (3, "done\n")


def test_an_interrupt_ends_a_tool_with_its_children(mark: str) -> None:
    def interrupt(_: int) -> None:
        while len(living(mark)) < 2:
            pass
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_tool(["sh", "-c", f"sleep {mark}; true"], timeout_s=60, on_start=interrupt)
    wait_until_none_lives(mark)


@pytest.mark.parametrize("hang", HANGS[:2])
def test_make_says_which_compiler_hung_on_which_file(tmp_path: Path, wrapper: Wrapper, mark: str, hang: str) -> None:
    sample.emit(tmp_path / "package")
    cc = wrapper("*tiny_kernels.c*", hang.format(mark))
    with work_copy(tmp_path / "package") as (copy, manifest):
        tools = replace(PackageToolchain.of(manifest), cc=str(cc))
        with pytest.raises(ToolHung, match=r"^gcc hung on tiny_kernels\.c: it did not end within 2 s"):
            make(copy, "build/tiny_selftest", tools, 2)
    wait_until_none_lives(mark)


def test_a_program_of_a_package_that_hangs_failed(tmp_path: Path) -> None:
    (tmp_path / "tiny_selftest").touch()
    with pytest.raises(SelfTestFailed, match=r"^env hung on tiny_selftest: it did not end within 0\.2 s"):
        run(["env", "sh", "-c", "sleep 60; true", "tiny_selftest"], tmp_path, 0.2)


def test_a_compiler_that_hangs_is_tried_once_before_a_search(wrapper: Wrapper, mark: str) -> None:
    cc = wrapper("*", f"echo $$ >>{{}}.log; sleep {mark}")
    log = cc.with_suffix(".log")
    cc.write_text(cc.read_text().replace("{}.log", str(log)))
    target = detect_host()
    slow = target.model_copy(update={"compiler": target.compiler.model_copy(update={"cc": str(cc)})})
    with pytest.raises(ToolHung, match=r"^gcc hung on unit\.c: it did not end within 0\.3 s"):
        toolchain_of(slow, 0.3)
    assert len(log.read_text().split()) == 1
    wait_until_none_lives(mark)


@pytest.mark.parametrize(("pattern", "what"), [("*--version*", "--version"), ("*-c*|*check.c*", "check.c")])
def test_a_board_whose_compiler_hangs_is_a_matter_of_its_host(
    wrapper: Wrapper, mark: str, monkeypatch: pytest.MonkeyPatch, pattern: str, what: str
) -> None:
    monkeypatch.setattr(board_check, "_TIMEOUT_S", 0.3)
    cc = wrapper(pattern, f"sleep {mark}")
    target = detect_host()
    slow = target.model_copy(update={"compiler": target.compiler.model_copy(update={"cc": str(cc)})})
    findings = board_check.check_board(slow, required=True)
    assert (findings[-1].ok, findings[-1].exit_code) == (False, ToolHung.exit_code)
    with pytest.raises(ToolHung, match=rf"gcc hung (on|in).*{what}.*within 0\.3 s"):
        fitness((), lambda: iter(findings), lambda _: None)


def test_no_tool_is_started_without_its_group_and_deadline() -> None:
    """Programs that are started by other means are listed here, each with what ends it."""
    ended_by = {
        "ipc/process_group.py": "the block of `program`",
        "ipc/child_process.py": "its parent, of which the kernel tells it",
        "boards/process.py": "the end of its stdin",
        "boards/ssh/dial.py": "the end of its socket",
        "boards/machine/machine.py": "the thread that started it, of which the kernel tells it",
        "boards/tvm_rpc/launched.py": "the end of its stdin",
        "boards/transport.py": "the person whose shell it is",
        "boards/transports/machine.py": "the person whose shell it is",
        "bundle/running.py": "its own deadline for each candidate",
        "bundle/gpu_host.py": "the end of its stdin",
    }
    source = Path(board_check.__file__).parents[1]
    found = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if re.search(
            r"subprocess\.(run|Popen|call|check_\w+)\(|os\.(system|popen|posix_spawn|fork)\(", path.read_text()
        )
    }
    forks = {"cli/stderr_reader.py", "measure/reference.py", "boards/local/runner_process.py"}
    assert found == ended_by.keys() | forks
