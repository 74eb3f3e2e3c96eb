"""What `doctor`, `prune` and `plan` say of a farm that has had nights."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sys
import tomllib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import update

from edgetune.cli.nightly import command
from edgetune.config.host import host_name
from edgetune.errors import DatabaseError, NightFault, UsageError
from edgetune.farm import nights
from edgetune.farm.archive import PACKAGE, keep
from edgetune.farm.calendar import clock_time
from edgetune.farm.cells import cells_of
from edgetune.farm.doctor import findings
from edgetune.farm.drains import drain
from edgetune.farm.engine import engine_of
from edgetune.farm.farm_file import Farm, load_farm
from edgetune.farm.local_engine import lock_path
from edgetune.farm.night_store import Minutes, Night, NightCell, NightStore, Verdict
from edgetune.farm.night_tables import attempts
from edgetune.farm.page import write_page
from edgetune.farm.report import report
from edgetune.farm.retention import prune
from edgetune.farm.run_cell import log_of
from edgetune.records.database import database_exists

BOARD = "qemu-aarch64"


@pytest.fixture
def farm(tmp_path: Path) -> Farm:
    for name in ("a", "b"):
        (tmp_path / f"{name}.onnx").write_bytes(b"")
    lines = ["models: {a: a.onnx, b: b.onnx}", f"boards: [{BOARD}]", "budget: {trials: 1}", "window: 22:00-23:00"]
    (tmp_path / "farm.yaml").write_text("\n".join([*lines, "timezone: UTC"]) + "\n")
    return load_farm(tmp_path / "farm.yaml")


def a_night(farm: Farm, store: NightStore, gate_minutes: float = 0.0) -> None:
    facts = {"farm": farm.name, "night": "2026-01-01", "ends_utc": None, "host": "h1", "tool_version": "1"}
    night = store.begin({**facts, "owner": "", "limit": 0.02}, cells_of(farm))
    assert night is not None
    for row in store.cells(night):
        attempt = store.start_attempt(row.id, "h1")
        found = {"new": 7.0, "low": 0.99, "starts": [[1.0] * 100] * 2, "gate_minutes": gate_minutes}
        assert store.judge(row.id, attempt, Verdict("same", facts=found))
        store.end_attempt(row.id, attempt, "exit code 0")
        log_of(farm, night.night, row.cell).parent.mkdir(parents=True)
        log_of(farm, night.night, row.cell).write_text("events\n")
    assert store.finish(night)


def found_of(farm: Farm) -> dict[str, tuple[bool, str]]:
    return {one.check: (one.ok, one.detail) for one in findings(farm, datetime.now(UTC))}


def test_doctor_names_a_missing_night_a_drain_a_lock_and_what_the_archive_holds(farm: Farm) -> None:
    assert found_of(farm)["last night"] == (False, "no night has run yet")
    with NightStore.open(farm.db, create=True) as store:
        a_night(farm, store)
        drain(store.database, BOARD)
    farm.archive.mkdir(parents=True)
    (farm.archive / "x.tar").write_bytes(bytes(3 << 20))
    found = found_of(farm)
    assert found["last night"] == (True, "1 nights, the last one is 2026-01-01, finished")
    assert found["drain"][1].startswith(f"{BOARD} was drained by ")
    assert found["archive"][1].startswith("1 packages, 3.0 MiB")
    with lock_path(farm).open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "runs a night" in found_of(farm)["lock"][1]
    assert found_of(farm)["lock"] == (True, "nobody runs a night on this host")
    late = list(findings(farm, datetime.now(UTC) + timedelta(hours=27)))
    assert [(one.check, one.exit_code) for one in late if one.required and not one.ok] == [("last night", 28)]


def test_a_night_that_died_does_not_look_quiet(farm: Farm) -> None:
    ends = (datetime.now(UTC) - timedelta(hours=3)).isoformat()
    facts = {"farm": farm.name, "night": "2026-01-01", "ends_utc": ends, "host": "h1", "tool_version": "1"}
    with NightStore.open(farm.db, create=True) as store:
        store.begin({**facts, "owner": "", "limit": 0.02}, cells_of(farm))
    said = f"night 2026-01-01 has not finished, and the window was over ({clock_time(ends, 'UTC')})"
    assert found_of(farm)["last night"] == (False, said)
    status = CliRunner().invoke(command, ["status", str(farm.path)])
    assert isinstance(status.exception, NightFault)
    assert status.exception.message.startswith(said)


@pytest.mark.parametrize("words", [[], ["--if-window"]])
def test_a_night_that_died_is_closed_by_day_with_its_page_and_is_told(farm: Farm, words: list[str]) -> None:
    at = datetime.now(UTC) + timedelta(hours=3)
    text = farm.path.read_text().replace("22:00-23:00", f"{at:%H:%M}-{at + timedelta(hours=1):%H:%M}")
    farm.path.write_text(f"{text}notify: [sh, -c, 'cat > heard']\n")
    farm = load_farm(farm.path)
    facts = {"farm": farm.name, "night": "2026-01-01", "host": "h1", "tool_version": "1", "owner": "", "limit": 0.02}
    with NightStore.open(farm.db, create=True) as store:
        store.begin({**facts, "ends_utc": (at - timedelta(hours=4)).isoformat()}, cells_of(farm))
    done = CliRunner().invoke(command, ["run", *words, str(farm.path)])
    assert (done.exit_code == 0) == bool(words)
    assert isinstance(done.exception, UsageError) != bool(words)
    assert "by day nothing starts without --now" in (done.output if words else str(done.exception))
    page = farm.folder / "pages" / "2026-01-01" / "index.html"
    assert "the window was over" in page.read_text()
    assert "the window was over" in (farm.path.parent / "heard").read_text()
    with NightStore.open(farm.db, create=True) as store:
        assert store.nights(farm.name)[0].finished_utc
    assert found_of(farm)["last night"][0]


def test_the_unit_needs_a_window_and_no_night_by_hand(farm: Farm) -> None:
    farm.path.write_text(farm.path.read_text().replace("window: 22:00-23:00\n", ""))
    for words in (["--if-window"], ["--if-window", "--now"]):
        done = CliRunner().invoke(command, ["run", *words, str(farm.path)])
        assert isinstance(done.exception, UsageError)


def test_prune_keeps_medians_and_deletes_samples_and_logs_after_a_month(farm: Farm) -> None:
    with NightStore.open(farm.db, create=True) as store:
        a_night(farm, store)
        (night,) = store.nights(farm.name)
        soon, later = datetime.now(UTC) + timedelta(days=30), datetime.now(UTC) + timedelta(days=32)
        assert prune(farm, store, soon, dry_run=False).bytes == 0
        counted = prune(farm, store, later, dry_run=True)
        assert (counted.verdicts, counted.folders) == (2, 1)
        assert counted.bytes > 1000
        assert all("starts" in row.verdict.facts for row in store.cells(night) if row.verdict)
        assert prune(farm, store, later, dry_run=False) == counted
        assert [row.verdict.facts["new"] for row in store.cells(night) if row.verdict] == [7.0, 7.0]
        assert not [row for row in store.cells(night) if row.verdict and "starts" in row.verdict.facts]
        assert not (farm.folder / "work" / night.night).exists()
        assert prune(farm, store, later, dry_run=False).bytes == 0


def test_the_plan_sets_the_minutes_of_the_gate_aside_before_any_search(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    with NightStore.open(farm.db, create=True) as store:
        a_night(farm, store)
        took = {f"a@{BOARD}": Minutes(40.0, 25.0), f"b@{BOARD}": Minutes(45.0, 20.0)}
        monkeypatch.setattr(store, "minutes", lambda _: took)
        at = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
        planned = nights.plan(farm, store, at)
        # The window has 60 minutes, the gate needs 45 of them: the search of a, 15 minutes, fits, that of b does not.
        assert [(item.cell.model, item.gate_minutes, item.fits) for item in planned] == [
            ("a", 25.0, True),
            ("b", 20.0, False),
        ]

        took[f"a@{BOARD}"] = Minutes(45.0, 25.0)
        assert [(item.cell.model, item.fits) for item in nights.plan(farm, store, at)] == [("a", False), ("b", False)]
        took[f"b@{BOARD}"] = Minutes(30.0, 20.0)
        assert [(item.cell.model, item.fits) for item in nights.plan(farm, store, at)] == [("b", True), ("a", False)]


def test_boards_and_hosts_can_be_drained(farm: Farm) -> None:
    with NightStore.open(farm.db, create=True) as store:
        a_night(farm, store)
        assert {BOARD, "h1"} <= set(nights.drainable(farm, store))


@pytest.mark.parametrize("gone", ["scipy", "matplotlib", "ruptures"])
def test_a_missing_library_is_named_before_a_night_begins(
    farm: Farm, gone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgetune.farm.engine.find_spec", lambda name: None if name == gone else object())
    with (
        NightStore.open(farm.db, create=True) as store,
        pytest.raises(NightFault, match=rf"nights need {gone}: pip install 'edgetune\[nightly\]'"),
    ):
        engine_of(farm, store)


@pytest.mark.parametrize("gone", ["scipy", "matplotlib", "ruptures", "psycopg", "procrastinate"])
def test_the_extra_that_a_sentence_names_has_the_library(
    farm: Farm, gone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, gone, None)
    monkeypatch.delitem(sys.modules, "edgetune.farm.procrastinate_engine", raising=False)
    monkeypatch.setattr("edgetune.farm.engine.find_spec", lambda name: None if name == gone else object())
    farm.path.write_text(f"{farm.path.read_text()}engine: procrastinate\ndb: postgresql://nobody@localhost:1/none\n")
    changed = load_farm(farm.path)
    with NightStore.open(farm.db, create=True) as store, pytest.raises((NightFault, DatabaseError)) as fault:
        database_exists(changed.db) if gone == "psycopg" else engine_of(changed, store)
    said = re.search(rf"needs? {gone}: pip install 'edgetune\[(\w+)\]'", fault.value.message)
    assert said is not None, fault.value.message
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert any(re.match(rf"{gone}\b", one) for one in project["optional-dependencies"][said[1]])


def test_a_verdict_that_comes_while_the_report_is_read_waits_for_the_next_one(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {"farm": farm.name, "night": "2026-01-01", "ends_utc": None, "host": "h1", "tool_version": "1"}
    with NightStore.open(farm.db, create=True) as store:
        night = store.begin({**facts, "owner": "", "limit": 0.02}, cells_of(farm))
        assert night is not None
        read = store.cells

        def cells(of: Night) -> list[NightCell]:
            rows = read(of)
            for row in rows:  # another host is faster than the next query
                store.judge(row.id, row.attempt, Verdict("first"))
            return rows

        monkeypatch.setattr(store, "cells", cells)
        assert {cell.verdict for cell in report(farm, store, night).cells} == {"waiting"}
        assert {cell.verdict for cell in report(farm, store, night).cells} == {"first"}


def accepted_package(farm: Farm, store: NightStore, model: str) -> Path:
    """A package of a cell that somebody accepted; its file in the archive."""
    cell = next(cell for cell in cells_of(farm) if cell.model == model)
    folder = farm.path.parent / model
    (folder / PACKAGE).mkdir(parents=True)
    (folder / PACKAGE / "m.c").write_text(model)
    package = keep(farm.archive, folder)
    values = {"farm": farm.name, "cell": cell.name, "settings": cell.settings, "night": "2026-01-01", "facts": {}}
    store.accept({**values, "package": package, "by": "kim", "because": "it is meant"})
    return farm.archive / package[:2] / f"{package}.tar"


def test_doctor_names_accepted_packages_that_are_lost_or_damaged_and_an_archive_that_is_gone(farm: Farm) -> None:
    with NightStore.open(farm.db, create=True) as store:
        a_night(farm, store)
        files = [accepted_package(farm, store, model) for model in "ab"]
    assert "accepted packages" not in found_of(farm)
    files[0].unlink()
    said = f"{farm.archive} has lost the accepted package of a@{BOARD}, or it is damaged"
    assert found_of(farm)["accepted packages"] == (False, said)
    files[1].write_bytes(b"damaged")
    assert f"a@{BOARD}, b@{BOARD}" in found_of(farm)["accepted packages"][1]
    shutil.rmtree(farm.archive)
    gone = next(one for one in findings(farm, datetime.now(UTC)) if one.check == "archive")
    assert (gone.ok, gone.required, gone.exit_code) == (False, True, NightFault.exit_code)
    assert gone.detail == f"{farm.archive} is not there, nor the accepted package of a@{BOARD}, b@{BOARD}"


def test_doctor_advises_no_prune_for_a_full_archive(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    farm.archive.mkdir(parents=True)
    monkeypatch.setattr("edgetune.farm.doctor.LEAST_FREE_BYTES", 1 << 60)
    (full,) = (one for one in findings(farm, datetime.now(UTC)) if one.check == "archive")
    assert not full.ok
    assert "nightly prune" not in full.fix
    assert f"'archive' in {farm.path}" in full.fix


def test_doctor_names_a_database_that_cannot_be_written(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    with NightStore.open(farm.db, create=True) as store:
        a_night(farm, store)
    assert "records database" not in found_of(farm)
    writable = os.access

    def access(path: Path, mode: int, **rest: bool) -> bool:
        """As for a user who may not write the file: root may write each."""
        return writable(path, mode, **rest) and not (Path(path) == farm.db and mode & os.W_OK)

    monkeypatch.setattr(os, "access", access)
    fault = next(one for one in findings(farm, datetime.now(UTC)) if one.check == "records database")
    assert (fault.ok, fault.required, fault.exit_code) == (False, True, DatabaseError.exit_code)
    assert f"{farm.db} cannot be written: make the file and its folder writable" in fault.detail


def test_a_plan_by_day_counts_the_window_that_comes_and_after_tonight_the_next_one(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    farm.path.write_text(farm.path.read_text().replace("22:00-23:00", "01:00-02:00"))
    farm = load_farm(farm.path)
    took = {f"{name}@{BOARD}": Minutes(25.0, 5.0) for name in "ab"}

    def fits(now: datetime) -> list[bool]:
        return [item.fits for item in nights.plan(farm, store, now)]

    with NightStore.open(farm.db, create=True) as store:
        monkeypatch.setattr(store, "minutes", lambda _: took)
        noon = datetime.now(UTC).replace(hour=12)
        assert fits(noon) == [True, True], "tomorrow's window, as today's is over"
        late = noon.replace(hour=1, minute=50) + timedelta(days=1)
        assert fits(late) == [False, False], "ten minutes of tonight's are left"
        monkeypatch.setattr("edgetune.farm.night_store.utc_now", late.isoformat)
        a_night(farm, store)
        assert fits(late) == [True, True], "tonight is over"


def test_nothing_is_accepted_without_a_reason(farm: Farm) -> None:
    with NightStore.open(farm.db, create=True) as store:
        a_night(farm, store)
        (night,) = store.nights(farm.name)
        row = replace(store.cells(night)[0], verdict=Verdict("slower", package="0" * 64))
        for because in ("", " \t "):
            with pytest.raises(UsageError, match="--because is empty: say why this package is right"):
                nights.accept(farm, store, night, row, because)
        nights.accept(farm, store, night, row, " it is meant ")
        found = store.accepted(farm.name, row.cell)
        assert found is not None
        assert found.because == "it is meant"


def test_status_says_what_runs_where_since_when_and_times_of_the_farms_zone(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    farm.path.write_text(farm.path.read_text().replace("timezone: UTC", "timezone: Asia/Tokyo"))
    farm = load_farm(farm.path)
    facts = {"farm": farm.name, "night": "2026-01-01", "host": "h1", "tool_version": "1", "owner": "", "limit": 0.02}
    monkeypatch.setattr("edgetune.farm.night_store.utc_now", lambda: "2026-01-01T13:00:05.123456Z")
    with NightStore.open(farm.db, create=True) as store:
        night = store.begin({**facts, "ends_utc": None}, cells_of(farm))
        assert night is not None
        a, b = store.cells(night)
        store.start_attempt(a.id, "h2")
        store.start_attempt(b.id, host_name())
        with store.database.writing() as connection:  # the process that began it is gone
            connection.execute(update(attempts).where(attempts.c.night_cell_id == b.id).values(pid=2**22 + 1))
        found = {cell.cell: cell for cell in report(farm, store, night).cells}
        running, waiting = found[f"a@{BOARD}"], found[f"b@{BOARD}"]
        assert (running.verdict, running.host) == ("running", "h2")
        assert (running.running_since_utc, waiting.verdict) == ("2026-01-01T13:00:05.123456Z", "waiting")
        assert report(farm, store, night).counts["running"] == 1
        said = CliRunner().invoke(command, ["status", str(farm.path)], env={"COLUMNS": "200"}).output
        assert "on host h2 since 2026-01-01 22:00:05 JST" in said
        assert "begun 2026-01-01 22:00:05 JST, not finished" in said
        page = write_page(farm, store, night).read_text()
        assert 'on host h2 since <span class="date">2026-01-01 22:00:05 JST</span>' in page
        assert "1 cell runs now and 1 cell waits for a result." in page
        assert "123456" not in page
        store.end_attempt(a.id, 1, "exit code 0")
        assert {cell.verdict for cell in report(farm, store, night).cells} == {"waiting"}
