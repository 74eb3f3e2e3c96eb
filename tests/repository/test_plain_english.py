"""What a user reads is plain English: phrases that clearer ones replaced stay out of messages, templates and pages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Each phrase and what says it better.
OLD = {
    "fixed schedule": "default schedule",
    "rivals": "candidates that compete",
    "direct form": "direct algorithm",
    "direct sum": "direct convolution",
    "hopeless": "far slower than the best",
    "no stranger": "idle host",
    "whoever": "a noun",
    "who come and go": "a noun",
    "somebody": "another user, another run",
    "look after": "check",
    "mend": "correct, fix",
    "does not tell": "does not report",
    "says nothing": "prints nothing",
    "said nothing": "printed nothing",
    "behind its end": "after its end",
    "passed over": "skipped",
    "swept": "flushed",
    "but for": "except for",
    "that are none": "invalid",
    "not noticed": "not detected",
    "of ours": "of edgetune",
    "make small": "minimize",
}


def literals(path: Path) -> Iterator[str]:
    """The string literals of a module, except for docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node.value


def read_by_users() -> Iterator[tuple[str, str]]:
    """Each file with a text of it that a user may read."""
    for path in sorted((ROOT / "edgetune").rglob("*.py")):
        for text in literals(path):
            yield path.relative_to(ROOT).as_posix(), text
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "templates" / "package").rglob("*.j2")]
    for path in sorted(pages):
        yield path.relative_to(ROOT).as_posix(), " ".join(path.read_text(encoding="utf-8").split())


@cache
def texts() -> list[tuple[str, str]]:
    """All of them, read once a worker."""
    return list(read_by_users())


def test_texts_of_all_kinds_are_read() -> None:
    read = {place.rpartition("/")[0].partition("/")[0] for place, _ in texts()}
    assert read == {"", "docs", "edgetune", "templates"}


@pytest.mark.parametrize("old", OLD)
def test_no_text_has_a_phrase_that_a_clearer_one_replaced(old: str) -> None:
    phrase = re.compile(rf"\b{old}\b", re.IGNORECASE)
    found = {place for place, text in texts() if phrase.search(text)}
    assert not found, f"write {OLD[old]!r} instead of {old!r}"
