"""`--flavour`: a package gets the files of the flavours that it is built for, those of other distributions too."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.distribution_sample import edgetune, install

MESON = '''\
"""A flavour of another distribution: one file, with the sources that the package has."""
from edgetune.package.package_file import PackageFile

class Meson:
    name = "meson"

    def files(self, facts):
        p, sources = facts.api.prefix, ", ".join(f"'src/{name}'" for name in facts.sources())
        text = f"project('{p}', 'c')\\nstatic_library('{p}', {sources}, include_directories: ['include', 'src'])\\n"
        yield PackageFile("meson.build", text.encode())

MESON = Meson()
'''
BUILT = """\
project('net', 'c')
static_library('net', 'src/net.c', 'src/net_kernels.c', 'src/net_rt.c', 'src/net_weights.c', \
include_directories: ['include', 'src'])
"""


@pytest.fixture(scope="module")
def meson(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("meson"), "edgetune.flavours", "meson", "meson_flavour:MESON", MESON)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a model of one layer."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in ("x", "y")]
    scale = helper.make_tensor("scale", TensorProto.FLOAT, [4], np.arange(1, 5, dtype=np.float32))
    graph = helper.make_graph([helper.make_node("Mul", ["x", "scale"], ["y"])], "g", ends[:1], ends[1:], [scale])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    return tmp_path


def build_files(package: Path) -> list[str]:
    """What builds the package: its files beside folders and documents."""
    documents = {"MANIFEST.json", "REPORT.md", "README.md", "LICENSE"}
    return sorted(path.name for path in package.iterdir() if path.is_file() and path.name not in documents)


@pytest.mark.long
def test_a_flavour_of_another_distribution_is_written_beside_make(meson: Path, project: Path) -> None:
    words = ["build", "net.onnx", "--board", "host", "-o", "out", "--json"]
    done = edgetune([*words, "--flavour", "meson"], meson, cwd=project)
    assert done.returncode == 0, done.stderr
    assert build_files(project / "out") == ["Makefile", "meson.build", "net.pc.in"]
    assert (project / "out/meson.build").read_text(encoding="ascii") == BUILT
    assert "meson.build" in json.loads((project / "out/MANIFEST.json").read_text(encoding="ascii"))["files"]
    subprocess.run(["make", "-s", "-C", "out", "selftest"], cwd=project, check=True, capture_output=True)

    (project / "edgetune.yaml").write_text("model: net.onnx\nboards: [host]\nflavours: [meson, cmake]\n", "utf-8")
    done = edgetune(["build", "-o", "out"], meson, cwd=project)
    assert done.returncode == 0, done.stderr
    assert build_files(project / "out") == ["CMakeLists.txt", "Makefile", "meson.build", "net.pc.in"]


@pytest.mark.long
def test_an_unknown_flavour_is_refused_with_the_nearest_name(meson: Path, project: Path) -> None:
    done = edgetune(["tune", "net.onnx", "--board", "host", "--flavour", "mason", "-q"], meson, cwd=project)
    said = "edgetune: error: unknown flavour 'mason': did you mean 'meson'? (flag --flavour)\n"
    assert (done.returncode, done.stderr) == (2, said)
    assert not (project / "build").exists()


@pytest.mark.long
def test_two_models_of_one_file_name_are_linked_into_one_program(project: Path) -> None:
    calls, words = [], []
    for name, folder in (("first", "a"), ("second", "b")):
        (project / folder).mkdir()
        shutil.copy(project / "net.onnx", project / folder / "model.onnx")
        flags = ["--name", name, "--board", "host", "-q"]
        done = edgetune(["build", f"{folder}/model.onnx", *flags], cwd=project)
        assert done.returncode == 0, done.stderr
        package = project / f"build/{name}-host"
        assert [path.name for path in (package / "include").iterdir()] == [f"{name}.h"]
        assert not re.search(r"(?i)\bmodel_", (package / "include" / f"{name}.h").read_text("utf-8"))
        subprocess.run(["make", "-s", "lib"], cwd=package, check=True)
        calls.append(f"{name}_deinit(0); puts({name}_build_info());")
        words += [f"-I{package / 'include'}", "-include", f"{name}.h", str(package / f"lib/lib{name}.a")]
    (project / "both.c").write_text(f"#include <stdio.h>\nint main(void) {{ {' '.join(calls)} }}\n", encoding="ascii")
    subprocess.run(["gcc", "-w", "both.c", *words, "-lm", "-o", "both"], cwd=project, check=True)
    done = subprocess.run([str(project / "both")], capture_output=True, text=True, check=True)
    assert re.findall(r"^(\w+) 1\.0\.0, model sha256 ", done.stdout, re.MULTILINE) == ["first", "second"]


@pytest.mark.long
def test_the_version_of_a_package_is_that_of_the_flag(project: Path) -> None:
    done = edgetune(["build", "net.onnx", "--board", "host", "-o", "out", "--package-version", "2.10.3"], cwd=project)
    assert done.returncode == 0, done.stderr
    assert json.loads((project / "out/MANIFEST.json").read_text("utf-8"))["version"] == "2.10.3"
    assert "Version: 2.10.3\n" in (project / "out/net.pc.in").read_text("utf-8")
    assert "#define NET_VERSION_MINOR 10\n" in (project / "out/include/net.h").read_text("utf-8")
    done = edgetune(["build", "net.onnx", "--board", "host", "--package-version", "2.10"], cwd=project)
    assert done.returncode == 2
    assert "must be three numbers such as 1.0.0, not '2.10'" in done.stderr
