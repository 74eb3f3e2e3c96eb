"""A cell whose search ended before its budget: it goes on in another attempt, and nothing is judged or accepted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from edgetune import api
from edgetune.errors import BoardLost, Interrupted
from edgetune.farm import run_cell
from edgetune.farm.cells import cells_of
from edgetune.farm.farm_file import load_farm
from edgetune.farm.health.board_health import BoardHealth
from edgetune.farm.night_store import NightStore


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
