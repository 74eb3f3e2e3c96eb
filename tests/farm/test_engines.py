"""Nights of counting cells on one host, which is frozen, killed and drained, and hosts that may not work."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from edgetune.config.database_location import DatabaseUrl
from edgetune.farm.cells import cells_of
from edgetune.farm.engine import engine_of
from edgetune.farm.night_store import NightStore
from tests.farm.hosts import TRIALS, TestFarm, gone, judged_once, measuring, wait_for
from tests.postgresql_server import PostgresqlServer


@pytest.mark.long
def test_a_night_of_one_host_goes_on_after_a_freeze_a_kill_and_a_drain(make: Callable[..., TestFarm]) -> None:
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

    farm.budget(TRIALS)
    before = farm.measured()
    farm.call("h1", "run", "--now")
    judged_once(farm, before)
    assert farm.most_measured() == 1, "no candidate is measured twice"


@pytest.mark.long
def test_a_missing_model_is_that_of_its_cell_alone_and_no_command_needs_it(make: Callable[..., TestFarm]) -> None:
    farm = make("local", models=1, trials=1)
    path = farm.folder / "farm.yaml"
    path.write_text(path.read_text().replace("boards: [count-a, count-b]", "boards: [count-a]"))
    (farm.folder / "m0.onnx").rename(farm.folder / "elsewhere.onnx")
    (cell,) = farm.call("h1", "run", "--now")["cells"]
    assert cell["verdict"] == "not measured"
    assert "farm.yaml, line 1: 'models.m0' names" in cell["reason"]
    assert cell["attempts"] == 1
    farm.call("h1", "status")
    farm.call("h1", "report")
    farm.call("h1", "log", "m0@count-a")
    farm.call("h1", "plan")
    found = farm.call("h1", "doctor")
    assert any("'models.m0' names" in finding["detail"] for finding in found if finding["check"] == "model"), found
    refused = farm.call("h1", "accept", "m0@count-a", "--because", "it is right", code=2)
    assert "left no changed package" in refused["error"]["message"]


@pytest.mark.long
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


@pytest.mark.long
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
