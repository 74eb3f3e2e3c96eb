"""The systemd units of nights: each names commands and units that there are, and restarts what must go on."""

from __future__ import annotations

import os
import subprocess
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


def test_a_reboot_in_the_window_goes_on_with_the_night_and_one_by_day_is_no_failure() -> None:
    assert read(deploy_dir() / "nightly" / "edgetune-nightly.timer")["Timer"]["OnBootSec"]
    words = read(deploy_dir() / "nightly" / "edgetune-nightly.service")["Service"]["ExecStart"].split()
    assert words[2:] == ["run", "--if-window", "/etc/edgetune/farm.yaml"]
    run = command.commands["run"]
    assert "--if-window" in {option for parameter in run.params for option in parameter.opts}


def test_an_alarm_is_no_failure_of_the_unit_because_notify_tells_it_once() -> None:
    service = read(deploy_dir() / "nightly" / "edgetune-nightly.service")["Service"]
    assert service["SuccessExitStatus"] == "29"
    assert "29" not in service["RestartPreventExitStatus"].split()


@pytest.mark.parametrize("works", [True, False])
def test_a_failed_unit_reaches_the_command_of_the_farm_and_else_everybody(tmp_path: Path, *, works: bool) -> None:
    line = read(deploy_dir() / "nightly" / "edgetune-nightly-failed@.service")["Service"]["ExecStart"]
    program = tmp_path / "edgetune"
    stubs = {
        program: f'echo "$*" > {tmp_path}/words; cat > {tmp_path}/heard; exit {0 if works else 28}',
        tmp_path / "journalctl": "echo disk full; echo again",
        tmp_path / "wall": f"cat > {tmp_path}/wall.txt",
    }
    for path, text in stubs.items():
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    # systemd.service(5): $$ is $, %% is %, and a backslash escapes within quotes.
    script = line.removeprefix("/bin/sh -c '").removesuffix("'").replace("$$", "$").replace("%%", "%")
    script = (
        script.replace("\\\\", "\\").replace("%i", "night.service").replace("/opt/edgetune/bin/edgetune", str(program))
    )
    search = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["sh", "-c", script], env={"PATH": search}, check=True)
    assert (tmp_path / "words").read_text() == "nightly notify /etc/edgetune/farm.yaml\n"
    assert (tmp_path / "heard").read_text() == "night.service failed:\ndisk full\nagain\n"
    assert (tmp_path / "wall.txt").exists() != works
