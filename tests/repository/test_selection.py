"""Which long tests a run has: those of changed rooms, a quarter of the others, and no more than the limit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import selection
from tests.selection import LIMIT_S, PARTS, change_since, choose, quarters, room

COSTS = st.dictionaries(
    st.builds("tests/{}/test_{}.py".format, st.sampled_from("abcd"), st.integers(0, 99)),
    st.floats(0.1, 200.0),
    max_size=60,
)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("edgetune/farm/causes/board.py", "farm"),
        ("edgetune/api.py", None),
        ("tests/codegen/cuda/test_cuda_golden.py", "codegen"),
        ("tests/conftest.py", None),
        ("templates/kws.h.j2", "package"),
        ("targets/rpi4.yaml", "target"),
        ("deploy/agent/agent.c", "boards"),
        ("README.md", None),
    ],
)
def test_the_room_of_a_file(path: str, name: str | None) -> None:
    assert room(path) == name


def test_every_folder_of_tests_for_a_room_is_that_of_a_room() -> None:
    folder = selection.ROOT / "tests"
    names = {path.relative_to(folder).parts[0] for path in folder.glob("*/**/test_*.py")}
    assert "farm" in names
    assert all(room(f"tests/{name}/test_some.py") == name for name in names)


@given(costs=COSTS)
def test_quarters_hold_each_file_once_and_cost_about_the_same(costs: dict[str, float]) -> None:
    sets = quarters(costs)
    assert sorted(file for files in sets for file in files) == sorted(costs)
    sums = [sum(costs[file] for file in files) for files in sets]
    assert max(sums) - min(sums) <= max(costs.values(), default=0.0) + 1e-6


@given(
    costs=COSTS, changed=st.sets(st.sampled_from("abcd")), commit=st.text("0123456789abcdef", min_size=40, max_size=40)
)
def test_changed_rooms_and_a_quarter_of_the_others_run(costs: dict[str, float], changed: set[str], commit: str) -> None:
    choice = choose(costs, changed, commit)
    in_changed = {file for file in costs if room(file) in changed}
    assert choice.changed | choice.beyond == in_changed
    assert not choice.changed & choice.beyond
    assert not choice.quarter & in_changed
    assert choice.quarter <= set.union(*quarters(costs))
    total = sum(costs[file] for file in choice.run)
    assert total <= max(LIMIT_S, sum(costs[file] for file in choice.quarter)) + 1e-6
    if sum(costs.values()) <= LIMIT_S:
        assert choice.beyond == frozenset()


def test_all_quarters_have_their_turn() -> None:
    costs = {f"tests/a/test_{number}.py": 1.0 for number in range(8)}
    drawn = {choose(costs, (), f"{number:040x}").quarter for number in range(64)}
    assert len(drawn) == PARTS
    assert frozenset[str]().union(*drawn) == set(costs)


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=n", "-c", "user.email=n@n")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def test_a_change_is_what_differs_from_the_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits, changes that are not committed, new files and deleted ones."""
    for name in ("farm", "codegen", "graph", "ipc", "boards"):
        (tmp_path / "edgetune" / name).mkdir(parents=True)
        (tmp_path / "edgetune" / name / "a.py").write_text("")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "one")
    (tmp_path / "edgetune/farm/a.py").write_text("1")
    git(tmp_path, "commit", "-am", "two")
    (tmp_path / "edgetune/codegen/a.py").write_text("1")
    (tmp_path / "edgetune/graph/new.py").write_text("")
    (tmp_path / "edgetune/ipc/a.py").unlink()
    monkeypatch.setattr(selection, "ROOT", tmp_path)
    assert change_since("HEAD~1").rooms == ("codegen", "farm", "graph", "ipc")
    assert "codegen, farm, graph, ipc" in change_since("HEAD~1").words
    assert change_since("HEAD").rooms == ("codegen", "graph", "ipc")
    unknown = change_since("HEAD~7")
    assert unknown.rooms == ()
    assert "no commit HEAD~7" in unknown.words


TESTS = """
import pytest

@pytest.mark.long
@pytest.mark.parametrize("number", range(3))
def test_long(number):
    pass

def test_short():
    pass
"""
CONFTEST = """
from tests.conftest import *
from tests import selection
import pathlib
selection.ROOT = pathlib.Path(__file__).parent
"""


def test_a_run_says_which_long_tests_it_had(tmp_path: Path) -> None:
    """Three files in four quarters, one of them in a changed room."""
    for name in ("farm", "graph", "ipc"):
        (tmp_path / "tests" / name).mkdir(parents=True)
        (tmp_path / "tests" / name / f"test_{name}.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {selection.ROOT}\naddopts = --import-mode=importlib\n"
    )
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "one")
    (tmp_path / "tests/farm/test_farm.py").write_text(TESTS + "\n")
    words = [sys.executable, "-m", "pytest", "--numprocesses", "2", "--long", "share", "--base", "HEAD", "--verbose"]
    done = subprocess.run([*words, "tests"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "changed since" in done.stdout
    assert "Of 9 long tests, 3 of changed rooms ran, and " in done.stdout
    assert done.stdout.count("PASSED tests/farm/test_farm.py::test_long") == 3
    assert done.stdout.count("::test_short") >= 3
