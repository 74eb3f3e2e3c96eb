"""Lines that tests run are counted for each room and tree, once; a room whose tests fail has no count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.protection.lines import main

# Stands for pytest with pytest-cov: it notes its words, and reports 3 of 4 lines.
PYTEST = """#!/bin/sh
echo "$COVERAGE_FILE $*" >>words
test -e edgetune/room/touched-for-coverage.txt && echo touched >>words
for word; do
    case $word in
    --cov-report=json:*) echo '{"totals": {"covered_lines": 3, "num_statements": 4}}' >"${word#*:}" ;;
    esac
done
test ! -e fails
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree of one room, and of what Python leaves behind."""
    for folder in ("edgetune/room", "tests/room", "edgetune/__pycache__", "tests/__pycache__", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "edgetune/room/a.py").touch()
    (tmp_path / "tests/selection.py").touch()
    (tmp_path / ".venv/bin/pytest").write_text(PYTEST)
    (tmp_path / ".venv/bin/pytest").chmod(0o755)
    return tmp_path


def test_each_room_is_measured_once(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tree / "table.jsonl"
    words = [str(table), "--tree", f"it={tree}"]
    assert main(words) == 0
    assert main(words) == 0
    assert capsys.readouterr().out.count("room         it 75.00 %\n") == 2
    (row,) = [json.loads(line) for line in table.read_text().splitlines()]
    assert (row["room"], row["tree"], row["covered"], row["lines"]) == ("room", "it", 3, 4)
    said, touched = (tree / "words").read_text().splitlines()
    assert "--long share --base HEAD" in said  # the room counts as changed
    assert touched == "touched"
    assert not (tree / "edgetune/room/touched-for-coverage.txt").exists()
    assert f"source = {tree / 'edgetune/room'}" in (tree / "build/coverage/room/rc").read_text()


def test_a_room_whose_tests_fail_ends_the_run_without_a_row(tree: Path) -> None:
    (tree / "fails").touch()
    with pytest.raises(SystemExit, match="the tests of room fail in "):
        main([str(tree / "table.jsonl"), "--tree", f"it={tree}"])
    assert not (tree / "table.jsonl").exists()
    assert not (tree / "edgetune/room/touched-for-coverage.txt").exists()
