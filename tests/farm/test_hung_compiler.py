"""A night whose compiler hangs: cells say so after one attempt, and nothing of it outlives a host that is killed."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable

import pytest

from benchmarks.nightly.hanging_tool import TOOL, HangingTool
from tests.farm.hosts import BOARDS, TRIALS, TestFarm, gone, wait_for


@pytest.mark.long
def test_a_cell_whose_compiler_hangs_is_not_measured_after_one_attempt(make: Callable[..., TestFarm]) -> None:
    farm = make("local", models=1, trials=TRIALS)
    tool = HangingTool(farm.folder / "tool")
    farm.variables = {"h1": tool.environment}
    tool.hang()
    host = farm.start("h1", "run", "--now")
    wait_for(lambda: len(tool.left()) == len(BOARDS), words=host.said)
    below = host.tree()
    host.send(signal.SIGKILL)
    wait_for(lambda: gone(below) and not tool.left(), 10.0, lambda: str(tool.left()))

    farm.call("h1", "run", "--now")
    rows, ends = farm.rows(), {(cell, number): outcome for cell, number, _, outcome in farm.attempts()}
    for row in rows:
        assert row.verdict is not None
        assert row.verdict.verdict == "not measured"
        said = rf"infrastructure: host h1: .*{TOOL} hung in `{TOOL} --version`: it did not end within 60 s, .*by hand.*"
        assert re.fullmatch(said, row.verdict.reason)
        assert (ends[row.id, 1], ends[row.id, 2]) == ("superseded by attempt 2 of host h1", "finished: not measured")
    assert len(ends) == 2 * len(rows)
    assert tool.left() == []
