"""Compiles C for tests and keeps the results in the user's cache folder: by text, command and compiler.

A result is used again within a run and in later ones; with `--no-compile-cache` within the process alone. What was used
least recently is removed at the end of a run, down to `LIMIT` bytes.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

LIMIT = 1 << 30
_HOME = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
FOLDER = Path(_HOME) / "edgetune" / "compiled-for-tests"
_SECONDS = 300


class CompileError(AssertionError):
    """The compiler failed: its words, and the first text. `said` is the words alone."""

    def __init__(self, said: str, text: str) -> None:
        super().__init__(f"{said[:4000]}\n{text}")
        self.said = said


class _Place:
    """Where results are kept."""

    folder = FOLDER


def bypass() -> None:
    """Use nothing that another process compiled, and keep nothing for another one."""
    _Place.folder = Path(tempfile.mkdtemp(prefix="edgetune-compiled-"))
    atexit.register(shutil.rmtree, _Place.folder, ignore_errors=True)


@cache
def _version(compiler: str) -> str:
    """Return what tells a compiler from another one: its file, when that was written, and its words about itself."""
    path = Path(shutil.which(compiler) or compiler).resolve()
    words = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    return f"{path} {path.stat().st_mtime_ns if path.exists() else 0} {words}"


def _key(command: Sequence[str], sources: Mapping[str, str], libraries: Sequence[str]) -> str:
    parts = [_version(command[0]), *command, *libraries]
    parts += [part for name in sources for part in (name, sources[name])]
    return hashlib.sha256("\0".join(f"{len(part)} {part}" for part in parts).encode()).hexdigest()


def compiled(
    command: Sequence[str], sources: Mapping[str, str], folder: Path, *, result: str, libraries: Sequence[str] = ()
) -> Path:
    """Return the file that `command` makes of `sources`, texts by the names of their files.

    The texts are written into `folder` in any case. The command gets their names, then `libraries`, `-o` and the
    result's name `result`. Its texts may include only each other and what comes with the compiler.

    Raises:
        CompileError: the compiler failed.
    """
    for name, text in sources.items():
        (folder / name).write_text(text, encoding="utf-8")
    kept = _Place.folder / f"{_key(command, sources, libraries)}{Path(result).suffix}"
    if _touched(kept):
        return kept
    made = _scratch() / f"{os.getpid()}-{result}"
    words = [*command, *(name for name in sources if name.endswith((".c", ".cpp"))), *libraries, "-o", str(made)]
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, errors="replace", check=False, timeout=_SECONDS
    )
    if done.returncode != 0:
        raise CompileError(done.stderr, next(iter(sources.values())))
    made.replace(kept)
    return kept


def _touched(kept: Path) -> bool:
    """Note that a kept file is used now; False where there is none, which another run may have removed just now."""
    try:
        os.utime(kept)
    except FileNotFoundError:
        return False
    return True


def _scratch() -> Path:
    """Return a folder beside the kept files, for those that are not whole yet."""
    place = _Place.folder / "unfinished"
    place.mkdir(parents=True, exist_ok=True)
    return place


def prune(limit: int = LIMIT) -> None:
    """Remove the files that were used least recently, until the rest has at most `limit` bytes."""
    found = []
    for path in _Place.folder.glob("*.*"):
        try:
            found.append((path.stat().st_mtime_ns, path.stat().st_size, path))
        except FileNotFoundError:  # another run prunes as well
            continue
    total = 0
    for _, size, path in sorted(found, reverse=True):
        total += size
        if total > limit:
            path.unlink(missing_ok=True)
