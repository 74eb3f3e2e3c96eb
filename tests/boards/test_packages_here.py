"""Packages made for a board, with no board named: they run on this machine, and it is said where."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetune import api
from edgetune.config.boards_file import boards_path
from edgetune.events import Event
from edgetune.package.manifest import read_manifest
from edgetune.pipeline import on_board
from tests import package_sample as sample


def test_without_a_board_it_runs_here_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    told: list[Event] = []
    sample.emit(tmp_path / "p", target=sample.arm("generic-aarch64"), weights="external", measure=False)
    report = api.bench(tmp_path / "p", None, told.append)
    message = str(told[0].data["message"])
    assert message.startswith("made for generic-aarch64, the package runs on this machine")
    assert message.endswith("`--board` names a board to run it on")
    assert report.ran_on.startswith("this machine")
    assert bool(report.note) == report.emulated
    boards_path().parent.mkdir(parents=True, exist_ok=True)
    farm = "farm: {target: generic-aarch64, ssh: farm, rpc: tvm, tracker: 'localhost:9190'}"
    boards_path().write_text(f"boards: {{{farm}}}\n", encoding="utf-8")
    on_board.tell_here(read_manifest(tmp_path / "p"), told.append)
    assert str(told[-1].data["message"]).endswith("`--board` names a board to run it on")
    boards_path().write_text(f"boards: {{attic: {{target: generic-aarch64, ssh: attic}}, {farm}}}\n", encoding="utf-8")
    told.clear()
    assert api.verify(tmp_path / "p", None, events=told.append).ran_on == report.ran_on
    assert "`--board generic-aarch64` runs it there" in str(told[0].data["message"])


def test_a_package_of_this_machine_is_at_home(tmp_path: Path) -> None:
    told: list[Event] = []
    sample.emit(tmp_path / "p", measure=False)
    api.bench(tmp_path / "p", None, told.append)
    assert told == []
