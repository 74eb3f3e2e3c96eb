"""One suite over both engines: nights of counting cells, and hosts that are killed, frozen or drained."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgetune.config.database_location import DatabaseUrl
from edgetune.farm.engine import engine_of
from edgetune.farm.night_store import NightStore
from tests.farm.hosts import BOARDS, Host, TestFarm, gone, wait_for
from tests.postgresql_server import PostgresqlServer

TRIALS = 2
ENDLESS = 2000
"""Trials of a cell that a fault befalls before it has measured them all, however fast it is."""


@pytest.fixture(params=["local", "procrastinate"])
def farm(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestFarm]:
    """A farm of two counting cells; SQLite for the local engine, PostgreSQL for the other one."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    db = tmp_path / "records.db" if request.param == "local" else server.new_database()
    made = TestFarm.make(tmp_path, request.param, db, trials=TRIALS)
    yield made
    made.stop()


def shared(farm: TestFarm) -> bool:
    return farm.engine == "procrastinate"


def begin(farm: TestFarm) -> Host:
    """Begin the night and return a host that runs cells; where the engine has several, another one stands by.

    The cells that run have too much to do to end by themselves, those of later attempts have little.
    """
    farm.budget(ENDLESS)
    if not shared(farm):
        host = farm.start("h1", "run", "--now")
        wait_for(lambda: running(farm, "h1"), words=host.said)
    else:
        farm.call("h1", "drain", "h1")
        farm.call("h1", "run", "--now", code=28)  # it begins the night, and takes no cell
        host = farm.start("h2", "work")
        wait_for(lambda: running(farm, "h2"), words=host.said)
        farm.call("h1", "drain", "--off", "h1")
        farm.start("h1", "run", "--now")
    farm.budget(TRIALS)
    return host


def running(farm: TestFarm, host: str) -> bool:
    """Whether a host measures for all cells."""
    names = {row.id: row.cell.name for row in farm.rows()}
    own = [names[cell] for cell, _, name, outcome in farm.attempts() if name == host and not outcome]
    logs = [log for name in own for log in farm.folder.glob(f"out/work/*/{name}/log")]
    return sum('"candidate"' in log.read_text() for log in logs) == len(BOARDS)


def finish(farm: TestFarm) -> None:
    """Let the night come to its end, where its only host died by the same command; each cell then has its one verdict.

    Nothing that was measured is lost, and where it is enough for the budget, nothing more is measured.
    """
    before = farm.measured()
    if not shared(farm):
        farm.call("h1", "run", "--now")
    else:
        host = next(host for host in reversed(farm.hosts) if host.name == "h1")
        assert host.process.wait(240) == 0, host.said()
    rows = farm.rows()
    assert [row.verdict.verdict for row in rows if row.verdict] == ["first"] * len(BOARDS)
    assert len(list((farm.folder / "out" / "pages").iterdir())) == 1
    assert before <= farm.measured() <= before + TRIALS * len(BOARDS)


def test_a_night_gets_all_verdicts_and_a_rerun_runs_in_it(farm: TestFarm) -> None:
    found = farm.call("h1", "run", "--now")
    assert {row.attempt for row in farm.rows()} == {1}
    assert [cell["verdict"] for cell in found["cells"]] == ["first"] * len(BOARDS)
    assert farm.measured() == TRIALS * len(BOARDS)
    farm.call("h1", "rerun", f"m0@{BOARDS[0]}")
    again = farm.call("h1", "run", "--now")
    assert again["night"] == found["night"]
    assert sorted(row.attempt for row in farm.rows()) == [1, 2]


def test_cells_of_a_host_that_is_killed_go_on(farm: TestFarm) -> None:
    host = begin(farm)
    below = host.cells()
    host.send(signal.SIGKILL)
    host.process.wait()
    wait_for(lambda: gone(below), 20.0)
    if shared(farm):
        left = {cell for cell, _, name, _ in farm.attempts() if name == "h2"}
        waiting = {row.id: row.attempt for row in farm.rows() if row.id in left and row.verdict is None}
        wait_for(lambda: all(row.verdict or row.attempt > waiting[row.id] for row in farm.rows() if row.id in waiting))
    finish(farm)


def test_a_host_that_was_frozen_writes_nothing_that_another_one_has_taken_over(farm: TestFarm) -> None:
    host = begin(farm)
    frozen = {cell: number for cell, number, name, outcome in farm.attempts() if name == host.name and not outcome}
    below = host.cells()
    host.send(signal.SIGSTOP, all_of_it=True)
    if not shared(farm):
        time.sleep(3.0)
        host.send(signal.SIGCONT, all_of_it=True)
        measured = farm.measured()
        wait_for(lambda: farm.measured() > measured, words=host.said)
        host.send(signal.SIGTERM)
        host.process.wait(60.0)
        finish(farm)
        return
    wait_for(lambda: all(row.attempt > frozen[row.id] for row in farm.rows() if row.id in frozen), 120.0)
    host.send(signal.SIGCONT, all_of_it=True)
    wait_for(lambda: "starts anew" in host.said(), 30.0, host.said)
    wait_for(lambda: gone(below), 20.0)
    finish(farm)
    assert host.process.poll() is None, "it waits for the next night"


def test_a_host_that_is_drained_gives_its_cells_away_and_comes_back(farm: TestFarm) -> None:
    host = begin(farm)
    below = host.cells()
    begun = time.monotonic()
    farm.call(host.name, "drain", host.name)
    wait_for(lambda: gone(below), 20.0)
    if shared(farm):

        def left() -> set[int]:
            return {cell for cell, _, name, outcome in farm.attempts() if name == "h2" and outcome}

        wait_for(left, 10.0, host.said)
        wait_for(lambda: "drained by" in host.said(), 20.0, host.said)
        wait_for(lambda: left() <= {cell for cell, _, name, _ in farm.attempts() if name == "h1"}, 30.0)
    else:
        assert host.process.wait(30.0) == 28
        assert "drained by" in host.said()
    assert time.monotonic() - begun < 45.0
    farm.call(host.name, "drain", "--off", host.name)
    finish(farm)


def test_sigterm_ends_a_host_within_10_seconds(farm: TestFarm) -> None:
    host = begin(farm)
    below = host.cells()
    begun = time.monotonic()
    host.send(signal.SIGTERM)
    assert host.process.wait(60.0) == 143, host.said()
    assert time.monotonic() - begun < 10.0
    wait_for(lambda: gone(below), 20.0)
    finish(farm)


def test_a_host_with_another_edgetune_takes_no_cell_and_says_so(postgresql: PostgresqlServer, tmp_path: Path) -> None:
    farm = TestFarm.make(tmp_path, "procrastinate", postgresql.new_database())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        loaded = farm.load()
        from edgetune.farm.cells import cells_of

        with NightStore.open(loaded.db, create=True) as store:
            facts = {"farm": "farm", "night": "2026-01-01", "ends_utc": None, "host": "h1", "owner": "", "limit": 0.02}
            night = engine_of(loaded, store).begin({**facts, "tool_version": "0.0.1"}, cells_of(loaded))
    assert night is not None
    try:
        host = farm.start("h2", "work")
        wait_for(lambda: "was begun by edgetune 0.0.1, and host h2 has" in host.said(), 60.0, host.said)
        assert farm.attempts() == []
    finally:
        farm.stop()


@pytest.mark.parametrize("db", ["records.db", "postgresql"])
def test_work_is_refused_where_hosts_cannot_share(db: str, postgresql: PostgresqlServer, tmp_path: Path) -> None:
    place = tmp_path / db if db == "records.db" else postgresql.new_database()
    engine = "local" if isinstance(place, DatabaseUrl) else "procrastinate"
    farm = TestFarm.make(tmp_path, engine, place)
    words = "works in `edgetune nightly run` alone" if engine == "local" else "needs 'db' to be a postgresql:// URL"
    done = subprocess.run(
        [sys.executable, "-m", "edgetune", "nightly", "work"], cwd=tmp_path, env=farm.environment("h"),
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 28, done.stderr
    assert re.search(re.escape(words), done.stderr)
