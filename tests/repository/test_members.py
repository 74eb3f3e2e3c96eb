"""Members of registries are found by name; no file but the member's own compares with that name."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GROUPS = ("edgetune.flavours",)


def members() -> list[tuple[str, str]]:
    """Name and module of each member."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    points = [point for group in GROUPS for point in project["entry-points"][group].items()]
    return [(name, value.partition(":")[0]) for name, value in points]


def compared(path: Path) -> set[str]:
    """Texts that a file compares with, in comparisons and in cases of a match."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Compare | ast.MatchValue):
            found |= {
                part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)
            }
    return found


def test_comparisons_are_found(tmp_path: Path) -> None:
    text = 'a == "one"\nb in ("two", x)\nmatch c:\n    case "three": pass\nd = "four"\n'
    (tmp_path / "sample.py").write_text(text, encoding="utf-8")
    assert compared(tmp_path / "sample.py") == {"one", "two", "three"}


@pytest.mark.parametrize(("name", "module"), members())
def test_no_other_file_compares_with_the_name_of_a_member(name: str, module: str) -> None:
    own = ROOT.joinpath(*module.split("."))
    paths = [path for path in (ROOT / "edgetune").rglob("*.py") if own not in (path.parent, path.with_suffix(""))]
    assert len(paths) > 100
    assert [str(path.relative_to(ROOT)) for path in paths if name in compared(path)] == []
