"""A cell on a board that somebody holds waits, then says so; the process of a cell tells others what it measures."""

from __future__ import annotations

import os
import re
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from edgetune.boards.lock import TimingLock
from edgetune.config.host import RUN, RUN_ENDS
from edgetune.farm import attempt, run_cell
from edgetune.farm.cells import cells_of
from edgetune.farm.farm_file import Farm, load_farm
from edgetune.farm.health import checking
from edgetune.farm.night_store import Night, NightStore, Verdict
from edgetune.farm.run_cell import log_of

CELL = "m@host"


@pytest.fixture
def farm(tmp_path: Path) -> Farm:
    (tmp_path / "m.onnx").write_bytes(b"")
    (tmp_path / "farm.yaml").write_text("models: {m: m.onnx}\nboards: [host]\nbudget: {trials: 1}\n")
    return load_farm(tmp_path / "farm.yaml")


def begin(farm: Farm, store: NightStore, name: str) -> Night:
    facts = {"farm": farm.name, "night": name, "ends_utc": None, "host": "h", "tool_version": "1", "owner": ""}
    night = store.begin({**facts, "limit": 0.02}, cells_of(farm))
    assert night is not None
    return night


def test_a_cell_whose_board_somebody_holds_says_busy_since_when_and_by_whom(
    farm: Farm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(RUN, raising=False)
    monkeypatch.setattr(run_cell, "TimingLock", partial(TimingLock, tmp_path / "lock", 0.2))
    monkeypatch.setattr(run_cell, "die_with_parent", lambda _: None)
    monkeypatch.setattr(checking, "fitness", lambda *_: "")
    engineer = TimingLock(tmp_path / "lock")
    engineer.acquire()
    with NightStore.open(farm.db, create=True) as store:
        night = begin(farm, store, "2026-01-01")
        (row,) = store.cells(night)
        number = store.start_attempt(row.id, "h")
        run_cell.folder_of(farm, night.night, row.cell).mkdir(parents=True)
        monkeypatch.setattr(
            sys,
            "argv",
            ["run_cell", "1", str(farm.save(tmp_path / "farm.json")), night.night, str(row.id), str(number)],
        )
        monkeypatch.chdir(tmp_path)
        run_cell.main()
        verdict = store.cells(night)[0].verdict
    engineer.close()
    assert verdict is not None
    assert verdict.verdict == "not measured"
    who = rf"\(\S+@\S+ process {os.getpid()} since (\S+ )?\d\d:\d\d\)"
    assert re.fullmatch(rf"busy: another run {who} has been timing on this machine for .*", verdict.reason)


def test_the_process_of_a_cell_knows_its_cell_and_when_it_ends_by_the_night_before(
    farm: Farm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\necho "${RUN} | ${RUN_ENDS}"\n')
    program.chmod(0o700)
    with NightStore.open(farm.db, create=True) as store:
        first = begin(farm, store, "2026-01-01")
        (row,) = store.cells(first)
        assert attempt.run_of(farm, store, first, row) == {RUN: f"2026-01-01 {CELL}"}
        number = store.start_attempt(row.id, "h")
        store.judge(row.id, number, Verdict("first"))
        store.end_attempt(row.id, number, "")
        second = begin(farm, store, "2026-01-02")
        (row,) = store.cells(second)
        monkeypatch.setattr(sys, "executable", str(program))
        before = datetime.now(UTC)
        attempt.to_verdict(farm, store, second, row, lambda _: "")
    said = log_of(farm, second.night, row.cell).read_text().splitlines()[0]
    run, _, ends = said.partition(" | ")
    assert run == f"2026-01-02 {CELL}"
    assert abs(datetime.strptime(ends, "%Y-%m-%dT%H:%MZ").replace(tzinfo=UTC) - before) < timedelta(minutes=5)
