"""Descriptor 2: what libraries, children and crashes write there is read, and comes out in the chosen way."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune.errors import KernelFailed
from tests.measure.test_session import wait_until_gone

FOREIGN = ("a warning of a library", "Warning: from C", "from a child", "no line end")

# `explain` as something else: it is a verb that imports nothing heavy.
SCRIPT = """
import ctypes, os, signal, subprocess, sys, threading, time, warnings
import edgetune.package.explain as package
from edgetune.cli.main import main
from edgetune.errors import KernelFailed

def explain(folder, kernel):
    warnings.warn("a warning of a library")
    os.write(2, b"Warning: from C\\n\\n")
    subprocess.run(["sh", "-c", "echo from a child >&2; printf 'no line end' >&2"])
    exec(os.environ["THEN"])
    raise KernelFailed("it failed")

package.explain = explain
main()
"""


def explain(tmp_path: Path, *flags: str, then: str = "") -> tuple[int, list[str]]:
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    environment = {
        **os.environ,
        "THEN": then,
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "PYTHONWARNINGS": "default",
    }
    done = subprocess.run(
        [sys.executable, "script.py", "explain", "a", "b", *flags],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr.splitlines()


def test_people_see_our_sentence_alone(tmp_path: Path) -> None:
    assert explain(tmp_path) == (18, ["edgetune: error: it failed"])
    assert explain(tmp_path, "-q") == (18, ["edgetune: error: it failed"])


@pytest.mark.long
def test_verbose_shows_what_others_wrote_before_our_sentence(tmp_path: Path) -> None:
    code, lines = explain(tmp_path, "-v")
    assert code == KernelFailed.exit_code
    assert lines[-1] == "edgetune: error: it failed"
    assert all(line.startswith("edgetune: stderr: ") for line in lines[:-1])
    said = "\n".join(lines)
    assert all(words in said for words in FOREIGN)


@pytest.mark.long
def test_json_has_it_as_events(tmp_path: Path) -> None:
    code, lines = explain(tmp_path, "--json")
    assert code == KernelFailed.exit_code
    events = [json.loads(line) for line in lines]
    assert events[-1]["error"]["message"] == "it failed"
    assert {event["event"] for event in events[:-1]} == {"stderr"}
    assert all(any(words in event["message"] for event in events[:-1]) for words in FOREIGN)
    _, lines = explain(tmp_path, "--json", "-q")
    assert [json.loads(line)["error"]["message"] for line in lines] == ["it failed"]


CRASHES = {
    "segfault": ("ctypes.string_at(0)", signal.SIGSEGV, "edgetune crashed (Segmentation fault) in "),
    "abort": ("os.abort()", signal.SIGABRT, "edgetune crashed (Aborted) in "),
    "kill": ("os.kill(os.getpid(), signal.SIGKILL)", signal.SIGKILL, "edgetune was killed, and wrote last: "),
}


@pytest.mark.long
@pytest.mark.parametrize("how", CRASHES)
@pytest.mark.parametrize("flags", [(), ("--json",), ("-q",), ("-v",)])
def test_the_last_of_it_is_in_the_message_when_the_process_dies(
    tmp_path: Path, how: str, flags: tuple[str, ...]
) -> None:
    then, number, words = CRASHES[how]
    code, lines = explain(tmp_path, *flags, then=then)
    assert code == -number
    if "--json" in flags:
        events = [json.loads(line) for line in lines]
        assert events[-1]["error"]["exit_code"] == 128 + number
        sentence = events[-1]["error"]["message"]
    else:
        assert len(lines) == 1 or flags == ("-v",)
        sentence = lines[-1].removeprefix("edgetune: error: ")
    assert sentence.startswith(words)
    assert all(said in sentence for said in FOREIGN)


@pytest.mark.long
def test_a_fault_of_ours_has_its_traceback(tmp_path: Path) -> None:
    code, lines = explain(tmp_path, then="1 / 0")
    assert code == 1
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "ZeroDivisionError: division by zero"
    code, lines = explain(tmp_path, "--json", then="1 / 0")
    assert code == 1
    error = [json.loads(line) for line in lines][-1]["error"]
    assert (error["class"], error["exit_code"]) == ("ZeroDivisionError", 1)
    assert error["traceback"].startswith("Traceback (most recent call last):")
    assert "report this" in error["message"]


@pytest.mark.long
def test_so_has_one_in_another_thread(tmp_path: Path) -> None:
    then = "t = threading.Thread(target=lambda: [][1]); t.start(); t.join()"
    code, lines = explain(tmp_path, "--json", then=then)
    assert code == KernelFailed.exit_code
    classes = [event["error"]["class"] for line in lines if "error" in (event := json.loads(line))]
    assert classes == ["IndexError", "KernelFailed"]


@pytest.mark.long
def test_a_flood_neither_stops_the_command_nor_tears_lines(tmp_path: Path) -> None:
    """More than any pipe holds, written while the interpreter is held; our own long lines meanwhile."""
    then = (
        "os.write(2, b'\\n'); libc = ctypes.PyDLL(None); text = b'y' * 99 + b'\\n'\n"
        "from edgetune.cli import stderr\n"
        "for _ in range(50):\n"
        "    for _ in range(200): libc.write(2, text, len(text))\n"
        "    stderr.say_json({'ours': 'z' * 20000})"
    )
    code, lines = explain(tmp_path, "--json", then=then)
    assert code == KernelFailed.exit_code
    events = [json.loads(line) for line in lines]
    assert sum(event.get("message") == "y" * 99 for event in events) == 10_000
    assert sum("ours" in event for event in events) == 50


@pytest.mark.long
def test_signals_that_mean_the_command_do_not_end_the_reader(tmp_path: Path) -> None:
    """As a service manager stops all processes of a group: what is said afterwards is still read."""
    then = (
        "from pathlib import Path\n"
        "children = Path(f'/proc/{os.getpid()}/task/{os.getpid()}/children').read_text().split()\n"
        "for child in children: os.kill(int(child), signal.SIGTERM); os.kill(int(child), signal.SIGINT)\n"
        "time.sleep(0.2); os.write(2, b'after the signals\\n')"
    )
    _, lines = explain(tmp_path, "--json", then=then)
    assert any("after the signals" in line for line in lines)


@pytest.mark.long
def test_nothing_is_left_running(tmp_path: Path) -> None:
    then = (
        "from pathlib import Path\n"
        "Path('children').write_text(Path(f'/proc/{os.getpid()}/task/{os.getpid()}/children').read_text())"
    )
    explain(tmp_path, then=then)
    readers = (tmp_path / "children").read_text().split()
    assert len(readers) == 1
    assert wait_until_gone({int(readers[0])}) == set()


@pytest.mark.long
def test_a_command_without_a_stderr(tmp_path: Path) -> None:
    command = f"{sys.executable} -m edgetune boards list >out 2>&-"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        check=False,
    )
    assert done.returncode == 0
    assert "cortex-a76" in (tmp_path / "out").read_text()


def test_verbose_on_a_terminal_is_shown_beside_the_live_display(tmp_path: Path) -> None:
    """A display that is drawn over and over is written by one process alone: foreign lines come through it."""
    script = tmp_path / "live.py"
    script.write_text(
        "import os, sys\n"
        "import edgetune.cli.stderr_reader as reader\n"
        "from edgetune.cli import stderr\n"
        "from edgetune.cli.output import Output\n"
        "from edgetune.cli.progress import show_progress\n"
        "from edgetune.events import Event\n"
        "with reader.stderr_is_read(as_json=False):\n"
        "    with show_progress(Output(as_json=False, verbosity=1), 'title') as events:\n"
        "        os.write(2, b'from a library\\n')\n"
        "        stderr.settle()\n"
        "        events(Event('phase', {'name': 'search'}))\n",
        encoding="utf-8",
    )
    primary, secondary = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    with subprocess.Popen([sys.executable, str(script)], env=environment, stderr=secondary) as process:
        os.close(secondary)
        shown = b""
        while True:
            try:
                data = os.read(primary, 4096)
            except OSError:  # the other end is closed
                break
            if not data:
                break
            shown += data
        assert process.wait(60) == 0
    os.close(primary)
    assert b"stderr: from a library\r\n" in shown
    assert b"edgetune: stderr" not in shown


@pytest.mark.long
@pytest.mark.parametrize("to", ["2>&-", "2>/dev/full", "2>&1 >/dev/null | true", "<&- >&- 2>&-"])
@pytest.mark.parametrize("flags", ["", "--json"])
def test_where_nobody_reads_stderr_work_goes_on_and_the_exit_code_is_right(tmp_path: Path, to: str, flags: str) -> None:
    (tmp_path / "script.py").write_text(
        "import os, sys, time\n"
        "import edgetune.package.explain as package\n"
        "from edgetune.cli import stderr\n"
        "from edgetune.cli.main import main\n"
        "from edgetune.errors import KernelFailed\n"
        "def explain(folder, kernel):\n"
        "    time.sleep(0.2)\n"
        "    for number in range(3):\n"
        "        stderr.say(f'line {number}')\n"
        "        os.write(2, b'from a library')\n"
        "    with open('made', 'w') as file:\n"
        "        print('worked', file=file)\n"
        "    raise KernelFailed('it failed')\n"
        "package.explain = explain\n"
        "main()\n",
        encoding="utf-8",
    )
    command = f"( {sys.executable} script.py explain a b {flags}; echo $? >code ) {to}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    subprocess.run(["sh", "-c", command], cwd=tmp_path, env=environment, check=False, timeout=120)
    assert (tmp_path / "made").read_text(encoding="utf-8") == "worked\n"
    assert (tmp_path / "code").read_text(encoding="utf-8") == f"{KernelFailed.exit_code}\n"


def gather(path: Path) -> None:
    """A model for which TVM's C++ warns of indices out of bounds."""
    table = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(4, 3), "t")
    graph = helper.make_graph(
        [helper.make_node("Gather", ["t", "i"], ["y"])],
        "g",
        [helper.make_tensor_value_info("i", TensorProto.INT64, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [table],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.mark.long
def test_what_tvm_writes_while_it_builds(tmp_path: Path) -> None:
    gather(tmp_path / "m.onnx")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}

    def build(flag: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-m", "edgetune", "build", "m.onnx", "--board", "host", "-o", "out", flag],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stderr.splitlines()

    events = [json.loads(line) for line in build("--json")]
    said = [event["message"] for event in events if event["event"] == "stderr"]
    assert any("Fast mode segfaults" in message for message in said), events
    assert build("-q") == []
