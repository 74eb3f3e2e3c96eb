"""SIGTERM to `edgetune tune`, or to all its processes as service managers do it: a package, code 143, no orphans."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune.cli.main import run, termination
from edgetune.errors import Interrupted, Terminated
from tests.measure.test_session import descendants, wait_until_gone

ENDS_SECONDS = 300.0


def save_model(path: Path) -> None:
    weights = numpy_helper.from_array(np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [32, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [32, 64])],
        [weights],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.mark.long
@pytest.mark.parametrize("everyone", [False, True])
def test_sigterm_ends_a_tune_with_the_package_so_far(tmp_path: Path, everyone: bool) -> None:
    save_model(tmp_path / "m.onnx")
    command = [sys.executable, "-m", "edgetune", "tune", "m.onnx", "--board", "host", "--time", "1h", "-o", "out"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    log = tmp_path / "log"
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            [*command, "--json"], cwd=tmp_path, env=environment, stderr=stderr, stdout=subprocess.PIPE, text=True
        ) as process,
    ):
        deadline = time.monotonic() + ENDS_SECONDS
        while log.read_text().count('"event": "candidate"') < 3:
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline
            time.sleep(0.1)
        children = descendants(process.pid)
        os.kill(process.pid, signal.SIGTERM)
        for pid in children if everyone else ():
            with contextlib.suppress(ProcessLookupError):  # a compiler's end, or the search's own doing: all are to go
                os.kill(pid, signal.SIGTERM)
        said, _ = process.communicate(timeout=ENDS_SECONDS)
    assert process.returncode == 143, log.read_text()[-2000:]
    error = [json.loads(line) for line in log.read_text().splitlines()][-1]["error"]
    assert (error["class"], error["exit_code"]) == ("Terminated", 143)
    assert error["message"].startswith("terminated; the package holds the best kernels so far")
    result = json.loads(said)
    assert result["search"]["interrupted"]
    assert result["search"]["measured"] >= 3
    assert (tmp_path / "out" / "MANIFEST.json").is_file()
    assert not wait_until_gone(children, 30.0)


def test_the_handler_is_there_only_while_a_command_runs() -> None:
    assert run(["--version"]) == 0
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    with termination() as told:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        assert told.came
        named = told.name(Interrupted("interrupted; go on"))
        assert isinstance(named, Terminated)
        assert named.message == "terminated; go on"
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_handler_of_somebody_else_stays() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with termination() as told:
            os.kill(os.getpid(), signal.SIGTERM)
        assert not told.came
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
