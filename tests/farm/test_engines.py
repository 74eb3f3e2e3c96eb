"""One suite over both engines: nights of counting cells, and hosts that are killed, frozen or drained."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from edgetune._version import __version__
from edgetune.config.database_location import DatabaseUrl
from edgetune.farm.cells import cells_of
from edgetune.farm.engine import engine_of
from edgetune.farm.night_store import NightStore
from tests.farm.hosts import BOARDS, SECONDS, Host, TestFarm, gone, wait_for
from tests.postgresql_server import PostgresqlServer

TRIALS, MODELS = 2, 2
ENDLESS = 2000
"""Trials of a cell that a fault befalls before it has measured them all, however fast it is."""


@pytest.fixture
def make(
    postgresql: PostgresqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., TestFarm]]:
    """Makes a farm of two counting boards; SQLite for the local engine, PostgreSQL for the other one."""
    made: list[TestFarm] = []

    def farm(engine: str, models: int = MODELS, trials: int = ENDLESS) -> TestFarm:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        db = tmp_path / "records.db" if engine == "local" else postgresql.new_database()
        made.append(TestFarm.make(tmp_path, engine, db, models=models, trials=trials))
        return made[-1]

    yield farm
    for one in made:
        one.stop()


def measuring(farm: TestFarm, host: Host, seconds: float = SECONDS) -> dict[int, int]:
    """Wait until a host runs a cell on each board, then until each has measured something more; return them."""

    def started() -> bool:
        return len(host.runs()) == len(BOARDS)

    def counts() -> list[int]:
        logs = [log for cell in found for log in farm.folder.glob(f"out/work/*/{names[cell]}/log")]
        return [log.read_text(errors="replace").count('"candidate"') for log in logs]

    wait_for(started, seconds, host.said)
    found, names = host.runs(), {row.id: row.cell.name for row in farm.rows()}
    before = counts()
    wait_for(lambda: all(now > then for now, then in zip(counts(), before, strict=True)), words=host.said)
    return found


def judged_once(farm: TestFarm, before: int) -> None:
    """Each cell has its one verdict, each attempt its end, and the night its page.

    Nothing that was measured is lost, and where it is enough for the budget, nothing more is measured.
    """
    rows = farm.rows()
    assert [row.verdict.verdict for row in rows if row.verdict] == ["first"] * MODELS * len(BOARDS)
    (page,) = farm.folder.glob("out/pages/*/index.html")
    assert all(row.cell.board in page.read_text() for row in rows)
    assert before <= farm.measured() <= before + TRIALS * len(rows)


def ended_by_sigterm(host: Host) -> None:
    """SIGTERM ends a host and its cells within 10 seconds."""
    below, begun = host.cells(), time.monotonic()
    host.send(signal.SIGTERM)
    assert host.process.wait(60.0) == 143, host.said()
    assert time.monotonic() - begun < 10.0
    wait_for(lambda: gone(below), 20.0)


def test_a_night_of_one_host_goes_on_after_a_freeze_a_kill_a_drain_and_a_signal(make: Callable[..., TestFarm]) -> None:
    farm = make("local")
    host = farm.start("h1", "run", "--now")
    frozen = measuring(farm, host)
    assert host.listens() == [], "nothing listens off loopback during a night"
    host.send(signal.SIGSTOP, all_of_it=True)
    time.sleep(3.0)
    host.send(signal.SIGCONT, all_of_it=True)
    assert measuring(farm, host) == frozen, "the same attempts go on"
    refused = farm.call("h1", "run", "--now", code=28)
    assert "another `edgetune nightly run`" in refused["error"]["message"]

    below = host.cells()
    host.send(signal.SIGKILL)
    host.process.wait()
    wait_for(lambda: gone(below), 20.0)

    host = farm.start("h1", "run", "--now")
    measuring(farm, host)
    below = host.cells()
    farm.call("h1", "drain", "h1")
    wait_for(lambda: gone(below), 20.0)
    assert host.process.wait(30.0) == 28
    assert "drained by" in host.said()
    farm.call("h1", "drain", "--off", "h1")

    host = farm.start("h1", "run", "--now")
    measuring(farm, host)
    farm.budget(TRIALS)
    ended_by_sigterm(host)
    before = farm.measured()
    farm.call("h1", "run", "--now")
    judged_once(farm, before)
    assert farm.most_measured() == 1, "no candidate is measured twice"


def test_a_night_of_two_hosts_goes_on_at_the_other_after_a_freeze_a_kill_a_drain_and_a_signal(
    make: Callable[..., TestFarm],
) -> None:
    farm = make("procrastinate")
    farm.call("h1", "drain", "h1")
    farm.call("h1", "run", "--now", code=28)  # it begins the night, and takes no cell
    second = farm.start("h2", "work")
    frozen = measuring(farm, second)
    assert second.listens() == [], "nothing listens off loopback during a night"
    farm.call("h1", "drain", "--off", "h1")

    first = farm.start("h1", "run", "--now")
    below = second.cells()
    second.send(signal.SIGSTOP, all_of_it=True)
    measuring(farm, first, 120.0)
    second.send(signal.SIGCONT, all_of_it=True)
    wait_for(lambda: "starts anew" in second.said(), 30.0, second.said)
    wait_for(lambda: gone(below), 20.0)

    below = first.cells()
    first.send(signal.SIGKILL)
    first.process.wait()
    wait_for(lambda: gone(below), 20.0)
    again = measuring(farm, second, 120.0)
    assert all(number > frozen.get(cell, 0) for cell, number in again.items()), "no attempt of before the freeze"

    first = farm.start("h1", "run", "--now")
    below, begun = second.cells(), time.monotonic()
    farm.call("h2", "drain", "h2")
    wait_for(lambda: gone(below), 20.0)
    wait_for(lambda: "drained by" in second.said(), 20.0, second.said)
    wait_for(lambda: len(first.runs()) == len(BOARDS), 30.0, first.said)
    assert time.monotonic() - begun < 45.0
    farm.call("h2", "drain", "--off", "h2")

    measuring(farm, first)
    farm.budget(TRIALS)
    before = farm.measured()
    ended_by_sigterm(first)
    farm.call("h1", "run", "--now")
    judged_once(farm, before)
    assert second.process.poll() is None, "it waits for the next night"


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
    assert reasons == [f"the window was over ({ends.isoformat()})"] * len(BOARDS)
    assert reasons[0] in (farm.folder / "out" / "pages" / night.night / "index.html").read_text()


def test_a_host_with_another_edgetune_takes_no_cell_and_says_so(postgresql: PostgresqlServer, tmp_path: Path) -> None:
    farm = TestFarm.make(tmp_path, "procrastinate", postgresql.new_database())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        loaded = farm.load()
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
