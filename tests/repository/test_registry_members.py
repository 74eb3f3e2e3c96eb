"""Members of registries are found by name: no file but a member's own compares with that name, nor any template."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from edgetune.registry import Registry

ROOT = Path(__file__).parents[2]
POINTS: dict[str, dict[str, str]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "entry-points"
]
HOMONYMS = {
    "local": {  # TVM's scope of a buffer in registers
        "edgetune/codegen/horizontal_reduction.py",
        "edgetune/schedule/sketches/limits.py",
        "edgetune/schedule/sketches/remainders.py",
    },
    "agent": {"edgetune/cli/progress.py"},  # a kind of event
    "gpu": {"edgetune/package/manifest_model.py", "edgetune/target/target.py"},  # the key `kind` of a target
}
"""Files that compare with the name of a member, and mean something else."""

_TEXT = r"""(?:"[^"\n]*"|'[^'\n]*')"""
_COMPARED = re.compile(
    rf"""[=!]=\s*(?P<after>{_TEXT})        # x == "name"
    | (?P<before>{_TEXT})\s*[=!]=          # "name" == x
    | \bin\s*(?P<among>[(\[{{][^)\]}}]*)   # x in ["name", ...]
    | \bis\s+(?:not\s+)?(?:eq|ne|equalto|in)\s*(?P<test>\([^)]*\))""",
    re.VERBOSE,
)


def compared(text: str) -> set[str]:
    """Texts that Python code compares with, in comparisons and in cases of a match."""
    places = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Compare | ast.MatchValue)]
    parts = [part for place in places for part in ast.walk(place) if isinstance(part, ast.Constant)]
    return {part.value for part in parts if isinstance(part.value, str)}


def compared_in_template(text: str) -> set[str]:
    """Texts that the statements and expressions of a template compare with."""
    found: set[str] = set()
    for code in re.findall(r"\{[%{](.*?)[%}]\}", text, re.DOTALL):
        for match in _COMPARED.finditer(code):
            for part in match.groupdict().values():
                found |= {word[1:-1] for word in re.findall(_TEXT, part or "")}
    return found


@cache
def all_compared() -> dict[str, set[str]]:
    """What each file of the package and each template compares with, by its path in the repository."""
    code = {path: compared(path.read_text(encoding="utf-8")) for path in (ROOT / "edgetune").rglob("*.py")}
    templates = {
        path: compared_in_template(path.read_text(encoding="utf-8")) for path in (ROOT / "templates").rglob("*.j2")
    }
    assert (len(code) > 100, len(templates) > 10) == (True, True)
    return {str(path.relative_to(ROOT)): found for path, found in {**code, **templates}.items()}


def test_comparisons_are_found() -> None:
    code = """
a == "one"
b not in {"two", x}
"three" != c
match d:
    case "four" | "five": pass
e = "six"
"""
    assert compared(code) == {"one", "two", "three", "four", "five"}
    template = '{% if a == "one" %}x{% elif b in ("two", c) %}{{ "y" if "three" != d else "z" }}{% endif %}x == "six"'
    assert compared_in_template(template) == {"one", "two", "three"}


def test_the_members_of_every_group_can_be_imported() -> None:
    assert "edgetune.transports" in POINTS
    for group, members in POINTS.items():
        registry: Registry[object] = Registry("member", group)
        assert set(members) <= set(registry.names())
        for name in members:
            registry.get(name)


@pytest.mark.parametrize(
    ("group", "name", "module"),
    [(group, name, value.partition(":")[0]) for group, members in POINTS.items() for name, value in members.items()],
)
def test_no_other_file_compares_with_the_name_of_a_member(group: str, name: str, module: str) -> None:
    own = Path(*module.split("."))
    found = {path for path, texts in all_compared().items() if name in texts}
    found -= {path for path in found if own in {Path(path).parent, Path(path).with_suffix("")}}
    assert found == HOMONYMS.get(name, set()), f"'{name}' is for the registry {group} alone"
