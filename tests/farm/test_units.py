"""The systemd units of nights: each names commands and units that there are, and restarts what must go on."""

from __future__ import annotations

from configparser import RawConfigParser
from pathlib import Path

import pytest

from edgetune.cli.nightly import command
from edgetune.resources import deploy_dir

UNITS = sorted((deploy_dir() / "nightly").glob("edgetune-nightly*"))


def read(path: Path) -> RawConfigParser:
    unit = RawConfigParser(delimiters=("=",), strict=True)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(path.read_text())
    return unit


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_names_what_there_is(path: Path) -> None:
    unit = read(path)
    if path.suffix == ".timer":
        assert path.with_suffix(".service") in UNITS
        assert unit["Timer"]["OnCalendar"]
        return
    program, *words = unit["Service"]["ExecStart"].split()
    if program.endswith("/edgetune"):
        assert words[0] == "nightly"
        assert words[1] in command.commands
        assert unit["Unit"]["OnFailure"] == "edgetune-nightly-failed@%n.service"


def test_a_worker_is_watched_and_always_starts_again() -> None:
    service = read(deploy_dir() / "nightly" / "edgetune-nightly-work.service")["Service"]
    assert (service["Type"], service["Restart"], service["WatchdogSec"]) == ("notify", "always", "60")
