"""Whole tunes on boards that misbehave end with a package: nothing lost, nothing doubled, every event in the summary.

Faults one by one, and those that are not here, are done by `python tests/acceptance/soak.py --each`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.acceptance.each_fault import tune_through


@pytest.mark.long
def test_candidates_that_go_wrong_cost_only_themselves(tmp_path: Path) -> None:
    """One crashes, one hangs, one takes all memory, one writes out of bounds, one prints rubbish and ends."""
    said = tune_through(tmp_path, (), boards=2, hostile=True)
    assert "16 records (4 crashed, " in said
    assert " 1 timeout)" in said


@pytest.mark.long
def test_boards_that_misbehave_cost_only_time(tmp_path: Path) -> None:
    kinds = ("board reboots", "link drops", "disk full", "agent killed", "clock jumps", "second user")
    said = tune_through(tmp_path, kinds)
    assert " locked, " in said
    recovered = re.search(r" (\d+) recovered, ", said)
    assert recovered is not None
    assert int(recovered[1]) >= len(kinds)  # a busy machine may lose a board once more
