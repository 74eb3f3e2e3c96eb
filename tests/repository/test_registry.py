"""Registries: members of installed distributions are found by name, those of the working folder are not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from edgetune.errors import ConfigError, UsageError
from edgetune.ipc.child_process import ChildProcess
from edgetune.registry import Registry
from tests.distribution_sample import edgetune, install

COLOURS: Registry[str] = Registry("colour", "edgetune.test_colours")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("red")
    return install(folder, "edgetune.test_colours", "red", "red_one:RED", "RED = 'ff0000'\n")


@pytest.fixture
def red(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(installed))
    return installed


@pytest.mark.usefixtures("red")
def test_a_member_of_an_installed_distribution_is_found_by_name() -> None:
    assert COLOURS.names() == ("red",)
    assert COLOURS.get("red") == "ff0000"
    sys.modules.pop("red_one")


@pytest.mark.usefixtures("red")
def test_an_unknown_member_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match=r"^unknown colour 'rad': did you mean 'red'\?$"):
        COLOURS.get("rad")


def test_a_kind_without_members_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match="unknown colour 'red': none is installed: install edgetune again"):
        COLOURS.get("red", ConfigError)


@pytest.mark.usefixtures("red")
def test_two_distributions_with_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = install(tmp_path, "edgetune.test_colours", "red", "other_red:RED", "RED = 'ee0000'\n")
    monkeypatch.syspath_prepend(str(site))
    with pytest.raises(ConfigError, match="the colour 'red' is in other-red and red-one: uninstall one of them"):
        COLOURS.get("red")


@pytest.mark.usefixtures("red")
def test_the_first_copy_of_a_distribution_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = install(tmp_path / "again", "edgetune.test_colours", "red", "red_one:RED", "RED = 'dd0000'\n")
    monkeypatch.syspath_prepend(str(site))
    assert COLOURS.get("red") == "dd0000"
    sys.modules.pop("red_one")


def test_a_member_that_cannot_be_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = install(tmp_path, "edgetune.test_colours", "blue", "blue_one:BLUE", "import no_such_module_here\n")
    monkeypatch.syspath_prepend(str(site))
    with pytest.raises(ConfigError, match=r"the colour 'blue' of blue-one cannot be loaded .*no_such_module_here"):
        COLOURS.get("blue")


def test_members_of_the_working_folder_are_left_out(red: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(red)
    assert COLOURS.names() == ()


def test_no_python_of_the_working_folder_is_imported(tmp_path: Path) -> None:
    for name in ("click", "numpy", "yaml", "pydantic"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the working folder was imported')\n")
    done = edgetune(["boards", "list"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_child_process_imports_none_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit('the working folder was imported')\n")
    monkeypatch.chdir(tmp_path)
    child = ChildProcess("edgetune.measure.build_worker", (), tmp_path / "log")
    child.close(60)
    assert "pipe is closed" in child.last_words()
