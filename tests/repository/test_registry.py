"""Registries: members of installed distributions are found by name, those of the working folder are not."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest

from edgetune.errors import ConfigError, UsageError
from edgetune.ipc.child_process import ChildProcess
from edgetune.registry import Registry, require_members
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
    with pytest.raises(ConfigError, match=r"^no colour is installed, not even edgetune's own: install edgetune again$"):
        COLOURS.get("red")


class Shade(Protocol):
    name: str

    @property
    def bright(self) -> bool: ...


class Tint(Shade, Protocol):
    """What a later edgetune asks for as well."""

    share: float = 0.5

    def mixed(self) -> str: ...


class Rose(Tint):
    """Inherits the share, and has its name from `__init__`."""

    def __init__(self) -> None:
        self.name = "rose"

    @property
    def bright(self) -> bool:
        raise AssertionError("nothing of a member is called to see whether it is there")

    def mixed(self) -> str:
        return self.name


@pytest.mark.usefixtures("red")
def test_a_member_that_lacks_what_is_asked_of_it_is_one_sentence() -> None:
    require_members("tint", Rose(), Tint)
    shades: Registry[Shade] = Registry("colour", "edgetune.test_colours", Shade)
    wanted = "the colour 'red' of red-one has no 'bright', which this edgetune asks for: install another version of it"
    with pytest.raises(ConfigError, match=wanted):
        shades.get("red")
    sys.modules.pop("red_one")
    bare = type("Bare", (), {"bright": True, "mixed": 1, "share": 0.1})()
    with pytest.raises(ConfigError, match="the tint has no 'name'"):
        require_members("tint", bare, Tint)


@pytest.mark.long
@pytest.mark.usefixtures("red")
def test_two_distributions_with_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = install(tmp_path, "edgetune.test_colours", "red", "other_red:RED", "RED = 'ee0000'\n")
    monkeypatch.syspath_prepend(str(site))
    with pytest.raises(ConfigError, match="the colour 'red' is in other-red and red-one: uninstall one of them"):
        COLOURS.get("red")


@pytest.mark.long
@pytest.mark.usefixtures("red")
def test_the_first_copy_of_a_distribution_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = install(tmp_path / "again", "edgetune.test_colours", "red", "red_one:RED", "RED = 'dd0000'\n")
    monkeypatch.syspath_prepend(str(site))
    assert COLOURS.get("red") == "dd0000"
    sys.modules.pop("red_one")


@pytest.mark.long
def test_a_member_that_cannot_be_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = install(tmp_path, "edgetune.test_colours", "blue", "blue_one:BLUE", "import no_such_module_here\n")
    monkeypatch.syspath_prepend(str(site))
    with pytest.raises(ConfigError, match=r"the colour 'blue' of blue-one cannot be loaded .*no_such_module_here"):
        COLOURS.get("blue")


@pytest.mark.long
@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("BLUE = 1 / 0\n", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("BLUE = (\n", "SyntaxError: "),
        ("GREEN = 1\n", "AttributeError: "),
    ],
)
def test_a_member_that_fails_while_it_is_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, complaint: str
) -> None:
    site = install(tmp_path, "edgetune.test_colours", "blue", "blue_two:BLUE", code)
    monkeypatch.syspath_prepend(str(site))
    with pytest.raises(ConfigError, match=rf"the colour 'blue' of blue-two cannot be loaded \({complaint}"):
        COLOURS.get("blue")
    sys.modules.pop("blue_two", None)


def boards_list(checkout: Path, cwd: Path, without: str = "") -> subprocess.CompletedProcess[str]:
    """Run `edgetune boards list` in a new folder `checkout` that is edgetune's checkout and its install folder in one.

    Its metadata lack the line `without`.
    """
    root, others = Path(__file__).parents[2], checkout.parent / "others"
    for folder in (checkout, others):
        folder.mkdir()
    for name in ("edgetune", "pyproject.toml"):
        (checkout / name).symlink_to(root / name)
    for path in Path(np.__file__).parents[1].iterdir():
        if not path.name.startswith("edgetune-"):
            (others / path.name).symlink_to(path)
    place = checkout / "edgetune-0.1.0.dist-info"
    place.mkdir()
    for name in ("METADATA", "entry_points.txt"):
        lines = (distribution("edgetune").read_text(name) or "").splitlines()
        (place / name).write_text("\n".join(line for line in lines if not without or line != without) + "\n")
    return subprocess.run(
        # -S: without the folder where edgetune is installed for these tests
        [sys.executable, "-S", "-m", "edgetune", "boards", "list"],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": f"{checkout}{os.pathsep}{others}"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
def test_edgetunes_own_members_are_found_where_it_lies_in_the_working_folder(tmp_path: Path) -> None:
    done = boards_list(tmp_path / "here", tmp_path / "here")
    assert done.returncode == 0, done.stderr
    assert "rpi4" in done.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "member"),
    [
        ("machine = edgetune.boards.transports.machine:MACHINE", "transport 'machine'"),
        ("c-linux = edgetune.backends.c_linux:BACKEND", "backend 'c-linux'"),
    ],
)
def test_members_that_came_with_an_update_ask_for_an_installation(tmp_path: Path, line: str, member: str) -> None:
    """No target file is blamed, although it names the member."""
    here = tmp_path / "here"
    done = boards_list(here, tmp_path, without=line)
    sentence = f"edgetune was updated in {here}, but not installed again, so its {member} is unknown: run `pip install"
    assert sentence in done.stderr
    assert (done.returncode, "yaml" in done.stderr) == (ConfigError.exit_code, False)


def test_members_of_the_working_folder_are_left_out(red: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(red)
    assert COLOURS.names() == ()
    monkeypatch.setattr("edgetune.registry._HOME", red)  # nor where edgetune lies beside them
    assert COLOURS.names() == ()


@pytest.mark.long
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
