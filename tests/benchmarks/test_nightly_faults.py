"""What counts as harm after a fault in a night, as `make nightly-faults` judges it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.nightly.faults import TRIALS, Night, _harm
from edgetune.farm.night_store import Verdict
from tests.farm.hosts import BOARDS


def night(
    folder: Path,
    *,
    records: int = TRIALS * len(BOARDS),
    most: int = 1,
    word: Any = "first",
    outcome: str = "finished: first",
    said: str = "",
) -> Night:
    page = folder / "out" / "pages" / "2026-01-01" / "index.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(" ".join(BOARDS))
    farm: Any = SimpleNamespace(
        folder=folder,
        rows=lambda: [SimpleNamespace(verdict=Verdict(word), cell=SimpleNamespace(board=board)) for board in BOARDS],
        measured=lambda: records,
        most_measured=lambda: most,
        attempts=lambda: [(1, 1, "h", outcome)],
    )
    nobody: Any = None
    victim: Any = SimpleNamespace(said=lambda: said)
    return Night(farm, nobody, victim, nobody)


def test_a_whole_night_is_not_harmed(tmp_path: Path) -> None:
    assert _harm(night(tmp_path), "host killed", 45.0, Counter()) == ""


def test_a_page_without_one_of_the_boards_is_harm(tmp_path: Path) -> None:
    begun = night(tmp_path)
    (tmp_path / "out/pages/2026-01-01/index.html").write_text(BOARDS[0])
    assert _harm(begun, "host killed", None, Counter()) == "no page with all cells"


@pytest.mark.parametrize(
    ("changed", "harm"),
    [
        ({"most": 2}, "a candidate has 2 records"),
        ({"records": TRIALS * len(BOARDS) + 1}, "5 records after 0"),
        ({"word": "not measured"}, "verdicts "),
        ({"outcome": ""}, "attempts without an outcome: "),
        ({"said": "memory probably ran out"}, "a host that was woken says: memory"),
    ],
)
def test_lost_and_doubled_records_and_verdicts_are_harm(tmp_path: Path, changed: dict[str, Any], harm: str) -> None:
    assert _harm(night(tmp_path, **changed), "host frozen and woken", None, Counter()).startswith(harm)


def test_two_processes_at_once_and_a_late_cell_are_harm(tmp_path: Path) -> None:
    assert _harm(night(tmp_path), "host killed", None, Counter({"a": 2})).startswith("two processes at once")
    assert _harm(night(tmp_path), "host killed", 45.1, Counter()) == "cells went on after 45.1 s"
