"""A model format of an installed distribution is used from the command line; no file of edgetune knows it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.distribution_sample import edgetune, install

MEMBER = Path(__file__).parents[1] / "affine_format.py"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    code = MEMBER.read_text(encoding="utf-8")
    return install(tmp_path_factory.mktemp("affine"), "edgetune.model_formats", "affine", "affine_format:FORMAT", code)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.affine"
    path.write_text("input ? 6\nscale 3\noffset 0.5\n")
    return path


@pytest.fixture
def run(site: Path, tmp_path: Path) -> Callable[..., CompletedProcess[str]]:
    return lambda *words: edgetune(words, site, cwd=tmp_path)


@pytest.mark.long
def test_a_model_of_another_format_is_built_and_verified(
    model: Path, run: Callable[..., CompletedProcess[str]]
) -> None:
    built = run("build", "model.affine", "--board", "host", "--shape", "x=5,6", "-o", "package")
    assert built.returncode == 0, built.stderr
    verified = run("verify", "package")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "PASS" in verified.stdout
    report = json.loads(run("verify", "package", "--model", "model.affine", "--json").stdout)
    assert (report["reference"], report["golden_cases"], report["fresh_cases"]) == ("numpy", 3, 2)
    model.write_text("input ? 6\nscale 4\noffset 0.5\n")
    changed = run("verify", "package", "--model", "model.affine")
    assert changed.returncode == 17
    assert "their hashes differ" in changed.stderr


def test_a_project_is_written_for_it(model: Path, run: Callable[..., CompletedProcess[str]]) -> None:
    done = run("init", model.name)
    assert done.returncode == 0, done.stderr
    text = (model.parent / "edgetune.yaml").read_text(encoding="utf-8")
    assert 'model: "model.affine"' in text
    assert '\nshapes:\n  "x": [1, 6]\n' in text


@pytest.mark.long
def test_its_mistakes_are_told_by_its_own_format(model: Path, run: Callable[..., CompletedProcess[str]]) -> None:
    opened = run("build", model.name, "--board", "host")
    assert "input 'x' of model.affine has an open size: fix it with --shape x=..." in opened.stderr
    named = run("build", model.name, "--board", "host", "--shape", "x=1,6", "--layout", "x=channels_last")
    assert "a layout is given for 'x', but models of this format keep their axes: leave it out" in named.stderr
    missing = run("build", "gone.affine", "--board", "host")
    assert missing.stderr == (
        f"edgetune: error: {model.parent}/gone.affine does not exist: give the path of a model file (flag MODEL)\n"
    )
    assert (opened.returncode, named.returncode, missing.returncode) == (6, 4, 4)


@pytest.mark.long
def test_without_its_distribution_it_is_no_model(model: Path) -> None:
    done = edgetune(["build", model.name, "--board", "host"], cwd=model.parent)
    assert done.returncode == 4
    assert "is not an ONNX file, or it is cut short" in done.stderr
