"""A cell whose search ended before its budget: it goes on in another attempt, and nothing is judged or accepted."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgetune import api
from edgetune.config.database_location import Branch
from edgetune.config.settings import Settings
from edgetune.errors import BoardLost, DatabaseError, Interrupted
from edgetune.farm import nights, run_cell
from edgetune.farm.cells import cells_of
from edgetune.farm.farm_file import Farm, load_farm
from edgetune.farm.health.board_health import BoardHealth
from edgetune.farm.host_process import Freezes
from edgetune.farm.night_store import Minutes, Night, NightCell, NightStore, Verdict
from edgetune.records import RecordStore
from tests.postgresql_server import Place


@pytest.mark.parametrize(
    ("interrupted", "ended", "error"),
    [(True, "", Interrupted), (False, "board b does not answer", BoardLost)],
)
def test_what_a_search_left_that_ended_early_is_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted: bool, ended: str, error: type[Exception]
) -> None:
    (tmp_path / "m.onnx").write_bytes(b"")
    (tmp_path / "farm.yaml").write_text("models: {m: m.onnx}\nboards: [qemu-aarch64]\nbudget: {trials: 1}\n")
    farm = load_farm(tmp_path / "farm.yaml")
    found = SimpleNamespace(interrupted=interrupted, search=SimpleNamespace(ended=ended))
    monkeypatch.setattr(api, "tune", lambda *_, **__: found)
    monkeypatch.setattr(api, "verify", lambda *_: pytest.fail("a package of an unfinished search is judged"))
    facts = {"farm": farm.name, "night": "2026-01-01", "ends_utc": None, "host": "h", "tool_version": "1", "owner": ""}
    with NightStore.open(farm.db, create=True) as store:
        night = store.begin({**facts, "limit": 0.02}, cells_of(farm))
        assert night is not None
        with pytest.raises(error, match=ended or "interrupted"):
            run_cell.measure(farm, store, night, store.cells(night)[0], BoardHealth("1"))


def test_a_search_and_its_twins_share_the_records_of_before_the_night_and_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Place
) -> None:
    config = tmp_path / "config" / "edgetune"
    config.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    boards = "".join(f"  shelf-{n}: {{target: rpi4, ssh: pi@shelf-{n}.local}}\n" for n in (1, 2))
    (config / "boards.yaml").write_text(f"boards:\n{boards}")
    (tmp_path / "m.onnx").write_bytes(b"")
    text = f"models: {{m: m.onnx, n: m.onnx}}\nboards: [rpi4]\nbudget: {{trials: 1}}\ndb: {place('db')}\n"
    (tmp_path / "farm.yaml").write_text(text)
    farm, seen = load_farm(tmp_path / "farm.yaml"), []

    def stop(settings: Settings, **_: object) -> None:
        seen.append(settings.branch)
        raise Interrupted("enough")

    monkeypatch.setattr(api, "tune", stop)
    monkeypatch.setattr(api, "build", stop)
    with NightStore.open(farm.db, create=True) as store:
        for name in ("2026-01-01", "2026-01-02"):
            night = _begun(farm, store, name)
            for row in store.cells(night):
                with pytest.raises(Interrupted):
                    run_cell.measure(farm, store, night, row, BoardHealth("1"))
        name = f"night 2026-01-02 of {farm.name}"
        assert seen[4:] == [Branch(name, f"{m} rpi4", (board,)) for m in "mn" for board in ("shelf-1", "shelf-2")]
        RecordStore.open(farm.db, branch=seen[-1]).close()
        with pytest.raises(DatabaseError, match="no snapshot 'night 2026-01-01 of"):
            RecordStore.open(farm.db, branch=seen[0])


def _begun(farm: Farm, store: NightStore, name: str, ends: datetime | None = None) -> Night:
    facts = {"farm": farm.name, "night": name, "ends_utc": ends and ends.isoformat(), "host": "h", "owner": ""}
    facts |= {"tool_version": "1"}
    night = store.begin({**facts, "limit": 0.02}, cells_of(farm))
    assert night is not None
    return night


@pytest.mark.parametrize(
    ("search", "minutes"),
    [
        (0.0, 60.0 - 25.0),  # what the gates of both cells leave
        (50.0, 50.0),  # not less than the search took before
    ],
)
def test_a_search_leaves_the_gates_of_its_board_their_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, search: float, minutes: float
) -> None:
    farm = _farm(tmp_path)
    with NightStore.open(farm.db, create=True) as store:
        night = _begun(farm, store, "2026-01-01", datetime.now(UTC) + timedelta(hours=1))
        first, second = store.cells(night)
        assert run_cell.search_seconds(farm, store, night, first) is None, "no gate is known"
        took = {first.cell.name: Minutes(search + 5.0, 5.0), second.cell.name: Minutes(30.0, 20.0)}
        monkeypatch.setattr(store, "minutes", lambda _: took)
        found = run_cell.search_seconds(farm, store, night, first)
        assert found == pytest.approx(60 * minutes, abs=120.0)
        assert store.cancel(second.id, "done")
        found = run_cell.search_seconds(farm, store, night, first)
        assert found == pytest.approx(60 * (60.0 - 5.0), abs=120.0)


@pytest.mark.parametrize("present", [True, False])
def test_a_search_that_takes_the_time_of_the_gates_is_not_measured_and_goes_on_next_night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, present: bool
) -> None:
    farm = _farm(tmp_path)
    monkeypatch.setattr(run_cell, "search_seconds", lambda *_: 0.1)
    over = threading.Event()
    out_of_time = run_cell._out_of_time

    def noted(store: NightStore, row: NightCell) -> None:
        out_of_time(store, row)
        over.set()

    monkeypatch.setattr(run_cell, "_out_of_time", noted)

    def tune(*_: object, **__: object) -> None:
        assert over.wait(60.0)
        raise Interrupted("its worker ended it")

    monkeypatch.setattr(api, "tune", tune)
    with NightStore.open(farm.db, create=True) as store:
        night = _begun(farm, store, "2026-01-01", datetime.now(UTC) + timedelta(hours=1))
        other, row = store.cells(night)
        assert store.judge(other.id, store.start_attempt(other.id, "h"), Verdict("same"))
        attempt = store.start_attempt(row.id, "h")
        if not present:
            store.start_attempt(row.id, "another host")
        with pytest.raises(Interrupted):
            run_cell.measure(farm, store, night, replace(row, attempt=attempt), BoardHealth("1"))
        verdict = store.cells(night)[1].verdict
        assert (verdict is not None) == present
        if verdict is not None:
            assert verdict.verdict == "not measured"
            assert "its search was not over" in verdict.reason
        planned = nights.plan(farm, store, datetime.now(UTC))
        assert planned[0].cell.name == row.cell.name


def _farm(folder: Path) -> Farm:
    """Two models on one board."""
    (folder / "m.onnx").write_bytes(b"")
    lines = ["models: {m: m.onnx, n: m.onnx}", "boards: [qemu-aarch64]", "budget: {trials: 1}"]
    (folder / "farm.yaml").write_text("\n".join(lines) + "\n")
    return load_farm(folder / "farm.yaml")


def test_what_failed_while_the_host_was_frozen_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    freezes = Freezes()
    run_cell._again_if_frozen(freezes, "no answer within 60 s")
    monkeypatch.setattr(freezes, "longest", lambda: 75.0)
    with pytest.raises(SystemExit, match=r"frozen for 75 s, which may be the reason: no answer within 60 s"):
        run_cell._again_if_frozen(freezes, "no answer within 60 s")
