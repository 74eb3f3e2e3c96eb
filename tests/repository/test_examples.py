"""Properties get few examples in `make test`, the same each time, and many new ones, by a seed, in `make test-all`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
from pathlib import Path
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import costly

def note(name, value):
    with Path(name).open("a") as file:
        file.write(f"{value}\\n")

@given(st.integers(0, 10**9))
def test_plain(number):
    note("plain", number)

@costly(8)
@given(st.integers(0, 10**9))
def test_costly(number):
    note("costly", number)
"""


def tried(folder: Path, *words: str) -> tuple[list[str], list[str]]:
    """Run the two tests as in CI; return the examples of each."""
    folder.mkdir()
    (folder / "conftest.py").write_text("from tests.conftest import *\n")
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\naddopts = --import-mode=importlib\n")
    (folder / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", *words]
    environment = os.environ | {"CI": "true"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return (folder / "plain").read_text().split(), (folder / "costly").read_text().split()


@pytest.mark.long
def test_few_and_the_same_ones(tmp_path: Path) -> None:
    first, second = tried(tmp_path / "first"), tried(tmp_path / "second")
    assert first == second
    assert [len(examples) for examples in first] == [20, 8]


@pytest.mark.long
def test_many_and_new_ones_which_a_seed_repeats(tmp_path: Path) -> None:
    words = ("--hypothesis-profile", "all", "--hypothesis-seed")
    runs = [tried(tmp_path / str(number), *words, seed) for number, seed in enumerate(("1", "1", "2"))]
    assert [len(examples) for examples in runs[0]] == [300, 32]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_make_prints_the_seed() -> None:
    command = ["make", "--no-print-directory", "--dry-run", "-C", str(ROOT), "test-all"]
    environment = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MFLAGS", "SEED"}}
    done = [subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout for _ in "12"]
    seeds = [re.search(r"--hypothesis-profile all --hypothesis-seed (\d+)", text) for text in done]
    assert all(seed is not None for seed in seeds)
    assert done[0] != done[1]
