"""Tuning for a board without operating system, from the command line to a verified package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgetune.errors import ToolchainMissing
from tests.backends.test_c_bare_metal import model
from tests.distribution_sample import edgetune

BOARD = "mps2-an386"


def test_a_model_is_tuned_and_its_package_verified(tmp_path: Path) -> None:
    model(tmp_path / "small.onnx")
    words = ["tune", "small.onnx", "--board", BOARD, "--trials", "6", "--db", "r.db", "-o", "small", "--json"]
    done = edgetune(words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["verified"]["passed"]
    assert told["verified"]["emulator"] == "qemu-system-arm"
    listed = edgetune(["records", "list", "--db", "r.db", "--json"], cwd=tmp_path)
    records = json.loads(listed.stdout)
    assert records
    report = (tmp_path / "small/REPORT.md").read_text()
    assert "the instructions that one call executes under qemu-system-arm, not times" in report
    benched = edgetune(["bench", "small", "--json"], cwd=tmp_path)
    assert benched.returncode == 0, benched.stderr
    assert json.loads(benched.stdout)["median_us"] > 0


@pytest.mark.long
def test_check_and_setup_run_the_compiler_and_the_emulator(tmp_path: Path) -> None:
    done = edgetune(["boards", "check", BOARD, "--json"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = {each["check"]: each["ok"] for each in json.loads(done.stdout)}
    assert set(found.values()) == {True}
    assert "counts instructions" in found
    done = edgetune(["boards", "setup", BOARD, "--json"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[-1]["check"] == "images"


@pytest.mark.long
def test_a_shell_is_refused_with_the_reason(tmp_path: Path) -> None:
    done = edgetune(["boards", "shell", BOARD], cwd=tmp_path)
    assert done.returncode == 2
    assert "it is emulated here" in done.stderr


@pytest.mark.long
def test_a_missing_emulator_is_told_before_the_search(tmp_path: Path) -> None:
    model(tmp_path / "small.onnx")
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    for tool in ("make", "arm-none-eabi-gcc", "sh", "gcc"):
        (bin_folder / tool).symlink_to(f"/usr/bin/{tool}")
    words = ["tune", "small.onnx", "--board", BOARD, "--trials", "2", "-o", "small"]
    done = edgetune(words, cwd=tmp_path, environment={"PATH": str(bin_folder)})
    assert done.returncode == ToolchainMissing.exit_code
    assert "qemu-system-arm (which runs binaries of board 'mps2-an386') is not on PATH" in done.stderr
    assert "apt-get install" in done.stderr
