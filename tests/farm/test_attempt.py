"""Attempts at a cell: what is kept of how each ended, and which of them run. A short script is their process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgetune.config.host import host_name
from edgetune.farm import attempt
from edgetune.farm.cells import cells_of
from edgetune.farm.farm_file import Farm, load_farm
from edgetune.farm.night_store import Night, NightCell, NightStore
from edgetune.farm.night_tables import attempts
from edgetune.farm.open_nights import running_cells

Place = tuple[Farm, NightStore, Night, NightCell]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    (tmp_path / "m.onnx").write_bytes(b"")
    (tmp_path / "farm.yaml").write_text("models: {m: m.onnx}\nboards: [qemu-aarch64]\nbudget: {trials: 1}\n")
    farm = load_farm(tmp_path / "farm.yaml")
    facts = {"farm": farm.name, "night": "2026-01-01", "ends_utc": None, "host": "h", "tool_version": "1"}
    with NightStore.open(farm.db, create=True) as store:
        night = store.begin({**facts, "owner": "", "limit": 0.02}, cells_of(farm))
        assert night is not None
        yield farm, store, night, store.cells(night)[0]


def script(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `text` be the process of all attempts."""
    path = folder / "script"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(path))


def outcomes(store: NightStore) -> list[str]:
    with store.database.reading() as connection:
        return list(connection.scalars(attempts.select().with_only_columns(attempts.c.outcome)))


def test_a_freeze_does_not_hide_how_an_attempt_ended(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path, "echo no memory; exit 7", monkeypatch)

    def ends(_: int) -> str:
        for one in attempt._running.values():
            one.frozen_s = 64.0
        return ""

    farm, store, night, row = place
    assert attempt.to_verdict(farm, store, night, row, ends) == ""
    assert outcomes(store) == ["frozen for 64 s; exit code 7: no memory"] * attempt.MOST_CRASHES
    verdict = store.cells(night)[0].verdict
    assert verdict is not None
    assert "(frozen for 64 s; exit code 7: no memory)" in verdict.reason


def test_a_cell_runs_while_its_process_does_whatever_the_clock_says(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path, "sleep 60; true", monkeypatch)
    monkeypatch.setattr("edgetune.farm.night_store.utc_now", lambda: "1970-01-02T00:00:00Z")
    farm, store, night, row = place
    seen = []

    def ends(_: int) -> str:
        seen.append(running_cells(store, night))
        return "stopped"

    assert attempt.to_verdict(farm, store, night, row, ends) == "stopped"
    assert [set(cells) for cells in seen] == [{row.id}]
    assert running_cells(store, night) == {}


def test_a_cell_does_not_run_where_another_program_got_the_number_of_its_process(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgetune.farm.night_store.utc_now", lambda: "2999-01-01T00:00:00Z")
    _, store, night, row = place
    store.start_attempt(row.id, host_name())
    assert running_cells(store, night) == {}
