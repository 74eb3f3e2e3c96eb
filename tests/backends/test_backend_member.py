"""A backend of another distribution: a target names it, and build, verify, tune and bench ask it."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
import yaml
from onnx import TensorProto, helper

from edgetune.errors import BoardUnavailable, ConfigError
from edgetune.resources import targets_dir
from tests.distribution_sample import edgetune, install

# Builds candidates as c-linux does, and notes each; its packages have no benchmark, and one thread.
CODE = """
from dataclasses import replace
from pathlib import Path

from edgetune.backends.c_linux import CLinux


class Lean(CLinux):
    most_threads = 1

    def build_candidate(self, toolchain, unit, shim, library, on_start=None):
        with (Path(__file__).parent / "built").open("a") as file:
            file.write("one\\n")
        return super().build_candidate(toolchain, unit, shim, library, on_start)

    def program_image(self, prefix, target):
        return replace(super().program_image(prefix, target), programs=("selftest",))


BACKEND = Lean()
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("lean"), "edgetune.backends", "c-lean", "lean_backend:BACKEND", CODE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model, and a board whose target file names the backend."""
    target = yaml.safe_load((targets_dir() / "generic-x86_64.yaml").read_text())
    target |= {"name": "lean", "backend": "c-lean"}
    (tmp_path / "lean.yaml").write_text(yaml.safe_dump(target))
    (tmp_path / "local.yaml").write_text(yaml.safe_dump(target | {"name": "local", "reach": "local"}))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [64]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "small", values[:1], values[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "small.onnx")
    return tmp_path


def test_a_target_names_the_backend_of_another_distribution(site: Path, folder: Path) -> None:
    done = edgetune(["build", "small.onnx", "--board", "lean.yaml", "-o", "small"], site, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (folder / "small/test").iterdir()) == ["small_selftest.c", "small_vectors.h"]
    done = edgetune(["verify", "small", "--json"], site, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["fresh_cases"] == 2
    assert edgetune(["bench", "small"], site, cwd=folder).returncode == BoardUnavailable.exit_code


def test_a_search_builds_candidates_with_it(site: Path, folder: Path) -> None:
    done = edgetune(["tune", "small.onnx", "--board", "local.yaml", "--trials", "2", "-o", "small"], site, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert len((site / "built").read_text().splitlines()) >= 2


def test_without_the_distribution_one_sentence_says_so(folder: Path) -> None:
    done = edgetune(["build", "small.onnx", "--board", "lean.yaml"], cwd=folder)
    assert done.returncode == ConfigError.exit_code
    assert "target 'lean' has an unknown backend 'c-lean': did you mean" in done.stderr
    assert not (folder / "build").exists()
