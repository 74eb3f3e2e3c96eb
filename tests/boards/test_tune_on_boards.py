"""The whole flow from the command line on emulated boards: search, package, self-test there."""

from __future__ import annotations

import filecmp
import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.case import EXAMPLES, edgetune

MODEL = EXAMPLES / "ds_cnn.onnx"


def tuned(folder: Path, board: str, trials: int, *more: str) -> tuple[Path, dict[str, Any]]:
    """Tune in `folder`; return the package and what the command answered."""
    folder.mkdir()
    words = ("--board", board, "--trials", str(trials), "--seed", "7", "-o", folder / "p", "--db", folder / "r.db")
    done = edgetune("tune", MODEL, *words, *more, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "p", json.loads(done.stdout)


@pytest.mark.parametrize(("rpc", "trials"), [("agent", 16), ("tvm", 7)])
def test_emulated_raspberry_pi(tmp_path: Path, rpc: str, trials: int) -> None:
    """A machine with its own kernel and sshd; over TVM's RPC the server is brought there and joins a tracker."""
    setup = edgetune("boards", "setup", "qemu-rpi4", cwd=tmp_path)
    assert setup.returncode == 0, setup.stderr[-3000:]
    package, told = tuned(tmp_path / rpc, "qemu-rpi4", trials, "--rpc", rpc)
    assert told["search"]["records"] == trials
    assert told["search"]["boards"].keys() == {"qemu-rpi4"}
    assert "emulated board qemu-rpi4" in told["verified"]["ran_on"]
    assert (package / "MANIFEST.json").is_file()


def test_counted_instructions_give_the_same_package_twice(tmp_path: Path) -> None:
    """T0 is exact: one seed, the same programs, the same bytes; and the report says what was counted."""
    first, _ = tuned(tmp_path / "first", "qemu-aarch64", 18)
    second, _ = tuned(tmp_path / "second", "qemu-aarch64", 18)
    names = sorted(str(path.relative_to(first)) for path in first.rglob("*") if path.is_file())
    assert names == sorted(str(path.relative_to(second)) for path in second.rglob("*") if path.is_file())
    _, different, unread = filecmp.cmpfiles(first, second, names, shallow=False)
    assert (different, unread) == ([], [])
    report = (first / "REPORT.md").read_text()
    assert "instructions" in report
    assert " us " not in report
