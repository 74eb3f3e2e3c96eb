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
        ("edgetune/api.py", "api"),
        ("tests/codegen/cuda/test_cuda_golden.py", "codegen"),
        ("tests/conftest.py", None),
        ("templates/kws.h.j2", "package"),
        ("targets/rpi4.yaml", "target"),
        ("deploy/agent/agent.c", "boards"),
        (".ci/rooms.py", "repository"),
        ("examples/demo.sh", "repository"),
        ("README.md", None),
    ],
)
def test_the_room_of_a_file(path: str, name: str | None) -> None:
    assert room(path) == name


def test_each_room_with_tests_is_one_and_each_folder_of_tests_belongs_to_a_room() -> None:
    """So a change of any room runs the long tests of its folder, and no folder's long tests are forgotten."""
    code = {room(str(path.relative_to(selection.ROOT))) for path in (selection.ROOT / "edgetune").rglob("*.py")}
    folders = {
        path.relative_to(selection.ROOT / "tests").parts[0] for path in selection.ROOT.glob("tests/*/**/test_*.py")
    }
    elsewhere = {folder for folders in selection._SHOWN_ELSEWHERE.values() for folder in folders}
    assert set(selection._SHOWN_ELSEWHERE) <= code
    assert folders <= code | elsewhere | set(selection._BELONGS_TO.values())


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


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of two commits: the second one changes the farm."""
    for name in ("farm", "codegen", "graph", "ipc", "boards"):
        (tmp_path / "edgetune" / name).mkdir(parents=True)
        (tmp_path / "edgetune" / name / "a.py").write_text("")
    (tmp_path / "pyproject.toml").write_text("")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "one")
    (tmp_path / "edgetune/farm/a.py").write_text("1")
    git(tmp_path, "commit", "-am", "two")
    monkeypatch.setattr(selection, "ROOT", tmp_path)
    return tmp_path


def test_a_change_is_what_differs_from_the_base(repository: Path) -> None:
    """Commits, changes that are not committed, new files and deleted ones, whatever their names."""
    assert change_since("HEAD~1").rooms == ("farm",)
    assert change_since("HEAD").rooms == ()
    (repository / "edgetune/boards/a.py").write_text("1")
    (repository / "edgetune/farm/größe.py").write_text("")
    (repository / "edgetune/ipc/a.py").unlink()
    assert change_since("HEAD").rooms == ("boards", "farm", "ipc")
    assert "boards, farm, ipc" in change_since("HEAD").words


def test_tests_that_show_several_rooms_run_with_each_of_them(repository: Path) -> None:
    (repository / "edgetune/codegen/a.py").write_text("1")
    assert change_since("HEAD").rooms == ("codegen", "conformance", "cuda")


@pytest.mark.parametrize("file", ["pyproject.toml", "tests/codegen_run.py"])
def test_what_all_tests_depend_on_changes_all_rooms(repository: Path, file: str) -> None:
    (repository / file).parent.mkdir(exist_ok=True)
    (repository / file).write_text("1")
    change = change_since("HEAD")
    assert change.rooms is None
    assert file in change.words
    costs = {f"tests/{name}/test_a.py": 1.0 for name in ("farm", "graph", "cuda")}
    assert choose(costs, change.rooms, change.commit).changed == set(costs)


@pytest.mark.parametrize("base", ["HEAD~7", "no-such-branch", ""])
def test_where_git_cannot_tell_all_rooms_count_as_changed(repository: Path, base: str) -> None:
    """As in a clone of the newest commit alone."""
    change = change_since(base)
    assert change.rooms is None
    assert f"git cannot compare with {base}: " in change.words
    assert repository.exists()


def test_without_git_all_rooms_count_as_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "ROOT", tmp_path)
    assert change_since("HEAD~1").rooms is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert change_since("HEAD~1").rooms is None


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


@pytest.mark.long
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
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--numprocesses", "2", "--verbose"]
    words += ["--long", "share", "--base", "HEAD"]
    done = subprocess.run([*words, "tests"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "changed since" in done.stdout
    assert "Of 9 long tests, 3 of changed rooms ran, and " in done.stdout
    assert done.stdout.count("PASSED tests/farm/test_farm.py::test_long") == 3
    assert done.stdout.count("::test_short") >= 3


def test_make_compares_with_its_base_and_ci_names_one() -> None:
    command = ["make", "--dry-run", "-C", str(selection.ROOT), "pytest", "BASE=0123abc"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--long share --base '0123abc'" in done.stdout
    assert 'make test BASE="${base:-HEAD~1}"' in (selection.ROOT / ".ci/run").read_text(encoding="utf-8")
