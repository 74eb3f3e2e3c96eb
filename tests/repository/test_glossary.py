"""Names are the field's own: what the glossary replaced stays out of file, class and function names."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest

ROOT = Path(__file__).parents[2]
CODE = ROOT / "edgetune"

Definition: TypeAlias = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

# Each was the name of a file, before the field's own term took its place.
FILES = """
own_lines cached_lines near_lines next_tile epilogue_lines prefetching requests streams disjoint fusing threaded
lane_joins extremes widths products zeroes in_parts placement continued before_concatenation overwritable
exchanged_inputs border transposed_pieces reshaped_transposes refusals bounded_index anatomy narrow_types precise
genome line owed carrying playoff rehearsal rooms tally fixed fixed_blocks fixed_rows fixed_forms forms form realise
overlapping choosing in_package subject answers assembly door deployed_door lane turn twins watch bell outbox mailbox
wire
"""

# Words that no class or function is named by.
WORDS = (
    *("anatomy", "bell", "door", "genome", "genetics", "mailbox", "outbox", "playoff", "rehearse", "realise", "tally"),
    *("rung", "ladder", "twin", "rooms", "owed", "subject", "utils", "helper", "manager"),
)


@cache
def definitions() -> list[tuple[Path, Definition]]:
    """All classes and functions, methods included, with their files."""
    found = []
    for path in sorted(CODE.rglob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        found += [(path, node) for node in nodes if isinstance(node, Definition)]
    return found


def words(name: str) -> list[str]:
    """The words of a name in either spelling: `fixed_rows` and `FixedRows` have two."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def test_no_file_has_a_name_that_the_glossary_replaced() -> None:
    stems = {path.stem if path.stem != "__init__" else path.parent.name for path in CODE.rglob("*.py")}
    assert sorted(stems & set(FILES.split())) == []


@pytest.mark.parametrize("old", WORDS)
def test_no_class_or_function_has_a_word_that_the_glossary_replaced(old: str) -> None:
    found = {f"{path.relative_to(ROOT)}: {node.name}" for path, node in definitions() if old in words(node.name)}
    assert found == set()


def test_no_public_class_name_occurs_twice() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, node in definitions():
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_the_glossary_is_in_order_and_explains_each_word_once() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^\| \*\*(.+?)\*\* \|", text, re.MULTILINE)
    assert len(terms) > 20
    assert terms == sorted(set(terms))
