"""docs/passes.md is what the lists of rewrites say: each pass is there, in its order, with its reason."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from edgetune.rewrites.parts import DIVISIONS, Division
from edgetune.rewrites.passes import PASSES, PASSES_OF_PARTS, Rewrite

ROOT = Path(__file__).parents[2]


def test_the_page_is_written_from_the_code() -> None:
    words: list[str | Path] = [sys.executable, ROOT / ".ci" / "passes.py", "--check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("heading", "listed"), [("Passes", PASSES), ("Divisions", DIVISIONS), ("Passes of parts", PASSES_OF_PARTS)]
)
def test_the_page_has_all_members_of_a_list_in_order(heading: str, listed: tuple[Rewrite | Division, ...]) -> None:
    text = (ROOT / "docs" / "passes.md").read_text(encoding="utf-8")
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| \d+ \| \[(.+?)\]\(#.+?\) \| (.+) \|$", section, re.MULTILINE)
    assert rows == [(one.name, one.reason) for one in listed]


def test_no_two_members_share_a_name() -> None:
    names = [one.name for one in (*PASSES, *DIVISIONS, *PASSES_OF_PARTS)]
    assert sorted(names) == sorted(set(names)), "their headings on the page would have one anchor"
