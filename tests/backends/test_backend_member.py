"""A backend of another distribution: a target names it, and build, verify, tune and bench ask it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import onnx
import pytest
import yaml
from onnx import TensorProto, helper

from edgetune.errors import BoardUnavailable, ConfigError
from edgetune.resources import targets_dir
from edgetune.verify.work_copy import work_copy
from tests.distribution_sample import edgetune, install

# Builds candidates as c-linux does, and notes each; its packages have no benchmark, one thread, and start-up code.
CODE = """
from dataclasses import replace
from pathlib import Path

from edgetune.backends.c_linux import CLinux
from edgetune.package.package_file import PackageFile
from edgetune.target.target import KeyFault

START = b"__attribute__((constructor)) void lean_start(void);\\nvoid lean_start(void) {}\\n"


class Lean(CLinux):
    most_threads = 1

    def build_candidate(self, toolchain, unit, shim, library, on_start=None):
        with (Path(__file__).parent / "built").open("a") as file:
            file.write("one\\n")
        return super().build_candidate(toolchain, unit, shim, library, on_start)

    def target_fault(self, target):
        return KeyFault("cores", "must be at most 64 for c-lean") if target.cores > 64 else None

    def program_image(self, prefix, target):
        return replace(
            super().program_image(prefix, target),
            programs=("selftest",),
            files=(PackageFile(f"test/{prefix}_start.c", START),),
            objects=(f"{prefix}_start.o",),
        )


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


@pytest.mark.long
def test_a_target_names_the_backend_of_another_distribution(site: Path, folder: Path) -> None:
    done = edgetune(["build", "small.onnx", "--board", "lean.yaml", "-o", "small"], site, cwd=folder)
    assert done.returncode == 0, done.stderr
    files = sorted(path.name for path in (folder / "small/test").iterdir())
    assert files == ["small_selftest.c", "small_start.c", "small_vectors.h"]
    with work_copy(folder / "small") as (copy, _):
        subprocess.run(["make", "-s", "build/small_selftest"], cwd=copy, check=True)
        assert b"lean_start" in (copy / "build/small_selftest").read_bytes()
    done = edgetune(["verify", "small", "--json"], site, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["fresh_cases"] == 2
    assert edgetune(["bench", "small"], site, cwd=folder).returncode == BoardUnavailable.exit_code


@pytest.mark.long
def test_a_search_builds_candidates_with_it(site: Path, folder: Path) -> None:
    done = edgetune(["tune", "small.onnx", "--board", "local.yaml", "--trials", "2", "-o", "small"], site, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert len((site / "built").read_text().splitlines()) >= 2


def test_without_the_distribution_one_sentence_says_so(folder: Path) -> None:
    done = edgetune(["build", "small.onnx", "--board", "lean.yaml"], cwd=folder)
    assert done.returncode == ConfigError.exit_code
    assert "lean.yaml, line 1: 'backend' must be the name of a backend, not 'c-lean': did you mean" in done.stderr
    assert not (folder / "build").exists()


@pytest.mark.long
def test_the_doctor_names_wrong_target_files_and_checks_the_others(site: Path, folder: Path) -> None:
    """Of the wrong ones, one names no backend, one is refused by its backend, and one lacks its memory map."""
    targets = folder / "config/edgetune/targets"
    targets.mkdir(parents=True)
    lean = yaml.safe_load((folder / "lean.yaml").read_text())
    bare = yaml.safe_load((targets_dir() / "mps2-an500.yaml").read_text())
    del bare["memory_map"]
    for name, content in {
        "odd": lean | {"backend": "c-lane"},
        "many": lean | {"cores": 65},
        "bare": bare,
    }.items():
        text = yaml.safe_dump(content | {"name": name}, sort_keys=False)
        (targets / f"{name}.yaml").write_text(text)
    environment = {"XDG_CONFIG_HOME": str(folder / "config")}
    done = edgetune(["doctor", "--json"], site, cwd=folder, environment=environment)
    assert done.returncode == ConfigError.exit_code, done.stderr
    found = {each["check"]: each["detail"] for each in json.loads(done.stdout)}
    for name, sentence in {
        "odd": r"line 1: 'backend' must be the name of a backend, not 'c-lane': did you mean 'c-lean'\?",
        "many": r"line \d+: 'cores' must be at most 64 for c-lean",
        "bare": r"line 3: 'backend' is 'c-bare-metal', which links programs by 'memory_map': add that",
    }.items():
        assert re.search(rf"{name}\.yaml, {sentence}", found[f"target {name}"])
    assert any("rpi4" in check for check in found)
    for name in ("odd", "many", "bare"):
        words = ["build", "small.onnx", "--board", name]
        done = edgetune(words, site, cwd=folder, environment=environment)
        assert (done.returncode, f"{name}.yaml, line " in done.stderr) == (ConfigError.exit_code, True)
