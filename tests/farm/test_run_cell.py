"""A cell whose search ended before its budget: it goes on in another attempt, and nothing is judged or accepted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from edgetune import api
from edgetune.config.database_location import Branch
from edgetune.config.settings import Settings
from edgetune.errors import BoardLost, DatabaseError, Interrupted
from edgetune.farm import run_cell
from edgetune.farm.cells import cells_of
from edgetune.farm.farm_file import Farm, load_farm
from edgetune.farm.health.board_health import BoardHealth
from edgetune.farm.host_process import Freezes
from edgetune.farm.night_store import Night, NightStore
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


def _begun(farm: Farm, store: NightStore, name: str) -> Night:
    facts = {"farm": farm.name, "night": name, "ends_utc": None, "host": "h", "tool_version": "1", "owner": ""}
    night = store.begin({**facts, "limit": 0.02}, cells_of(farm))
    assert night is not None
    return night


def test_what_failed_while_the_host_was_frozen_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    freezes = Freezes()
    run_cell._again_if_frozen(freezes, "no answer within 60 s")
    monkeypatch.setattr(freezes, "longest", lambda: 75.0)
    with pytest.raises(SystemExit, match=r"frozen for 75 s, which may be the reason: no answer within 60 s"):
        run_cell._again_if_frozen(freezes, "no answer within 60 s")
