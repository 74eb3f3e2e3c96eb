"""docs/targets.md, "A microcontroller of your own", followed word by word."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from edgetune.errors import MemoryLimitExceeded, ToolchainMissing
from edgetune.target.target import load_target
from tests.distribution_sample import edgetune

ROOT = Path(__file__).parents[2]
MODEL = ROOT.parent / "shared" / "models" / "mlperf_tiny" / "ad_int8.tflite"
MOST_LINES = 40


def block(language: str) -> str:
    """The first block of a language in the section."""
    text = (ROOT / "docs" / "targets.md").read_text(encoding="utf-8")
    section = text.split("## A microcontroller of your own\n")[1].split("\n## ")[0]
    found = re.search(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_the_example_is_short_and_loads(tmp_path: Path) -> None:
    text = block("yaml")
    assert len(text.splitlines()) <= MOST_LINES
    (tmp_path / "my-board.yaml").write_text(text, encoding="utf-8")
    target = load_target(str(tmp_path / "my-board.yaml"))
    limits = target.defaults.memory
    assert limits is not None
    assert (limits.ram or 0) < target.memory_sizes["ram"]
    assert (limits.flash or 0) < target.memory_sizes["flash"]


@pytest.mark.skipif(not MODEL.is_file(), reason=f"{MODEL} is not there")
def test_its_first_command_builds_a_package_that_is_tested(tmp_path: Path) -> None:
    (tmp_path / "my-board.yaml").write_text(block("yaml"), encoding="utf-8")
    shutil.copy(MODEL, tmp_path / "model.tflite")
    program, *words = shlex.split(block("sh").splitlines()[0], comments=True)
    assert program == "edgetune"
    done = edgetune(words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "self-test on this machine, under qemu-system-arm" in done.stderr
    target = json.loads((tmp_path / "out/MANIFEST.json").read_text())["target"]
    assert target["memory_map"]["flash"] == {"origin": 0x08000000, "bytes": 1 << 20}


@pytest.mark.skipif(not MODEL.is_file(), reason=f"{MODEL} is not there")
@pytest.mark.parametrize(
    ("verb", "changed", "code", "sentence"),
    [
        (
            "tune",
            {"compiler.cc": "no-such-gcc"},
            ToolchainMissing.exit_code,
            r"no-such-gcc \(the C compiler of board 'my-board'\) is not on PATH: sudo apt-get install gcc-arm",
        ),
        (
            "build",
            {"memory_map.flash.bytes": "256KiB", "defaults": {}},
            MemoryLimitExceeded.exit_code,
            r"the weights of model take \d+ bytes, and the limit is 262144 bytes, \d+ too few; the largest are ",
        ),
        (
            "build",
            {"memory_map.ram.bytes": 128, "defaults": {}},
            MemoryLimitExceeded.exit_code,
            r"model needs an arena of \d+ bytes, and the limit is 128 bytes, \d+ too few; the largest tensors are ",
        ),
    ],
    ids=["compiler", "flash", "ram"],
)
def test_what_does_not_work_is_said(
    verb: str, changed: dict[str, object], code: int, sentence: str, tmp_path: Path
) -> None:
    described = yaml.safe_load(block("yaml"))
    for key, value in changed.items():
        *groups, last = key.split(".")
        group = described
        for name in groups:
            group = group[name]
        group[last] = value
    (tmp_path / "my-board.yaml").write_text(yaml.safe_dump(described), encoding="utf-8")
    shutil.copy(MODEL, tmp_path / "model.tflite")
    done = edgetune([verb, "model.tflite", "--board", "my-board.yaml", "-o", "out"], cwd=tmp_path)
    assert done.returncode == code, done.stderr
    (error,) = [line for line in done.stderr.splitlines() if "error: " in line]
    assert re.search(sentence, error)
    assert not (tmp_path / "out").exists()
