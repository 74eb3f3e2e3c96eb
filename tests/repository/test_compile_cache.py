"""Compilations of tests are kept by everything that they depend on, used again, and removed when they are too many."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests import compile_cache
from tests.compile_cache import bypass, compiled, prune

TEXT = "int f(void);\nint f(void) { return 1; }\n"
COMMAND = ("gcc", "-O1", "-c")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compile_cache._Place, "folder", tmp_path / "cache")
    (tmp_path / "work").mkdir()
    return tmp_path / "cache"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that were run since the test began."""
    commands: list[list[str]] = []
    run = subprocess.run

    def note(command: list[str], **how: object) -> object:
        commands.append(command)
        return run(command, **how)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "run", note)
    compile_cache._version("gcc")
    compile_cache._version("clang-19")
    commands.clear()
    return commands


def made(folder: Path, text: str = TEXT, command: tuple[str, ...] = COMMAND, **more: object) -> Path:
    return compiled(command, {"f.c": text}, folder / "work", suffix=".o", **more)  # type: ignore[arg-type]


def test_the_same_compilation_runs_once(tmp_path: Path, started: list[list[str]]) -> None:
    first = made(tmp_path)
    content = first.read_bytes()
    (tmp_path / "work/f.c").unlink()
    assert made(tmp_path) == first
    assert len(started) == 1
    assert first.read_bytes() == content
    assert (tmp_path / "work/f.c").read_text() == TEXT


@pytest.mark.parametrize(
    "how",
    [
        {"text": TEXT + "\n"},
        {"command": ("gcc", "-O2", "-c")},
        {"command": ("clang-19", "-O1", "-c")},
        {"libraries": ["-lm"]},
    ],
    ids=["text", "flags", "compiler", "libraries"],
)
def test_another_compilation_is_another_one(tmp_path: Path, how: dict[str, object]) -> None:
    first = made(tmp_path)
    assert made(tmp_path, **how) != first  # type: ignore[arg-type]


def test_another_version_of_the_compiler_compiles_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = made(tmp_path)
    monkeypatch.setattr(compile_cache, "_version", lambda compiler: f"{compiler} of tomorrow")
    assert made(tmp_path) != first


def test_a_failure_is_told_with_the_compilers_words_and_not_kept(tmp_path: Path, cache: Path) -> None:
    for _ in range(2):
        with pytest.raises(AssertionError, match=r"(?s)error: .*\bnonsense\b"):
            made(tmp_path, "nonsense")
    assert list(cache.glob("*.o")) == []


def test_a_process_may_keep_to_itself(
    tmp_path: Path, cache: Path, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path)
    monkeypatch.setattr(tempfile, "mkdtemp", lambda prefix: str(tmp_path / prefix))
    bypass()
    assert made(tmp_path) == made(tmp_path)
    assert len(started) == 2
    assert len(list(cache.glob("*.o"))) == 1
    assert len(list((tmp_path / "edgetune-compiled-").glob("*.o"))) == 1


def test_what_was_used_least_recently_goes_first(tmp_path: Path, cache: Path) -> None:
    files = [made(tmp_path, f"int f(void);\nint f(void) {{ return {number}; }}\n") for number in range(4)]
    for age, path in enumerate(files):
        os.utime(path, (1000 - age, 1000 - age))
    made(tmp_path, f"int f(void);\nint f(void) {{ return {3}; }}\n")  # used again: the newest now
    prune(2 * files[0].stat().st_size)
    assert set(cache.glob("*.o")) == {files[0], files[3]}
