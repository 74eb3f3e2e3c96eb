"""`.ci/rooms.py` counts what it says, and refuses imports that nothing else sees."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "rooms.py"
STOVE = "house.kitchen.stove"
PROGRAM = '''"""Docstring
of two lines."""

import math  # a comment

# A comment alone.
NAME = """text
that is code"""


def area(radius: float) -> float:
    """Docstring."""
    return math.pi * radius**2
'''


def rooms(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True, check=False, timeout=60)


def house(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / "house" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "house"


def test_lines_of_code_are_those_without_comments_and_docstrings(tmp_path: Path) -> None:
    done = rooms(house(tmp_path, {"kitchen/stove.py": PROGRAM}))
    assert done.stdout.splitlines()[1].split() == ["kitchen", "1", "13", "5", "13", "13"]
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("files", "small"),
    [
        ({"kitchen/stove.py": "", "kitchen/cook.py": "from house.kitchen import stove"}, ["house.kitchen.stove"]),
        (
            {"kitchen/stove.py": "", "kitchen/cook.py": "def f():\n    from house.kitchen.stove import heat"},
            ["house.kitchen.stove"],
        ),
        ({"kitchen/stove.py": "", "hall/guest.py": "from house.kitchen import stove"}, []),
        (
            {
                "kitchen/stove.py": "",
                "kitchen/a.py": "import house.kitchen.stove",
                "kitchen/b.py": "import house.kitchen.stove",
            },
            [],
        ),
        ({"kitchen/stove.py": "#\n" * 101, "kitchen/cook.py": "from house.kitchen import stove"}, []),
        ({"kitchen/stove.py": "", "kitchen/__init__.py": "from house.kitchen import stove"}, []),
    ],
    ids=["one reader", "in a function", "in another room", "two readers", "large", "registered"],
)
def test_small_files_with_one_reader_next_door_are_listed(
    tmp_path: Path, files: dict[str, str], small: list[str]
) -> None:
    done = rooms(house(tmp_path, files))
    assert [line.strip() for line in done.stdout.splitlines() if line.startswith("  ") and "house." in line] == small
    assert f"{len(small)} files of up to 100 lines" in done.stdout


def test_sizes_have_no_limit(tmp_path: Path) -> None:
    """Limits made people cut thoughts, and merge others."""
    files = {"__init__.py": "", "kitchen/__init__.py": ""}
    files |= {f"kitchen/shelf{number}.py": "" for number in range(40)}
    reader = "\n".join(f"from house.kitchen import shelf{number}" for number in range(40))
    done = rooms(house(tmp_path, {**files, "kitchen/cook.py": reader, "kitchen/stove.py": "#\n" * 900}), "--check")
    assert done.returncode == 0


def test_an_import_by_dunder_import_is_refused(tmp_path: Path) -> None:
    done = rooms(house(tmp_path, {"kitchen/stove.py": "__import__('house.hall')\n"}), "--check")
    assert done.returncode == 1
    assert "stove.py uses __import__" in done.stderr
