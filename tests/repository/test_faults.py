"""Faults are drawn the same way each time, are real faults, and leave no trace in the tree that they are tried on."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.protection.fault_kinds import KINDS, faults
from tests.protection.faults import Drawn, TreeError, attempt, draw, main

ROOT = Path(__file__).parents[2]
SOURCE = """
def f(items: list[int], lock, größe: int) -> int:
    if not items:
        raise ValueError(f"{größe > 1} is empty")
    total = 0
    with lock.exclusive():
        for i in range(größe):
            if items[i] < größe: total += items[i]
    print("é", items[1:größe])
    return total
"""
KIND_NAMES = ("a comparison turned", "a bound off by one", "a statement dropped", "a lock not taken", "a check skipped")


def test_each_kind_finds_its_places() -> None:
    found = faults(SOURCE)
    assert [{fault.kind for fault in kind} for kind in found] == [{name} for name in KIND_NAMES]
    texts = [fault.text for kind in found for fault in kind]
    assert "(items[i] >= größe)" in texts
    assert "(größe + 1)" in texts
    assert '__import__("contextlib").nullcontext()' in texts
    assert "(False and (not items))" in texts
    assert texts.count("pass") == 2
    assert not any("größe <= 1" in text for text in texts)  # inside of an f-string


def test_a_faulty_file_is_python_and_differs() -> None:
    for kind in faults(SOURCE):
        for fault in kind:
            changed = fault.apply(SOURCE)
            ast.parse(changed)
            assert changed != SOURCE
            assert changed.count("\n") == SOURCE.count("\n")


@pytest.mark.parametrize("room", ["records", "graph/memory"])
def test_every_place_of_a_room_can_be_changed(room: str) -> None:
    """The first place of each kind and file."""
    for path in sorted((ROOT / "edgetune" / room).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for fault in [kind[0] for kind in faults(source) if kind]:
            ast.parse(fault.apply(source))


def test_the_same_seed_draws_the_same_faults(tree: Path) -> None:
    drawn = draw(tree, 3, 3)
    assert drawn == draw(tree, 3, 3)
    assert any(drawn != draw(tree, 3, seed) for seed in range(4, 20))
    assert len(set(drawn)) == 3
    assert draw(tree, 2, 3) == drawn[:2]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree of one room with one check, and a test that tries the check."""
    for folder in ("edgetune/room", "tests/room", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "edgetune/room/a.py").write_text("def f(x):\n    if x > 3:\n        raise ValueError\n    return x\n")
    test = "import runpy, pytest\nf = runpy.run_path('edgetune/room/a.py')['f']\n"
    test += "def test_f():\n    with pytest.raises(ValueError):\n        f(5)\n    assert f(3) == 3\n"
    (tmp_path / "tests/room/test_a.py").write_text(test)
    (tmp_path / ".venv/bin/pytest").write_text(f'#!/bin/sh\nexec {sys.executable} -m pytest "$@"\n')
    (tmp_path / ".venv/bin/pytest").chmod(0o755)
    (tmp_path / ".gitignore").write_text("build\n.venv\n*.jsonl\n*.new\n")
    for words in (["init"], ["add", "."], ["-c", "user.name=n", "-c", "user.email=n@n", "commit", "-m", "one"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


@pytest.mark.long
def test_what_is_caught_is_written_and_the_tree_is_as_before(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (tree / "edgetune/room/a.py").read_text()
    table = tree / "table.jsonl"
    words = [str(table), "--tree", f"it={tree}", "--number", "3"]
    assert len(KINDS) == len(KIND_NAMES)
    assert main(words) == 0
    assert (tree / "edgetune/room/a.py").read_text() == before
    outcomes = [json.loads(line) for line in table.read_text().splitlines()]
    verdicts = {outcome["name"].partition(" ")[2]: outcome["verdict"] for outcome in outcomes}
    assert verdicts == {"a comparison turned": "caught", "a bound off by one": "passed", "a check skipped": "caught"}
    assert {outcome["test"] for outcome in outcomes} == {"", "tests/room/test_a.py::test_f"}
    capsys.readouterr()
    written = table.read_text()
    table.write_text(written + '{"name": "cut o')  # by a kill
    assert main(words) == 0
    assert "it catches 2 of 3" in capsys.readouterr().out


def test_a_fault_that_is_left_of_a_killed_run_stops_the_next_one(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "edgetune/room/a.py").write_text("def f(x):\n    return x\n")
    assert main([str(tree / "table.jsonl"), "--tree", f"it={tree}", "--number", "1"]) == 1
    assert "differs from its commit" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize(
    ("test", "words"),
    [
        ("def test_f():\n    raise AssertionError\n", "fails in .* without a fault as well"),
        ("def test_f(:\n", "without a fault as well"),
        ("", "do not run"),
    ],
)
def test_tests_that_fail_by_themselves_catch_nothing(tree: Path, test: str, words: str) -> None:
    (tree / "tests/room/test_a.py").write_text(test)
    drawn = Drawn("edgetune/room/a.py", faults((tree / "edgetune/room/a.py").read_text())[0][0])
    with pytest.raises(TreeError, match=words):
        attempt(drawn, "it", tree)


def test_a_suite_that_hangs_is_ended(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "tests/room/test_a.py").write_text("import time\ndef test_f():\n    time.sleep(100)\n")
    monkeypatch.setattr("tests.protection.faults.LIMIT_S", 2.0)
    drawn = Drawn("edgetune/room/a.py", faults((tree / "edgetune/room/a.py").read_text())[0][0])
    assert attempt(drawn, "it", tree).verdict == "time is up"


@pytest.mark.long
def test_time_is_up_by_cpu_time(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault that the tests do not catch while they compute; the time that they wait is theirs."""
    monkeypatch.setattr("tests.protection.faults.LIMIT_S", 3.0)
    monkeypatch.setattr("tests.protection.faults._WAITING", 100)
    text = "import pathlib, time\ndef test_f():\n    pathlib.Path('began').touch()\n"
    (drawn,) = draw(tree, 1, 3)
    (tree / "tests/room/test_a.py").write_text(text + "    while True:\n        pass\n")
    assert attempt(drawn, "it", tree).verdict == "time is up"
    assert (tree / "began").exists()
    (tree / "tests/room/test_a.py").write_text(text + "    time.sleep(8)\n")
    assert attempt(drawn, "it", tree).verdict == "passed"
