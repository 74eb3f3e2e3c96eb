"""Nights, equal runs and interrupted searches on boards whose candidates are images."""

from __future__ import annotations

import filecmp
import json
from pathlib import Path

import pytest

from tests.acceptance.kill9 import kill_and_resume
from tests.backends.test_c_bare_metal import model
from tests.distribution_sample import edgetune

BOARDS = ("mps2-an386", "mps3-an547")

FARM = """\
models:
  small: small.onnx
  again: {file: small.onnx, threads: 1}
boards: [mps2-an386, mps3-an547]
budget: {trials: 4}
folder: nightly
"""

pytestmark = pytest.mark.long


def _verdicts(folder: Path) -> dict[str, str]:
    nights = sorted((folder / "nightly" / "pages").glob("*/night.json"), key=lambda one: one.stat().st_mtime)
    found = json.loads(nights[-1].read_text(encoding="utf-8"))
    return {cell["cell"]: cell["verdict"] for cell in found["cells"]}


def test_a_night_of_two_boards_and_two_models_and_the_next_one(tmp_path: Path) -> None:
    model(tmp_path / "small.onnx")
    (tmp_path / "farm.yaml").write_text(FARM, encoding="utf-8")
    for verdict in ("first", "same"):
        done = edgetune(["nightly", "run", "--now", "farm.yaml"], cwd=tmp_path, timeout_s=600)
        assert done.returncode == 0, done.stderr
        cells = {f"{name}@{board}" for name in ("small", "again") for board in BOARDS}
        assert _verdicts(tmp_path) == dict.fromkeys(cells, verdict)


def test_two_runs_of_one_seed_write_the_same_bytes(tmp_path: Path) -> None:
    model(tmp_path / "small.onnx")
    packages = []
    for number in ("1", "2"):
        folder = tmp_path / number
        words = ["tune", str(tmp_path / "small.onnx"), "--board", BOARDS[0], "--trials", "8", "--seed", "7"]
        done = edgetune([*words, "--db", str(folder / "r.db"), "-o", str(folder / "small")], cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        packages.append(folder / "small")
    first, second = packages
    names = [sorted(str(one.relative_to(each)) for one in each.rglob("*") if one.is_file()) for each in packages]
    assert names[0] == names[1]
    _, differing, missing = filecmp.cmpfiles(first, second, names[0], shallow=False)
    assert (differing, missing) == ([], [])


def test_a_search_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    """`python tests/acceptance/kill9.py --board mps2-an386 --kills 20` kills more often."""
    model(tmp_path / "small.onnx")
    told = kill_and_resume(tmp_path / "small.onnx", 24, 3, 1, tmp_path / "r.db", tmp_path / "out" / "p", BOARDS[0])
    assert told.startswith("3 kills, 24 records")
    assert told.endswith("litter none")
