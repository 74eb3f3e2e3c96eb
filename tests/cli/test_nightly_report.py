"""`edgetune nightly report`: the page of a night in the browser."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from edgetune.cli.main import run
from edgetune.farm.cells import Cell
from edgetune.farm.farm_file import load_farm
from edgetune.farm.night_store import NightStore


def test_open_shows_the_page_in_a_browser_and_without_it_nothing_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(click, "launch", opened.append)
    (tmp_path / "m.onnx").write_bytes(b"")
    (tmp_path / "farm.yaml").write_text("models: {m: m.onnx}\nboards: [host]\nbudget: {trials: 1}\n")
    farm = load_farm(tmp_path / "farm.yaml")
    facts = {"farm": farm.name, "night": "2026-01-01", "ends_utc": None, "host": "h", "tool_version": "1", "owner": ""}
    with NightStore.open(farm.db, create=True) as store:
        store.begin({**facts, "limit": 0.02}, [Cell("m", "host", "k", searches=True, settings="s")])
    assert run(["nightly", "report", str(farm.path)]) == 0
    page = Path(capsys.readouterr().out.strip())
    assert "m@host" in page.read_text(encoding="utf-8")
    assert opened == []
    assert run(["nightly", "report", "--open", str(farm.path)]) == 0
    assert opened == [page.as_uri()]
