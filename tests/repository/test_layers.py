"""Rooms are layers: the contract in pyproject.toml holds, and each way around it is found."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT = (
    "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(is_debug_mode=False, cache_dir=None))"
)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the code, with the contract."""
    folder = tmp_path_factory.mktemp("layers")
    shutil.copytree(ROOT / "edgetune", folder / "edgetune", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LINT], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )


def test_rooms_are_layers(checkout: Path) -> None:
    done = lint(checkout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rooms are layers KEPT" in done.stdout


@pytest.mark.parametrize(
    ("file", "line", "named"),
    [
        ("graph/program.py", "from edgetune.package import emit", "graph.program -> edgetune.package.emit"),
        ("codegen/emit.py", "def _late() -> None:\n    from edgetune.search import loop", "edgetune.search.loop"),
        ("measure/session.py", "from edgetune.records import store", "measure.session -> edgetune.records.store"),
        ("target/detect.py", "if TYPE_CHECKING:\n    from edgetune.config import project", "edgetune.config.project"),
        ("config/project.py", "import edgetune", "edgetune.config.project -> edgetune"),  # the facade leads to the top
    ],
    ids=["upward", "in a function", "sideways", "for types alone", "by the facade"],
)
def test_an_import_that_breaks_the_layers_is_found(checkout: Path, file: str, line: str, named: str) -> None:
    path = checkout / "edgetune" / file
    before = path.read_text()
    path.write_text(f"{before}\n\n{line}\n")
    try:
        done = lint(checkout)
    finally:
        path.write_text(before)
    assert done.returncode == 1
    assert "rooms are layers BROKEN" in done.stdout
    assert named in done.stdout


def test_a_room_without_a_layer_is_found(checkout: Path) -> None:
    attic = checkout / "edgetune" / "attic"
    attic.mkdir()
    (attic / "__init__.py").touch()
    try:
        done = lint(checkout)
    finally:
        shutil.rmtree(attic)
    assert done.returncode == 1
    assert "attic" in done.stdout


def test_nothing_but_the_registries_is_excused() -> None:
    excused = [path for path in (ROOT / "edgetune").rglob("*.py") if "TID251" in path.read_text(encoding="utf-8")]
    assert excused == []


@pytest.mark.parametrize(
    "text",
    [
        "import importlib\n\nimportlib.import_module('edgetune.package.emit')\n",
        "from importlib import import_module as late\n\nlate('edgetune.package.emit')\n",
        "import importlib\n\nimportlib.__import__('edgetune.package.emit')\n",
        "import pkgutil\n\npkgutil.resolve_name('edgetune.package.emit:emit_package')\n",
        "import runpy\n\nrunpy.run_module('edgetune.package.emit')\n",
    ],
)
def test_an_import_by_a_name_made_at_run_time_is_found(tmp_path: Path, text: str) -> None:
    path = tmp_path / "edgetune" / "graph" / "late.py"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    words: list[str | Path] = ["check", "--select", "TID251", "--no-cache", path]
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *words], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "rooms are layers" in done.stdout
