"""Flavours of a package: which files they add, and which they may not."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from edgetune.errors import ConfigError
from edgetune.package.facts import PackageFacts
from edgetune.package.flavour import Flavour
from edgetune.package.flavours.cmake import CMAKE
from edgetune.package.flavours.make import MAKE
from edgetune.package.package_file import PackageFile
from tests import package_sample as sample
from tests.package.test_build import make


class Scripted:
    """A flavour that writes the given files."""

    name = "scripted"

    def __init__(self, *paths: str) -> None:
        self.paths = paths

    def files(self, facts: PackageFacts) -> Iterable[PackageFile]:
        listed = "\n".join((*facts.sources(), *facts.test_assembly()))
        return [PackageFile(path, listed.encode()) for path in self.paths]


def emit(folder: Path, monkeypatch: pytest.MonkeyPatch, *flavours: Flavour, **options: Any) -> Path:
    monkeypatch.setattr(sample, "FLAVOURS", flavours)
    sample.emit(folder, measure=False, **options)
    return folder


def test_a_package_without_cmake_says_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = emit(tmp_path / "p", monkeypatch, MAKE)
    assert not (package / "CMakeLists.txt").exists()
    texts = [path.read_text(encoding="utf-8") for path in package.rglob("*") if path.is_file()]
    assert not any("cmake" in text.lower() for text in texts)


def test_make_all_is_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = emit(tmp_path / "p", monkeypatch, MAKE)
    make(package, "all")
    library = (package / "lib/libtiny.a").read_bytes()
    make(package, "clean")
    assert not (package / "lib/libtiny.a").exists()
    make(package)
    assert (package / "lib/libtiny.a").read_bytes() == library


@pytest.mark.parametrize("weights", ["text", "binary", "external"])
def test_a_flavour_is_told_what_to_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: str) -> None:
    package = emit(tmp_path / "p", monkeypatch, MAKE, Scripted("tools/list.txt"), weights=weights)
    listed = (package / "tools/list.txt").read_text(encoding="ascii").split()
    compiled = [path.name for folder in ("src", "test") for path in (package / folder).glob("*.[cS]")]
    assert sorted(listed) == sorted(set(compiled) - {"tiny_selftest.c", "tiny_bench.c"})


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("README.md", "every package has"),
        ("REPORT.md", "every package has"),
        ("MANIFEST.json", "every package has"),
        ("CMakeLists.txt", "flavour 'cmake' writes too"),
    ],
)
def test_a_flavour_that_writes_a_file_of_others_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, owner: str
) -> None:
    with pytest.raises(ConfigError, match=rf"^flavour 'scripted' writes {path}, which {owner}: leave one of them out$"):
        emit(tmp_path / "p", monkeypatch, MAKE, CMAKE, Scripted(path))
    assert not (tmp_path / "p").exists()
