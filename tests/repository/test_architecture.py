"""docs/architecture.md names files that there are, and its picture is what the code says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_file_that_the_walks_name_is_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_]+/[a-z0-9_/]+\.py)`", text)
    assert len(named) > 30
    assert [name for name in named if not (ROOT / "edgetune" / name).is_file()] == []


def test_the_picture_is_drawn_from_the_code() -> None:
    words: list[str | Path] = [sys.executable, ROOT / ".ci" / "picture.py", "--check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
