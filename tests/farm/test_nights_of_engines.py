"""Nights of counting cells on either engine: without faults, ended by a signal, and by the end of their window."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from edgetune._version import __version__
from edgetune.farm.calendar import clock_time
from edgetune.farm.cells import cells_of
from edgetune.farm.engine import engine_of
from edgetune.farm.night_store import NightStore
from tests.farm.hosts import BOARDS, TRIALS, TestFarm, ended_by_sigterm, gone, judged_once, measuring, wait_for


@pytest.mark.long
def test_a_night_without_faults_takes_one_attempt_per_cell_and_a_rerun_runs_in_it(
    make: Callable[..., TestFarm],
) -> None:
    farm = make("procrastinate", models=1, trials=TRIALS)
    found = farm.call("h1", "run", "--now")
    assert {row.attempt for row in farm.rows()} == {1}
    assert [cell["verdict"] for cell in found["cells"]] == ["first"] * len(BOARDS)
    assert farm.measured() == TRIALS * len(BOARDS)
    farm.call("h1", "rerun", f"m0@{BOARDS[0]}")
    again = farm.call("h1", "run", "--now")
    assert again["night"] == found["night"]
    assert sorted(row.attempt for row in farm.rows()) == [1, 2]


@pytest.mark.long
@pytest.mark.parametrize("engine", ["local", "procrastinate"])
def test_sigterm_ends_a_host_and_its_cells_and_the_same_command_goes_on(
    make: Callable[..., TestFarm], engine: str
) -> None:
    farm = make(engine)
    host = farm.start("h1", "run", "--now")
    measuring(farm, host)
    farm.budget(TRIALS)
    ended_by_sigterm(host)
    before = farm.measured()
    farm.call("h1", "run", "--now")
    judged_once(farm, before)
    assert farm.most_measured() == 1, "no candidate is measured twice"


@pytest.mark.long
@pytest.mark.parametrize("engine", ["local", "procrastinate"])
def test_the_end_of_the_window_ends_cells_and_night_within_seconds(make: Callable[..., TestFarm], engine: str) -> None:
    farm, now = make(engine, models=1), datetime.now(UTC)
    with (farm.folder / "farm.yaml").open("a") as file:
        file.write(f"window: {now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=2):%H:%M}\ntimezone: UTC\n")
    loaded = farm.load()
    facts = {"farm": "farm", "night": str((now - timedelta(hours=1)).date()), "host": "h1", "owner": "", "limit": 0.02}
    with NightStore.open(loaded.db, create=True) as store:
        ends = datetime.now(UTC) + timedelta(seconds=30)
        facts |= {"ends_utc": ends.isoformat(), "tool_version": __version__}
        night = engine_of(loaded, store).begin(facts, cells_of(loaded))
    assert night is not None
    host = farm.start("h1", "run")
    wait_for(lambda: len(host.runs()) == len(BOARDS) or datetime.now(UTC) > ends, words=host.said)
    below = host.cells()
    assert below, "cells run when the window ends"
    assert host.process.wait(60.0) == 0, host.said()
    assert ends <= datetime.now(UTC) <= ends + timedelta(seconds=10)
    assert gone(below)
    reasons = [row.verdict.reason for row in farm.rows() if row.verdict]
    assert reasons == [f"the window was over ({clock_time(ends, 'UTC')})"] * len(BOARDS)
    assert reasons[0] in (farm.folder / "out" / "pages" / night.night / "index.html").read_text()
