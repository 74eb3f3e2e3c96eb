"""Compiles for tests, and keeps the results in the user's cache folder by all that they depend on.

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

LIMIT = 1 << 30
_GIVEN = Path(os.environ.get("XDG_CACHE_HOME", ""))
FOLDER = (_GIVEN if _GIVEN.is_absolute() else Path.home() / ".cache") / "edgetune" / "compiled-for-tests"
# Environment variables that change what compilers find.
_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX")
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


def _version(compiler: str) -> str:
    """Return what tells a compiler from another one: its file, when that was written, and its words about itself."""
    path = Path(shutil.which(compiler) or compiler)
    return _words(str(path), path.stat().st_mtime_ns if path.exists() else 0)


def can_be_written() -> bool:
    """Return whether the folder of kept files can be made and written to."""
    try:
        _Place.folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(_Place.folder, os.W_OK | os.X_OK)


@cache
def _words(path: str, written_ns: int) -> str:
    said = subprocess.run([path, "-v"], capture_output=True, text=True, check=False)
    return f"{path} {written_ns} {said.stdout} {said.stderr}"


def kept(parts: Iterable[str | bytes], suffix: str, make: Callable[[Path], object]) -> Path:
    """Return the file that `make` writes at the path it is given: made once for `parts`, on which alone it depends."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode()
        digest.update(f"{len(data)} ".encode() + data)
    path = _Place.folder / f"{digest.hexdigest()}{suffix}"
    if not _touched(path):
        unfinished = _Place.folder / "unfinished"
        unfinished.mkdir(parents=True, exist_ok=True)
        made = unfinished / f"{os.getpid()}-{path.name}"
        make(made)
        made.replace(path)
    return path


def compiled(
    command: Sequence[str], sources: Mapping[str, str], folder: Path, *, suffix: str, libraries: Sequence[str] = ()
) -> Path:
    """Return the file that `command` makes of `sources`, texts by the names of their files.

    The texts are written into `folder` in any case. The command gets their names, then `libraries`, `-o` and a name
    that ends with `suffix`. The texts may include only each other and what comes with the compiler.

    Raises:
        CompileError: the compiler failed.
        subprocess.TimeoutExpired: it took more than 300 s.
    """
    for name, text in sources.items():
        (folder / name).write_text(text, encoding="utf-8")
    files = [name for name in sources if name.endswith((".c", ".cpp"))]

    def compile_to(path: Path) -> None:
        words = [*command, *files, *libraries, "-o", str(path)]
        done = subprocess.run(
            words, cwd=folder, capture_output=True, text=True, errors="replace", check=False, timeout=_SECONDS
        )
        if done.returncode != 0:
            raise CompileError(done.stderr, next(iter(sources.values())))

    texts = [part for name in sources for part in (name, sources[name])]
    variables = [os.environ.get(name, "") for name in _VARIABLES]
    parts = [_version(command[0]), *variables, str(len(command)), *command, str(len(libraries)), *libraries, *texts]
    return kept(parts, suffix, compile_to)


def _touched(path: Path) -> bool:
    """Note that a kept file is used now; False where there is none, which another run may have removed just now."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def prune(limit: int = LIMIT) -> None:
    """Remove the files that were used least recently, until the rest has at most `limit` bytes.

    Files that no process has finished count as well.
    """
    found = []
    for path in [*_Place.folder.glob("*.*"), *_Place.folder.glob("unfinished/*")]:
        try:
            found.append((path.stat().st_mtime_ns, path.stat().st_size, path))
        except FileNotFoundError:  # another run prunes as well
            continue
    total = 0
    for _, size, path in sorted(found, reverse=True):
        total += size
        if total > limit:
            path.unlink(missing_ok=True)
