"""Images of emulated boards: what is in them, when they are made again, and what is said when they cannot be made."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from edgetune.boards.machine import packages as packages_module
from edgetune.boards.machine import recipe as recipe_module
from edgetune.boards.machine.archive import FileSystem
from edgetune.boards.machine.image import find_image, setup
from edgetune.boards.machine.packages import Mirror, system_mirrors
from edgetune.boards.machine.recipe import Recipe, load_recipe, recipe_files, recipe_folder
from edgetune.errors import BoardUnavailable, ConfigError, DiskFull, EdgetuneError, OutputRefused, ToolchainMissing
from edgetune.events import Event
from edgetune.resources import cache_dir, deploy_dir
from edgetune.target.target import Target, load_target

Contents = dict[str, tuple[int, int, bytes]]
_FIELDS = 13


@pytest.fixture
def target() -> Target:
    return load_target("qemu-rpi4")


@pytest.fixture
def recipe(target: Target) -> Recipe:
    return load_recipe(recipe_folder(target))


def unpacked(archive: bytes) -> Contents:
    """Read a cpio archive: mode, owner and content by path."""
    found: Contents = {}
    at = 0
    while True:
        fields = [int(archive[at + 6 + 8 * field : at + 14 + 8 * field], 16) for field in range(_FIELDS)]
        mode, owner, size, name_size = fields[1], fields[2], fields[6], fields[11]
        name = archive[at + 110 : at + 110 + name_size - 1].decode()
        at = -(-(at + 110 + name_size) // 4) * 4
        if name == "TRAILER!!!":
            return found
        found[name] = (mode, owner, archive[at : at + size])
        at = -(-(at + size) // 4) * 4


def written(system: FileSystem) -> bytes:
    file = BytesIO()
    system.write(file)
    return file.getvalue()


def package(folder: Path, files: dict[str, bytes]) -> Path:
    """Make a Debian package, as Debian does."""
    tree = folder / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN" / "control").write_text(
        "Package: sample\nVersion: 1\nArchitecture: arm64\nMaintainer: nobody <nobody@localhost>\nDescription: sample\n"
    )
    for name, content in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(content)
    (tree / "bin" / "tool").chmod(0o4755)
    (tree / "lib" / "alias.so").symlink_to("real.so")
    made = folder / "sample.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, made], check=True, capture_output=True)
    return made


def test_archive_holds_a_package_as_debian_installs_it(recipe: Recipe, tmp_path: Path) -> None:
    files = {"bin/tool": b"program", "lib/real.so": b"library" * 3, "usr/share/doc/sample/copyright": b"long"}
    made = package(tmp_path, files)
    archives = []
    for _ in range(2):
        system = FileSystem(recipe)
        system.add_package(made)
        system.add_file("etc/start", b"#!/bin/sh\n")
        system.add_file("etc/key", b"secret", secret=True)
        archives.append(written(system))
    assert archives[0] == archives[1]
    found = unpacked(archives[0])
    assert found["usr/bin/tool"] == (stat.S_IFREG | 0o4755, 0, b"program")
    assert found["usr/lib/alias.so"][2] == b"real.so"
    assert found["usr/lib/real.so"][2] == b"library" * 3
    assert found["bin"] == (stat.S_IFLNK | 0o777, 0, b"usr/bin")
    assert found["etc/start"][0] & 0o777 == 0o755
    assert found["etc/key"][0] & 0o777 == 0o600
    assert found["."][0] == stat.S_IFDIR | 0o755
    assert not [path for path in found if "copyright" in path]
    assert list(found) == sorted(found, key=lambda path: path), "folders come before what is in them"


def test_damaged_package_is_named(recipe: Recipe, tmp_path: Path) -> None:
    made = package(tmp_path, {"bin/tool": b"program" * 1000, "lib/real.so": b""})
    made.write_bytes(made.read_bytes()[:-200])
    with pytest.raises(BoardUnavailable, match=r"sample\.deb is damaged: remove the file"):
        FileSystem(recipe).add_package(made)


@pytest.mark.long
def test_image_is_made_once_and_again_when_its_recipe_changes(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup(target)  # what it downloads is used below
    cache = tmp_path / "machines"
    shutil.copytree(cache_dir() / "machines" / target.name / "apt", cache / target.name / "apt")
    shutil.copytree(cache_dir() / "machines" / target.name / "packages", cache / target.name / "packages")
    deploy = tmp_path / "deploy"
    shutil.copytree(deploy_dir(), deploy)
    monkeypatch.setattr(recipe_module, "deploy_dir", lambda: deploy)
    recipe = deploy / target.name / "recipe.yaml"
    recipe.write_text(
        re.sub(r"^packages:\n(  - .*\n)+", "packages: [busybox-static]\n", recipe.read_text(), flags=re.MULTILINE)
    )
    with pytest.raises(BoardUnavailable, match="`edgetune boards setup qemu-rpi4`"):
        find_image(target, cache)

    events: list[Event] = []
    (cache / target.name / ".image-left").mkdir()
    first = setup(target, events.append, cache)
    assert next(event.data["name"] for event in events if "seconds" in event.data) == "looking up package versions"
    assert find_image(target, cache) == first
    events.clear()
    assert setup(target, events.append, cache) == first
    assert not events, "nothing is left to do"

    (deploy / target.name / "root" / "etc" / "hosts").write_text("127.0.0.1 localhost\n")
    second = setup(target, events.append, cache)
    assert second.folder != first.folder
    assert second.host_public == first.host_public
    assert unpacked(second.file_system.read_bytes())["etc/hosts"][2] == b"127.0.0.1 localhost\n"
    assert sorted(path.name for path in (cache / target.name).iterdir()) == [
        *("apt", second.folder.name, "keys", "lock", "packages")
    ]
    private = [second.folder, second.client_key.parent]
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in second.client_key.parent.iterdir()} == {0o600}

    (second.folder / "stamp.json").write_text("{")
    with pytest.raises(BoardUnavailable, match="has no image yet"):
        find_image(target, cache)


def test_recipe_files_are_found_beside_it(target: Target) -> None:
    files = recipe_files(recipe_folder(target))
    assert {"etc/inittab", "etc/board/start", "etc/ssh/sshd_config"} <= set(files)


@pytest.mark.long
def test_mirrors_are_those_of_this_system() -> None:
    mirrors = system_mirrors("bookworm")
    assert mirrors
    assert all("://" in mirror.uri or mirror.uri.startswith(("mirror", "file:")) for mirror in mirrors)
    assert any("-" not in mirror.suite for mirror in mirrors)


def test_mirrors_elsewhere_are_debians_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages_module, "_os_release", lambda: {"ID": "ubuntu", "VERSION_CODENAME": "noble"})
    assert [mirror.suite for mirror in system_mirrors("bookworm")] == ["bookworm", "bookworm-security"]


def _no_apt(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("PATH", str(folder))


def _no_mirror(monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    monkeypatch.setattr(packages_module, "system_mirrors", lambda _: [Mirror("http://127.0.0.1:9/debian", "bookworm")])


def _no_space(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    usage = type(shutil.disk_usage(folder))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 9, 1))


def _no_folder(_: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "machines").write_text("a file")


def _no_sense(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    recipe = folder / "deploy" / "qemu-rpi4" / "recipe.yaml"
    recipe.parent.mkdir(parents=True)
    recipe.write_text("suite: bookworm\npackage: [bash]\n")
    monkeypatch.setattr(recipe_module, "deploy_dir", lambda: folder / "deploy")


@pytest.mark.parametrize(
    ("break_it", "error", "sentence"),
    [
        (_no_apt, ToolchainMissing, "apt-get is not on PATH: images of emulated boards are made from Debian packages"),
        (_no_mirror, BoardUnavailable, r"`apt-get update` failed \(.*127\.0\.0\.1:9.*\): run this again"),
        (_no_space, DiskFull, "free some, or set XDG_CACHE_HOME"),
        (_no_folder, OutputRefused, "machines/qemu-rpi4 cannot be written .*: set XDG_CACHE_HOME"),
        (_no_sense, ConfigError, r"recipe\.yaml, line 2: unknown key 'package': did you mean 'packages'\?"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    break_it: Callable[[pytest.MonkeyPatch, Path], None],
    error: type[EdgetuneError],
    sentence: str,
    target: Target,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    break_it(monkeypatch, tmp_path)
    with pytest.raises(error, match=sentence) as raised:
        setup(target, cache=tmp_path / "machines")
    assert "\n" not in raised.value.message
    assert len(raised.value.message) < 400


def test_board_that_is_no_machine_is_refused() -> None:
    with pytest.raises(BoardUnavailable, match="board 'rpi4' is not an emulated machine"):
        setup(load_target("rpi4"))
