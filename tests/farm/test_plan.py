"""The order of the next night, and the plan of the example farm."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from edgetune.farm import nights
from edgetune.farm.cells import cells_of
from edgetune.farm.farm_file import load_farm
from edgetune.farm.night_store import Minutes, NightStore, Verdict

EXAMPLE = Path(__file__).parents[2] / "examples" / "farm.yaml"
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _no_boards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_a_cell_that_did_not_fit_comes_first_in_the_next_night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        (tmp_path / f"{name}.onnx").write_bytes(b"")
    lines = ["models: {a: a.onnx, b: b.onnx}", "boards: [host]", "budget: {trials: 1}", "window: 22:00-23:00"]
    (tmp_path / "farm.yaml").write_text("\n".join([*lines, "timezone: UTC"]) + "\n")
    farm = load_farm(tmp_path / "farm.yaml")
    facts = {"farm": farm.name, "night": "2026-02-28", "ends_utc": None, "host": "h", "tool_version": "1", "owner": ""}
    with NightStore.open(farm.db, create=True) as store:
        monkeypatch.setattr(store, "minutes", lambda _: {f"{name}@host": Minutes(40.0, 10.0) for name in "ab"})
        first = nights.plan(farm, store, NOON)
        assert [(one.cell.model, one.fits) for one in first] == [("a", True), ("b", False)]
        night = store.begin({**facts, "limit": 0.02}, cells_of(farm))
        assert night is not None
        a, b = store.cells(night)
        assert store.judge(a.id, store.start_attempt(a.id, "h"), Verdict("first"))
        assert store.cancel(b.id, "the window was over")
        second = nights.plan(farm, store, NOON)
        assert [(one.cell.model, one.fits) for one in second] == [("b", True), ("a", False)]


def test_the_example_farm_can_be_planned() -> None:
    farm = load_farm(EXAMPLE)
    assert all(model.is_file() for model in farm.models.values())
    planned = nights.plan(farm, None, NOON)
    cells = [f"{model}@{board}" for model in ("ds_cnn", "ad_ae") for board in ("host", "qemu-aarch64")]
    assert [one.cell.name for one in planned] == cells
    assert all(one.fits and one.cell.searches and one.minutes is None for one in planned)
