"""The wheel holds all that edgetune looks for beside its code, and works where there is no checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("templates", "targets", "deploy")

FROM_WHEEL = """
import sys
from edgetune import resources
from edgetune.target.target import load_target
from edgetune.package.rendering import environment
assert resources.__file__.startswith(sys.argv[1]), resources.__file__
print(load_target("rpi4").name)
environment().get_template("make/Makefile.j2")
"""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `pip install` puts into an environment."""
    out = tmp_path_factory.mktemp("wheel")
    # Neither an environment of its own nor the network: the test extra has the build backend.
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=out)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(out / "site")
    return out / "site"


def shipped(folder: Path) -> set[str]:
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix() for path in files}


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_beside_the_code_are_in_the_wheel(unpacked: Path, name: str) -> None:
    assert shipped(unpacked / "edgetune" / f"_{name}") == shipped(ROOT / name)


def test_an_installed_wheel_finds_them(unpacked: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(unpacked)}
    command = [sys.executable, "-c", FROM_WHEEL, str(unpacked)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=unpacked, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "rpi4\n"


def test_the_code_is_whole(unpacked: Path) -> None:
    modules = {path for path in shipped(ROOT / "edgetune") if path.endswith((".py", ".c", ".h", ".typed"))}
    assert modules <= shipped(unpacked / "edgetune")
