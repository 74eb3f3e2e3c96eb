"""Programs for boards and for the emulators that stand in for them, compiled once per content into the user's cache."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetune.errors import DiskFull, EdgetuneError, ToolchainMissing
from edgetune.resources import cache_dir
from edgetune.target.libc import lacks_libc, libc_package
from edgetune.target.target import Target
from edgetune.target.tool_process import run_tool
from edgetune.target.toolchain import install_command

WARNINGS = ("-std=gnu11", "-Wall", "-Wextra", "-Wconversion", "-Wshadow")
PLUGIN = ("-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-s")
"""Flags of a plugin of QEMU, after those of `WARNINGS`."""

_NO_SPACE = os.strerror(errno.ENOSPC)
_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class CompiledProgram:
    """A program, `what` in sentences, as the file `name`: `cc` gets `flags`, `sources` and `link`, in this order.

    `headers` decide its content as well. `target` is that of the board that runs it (None: this machine does).
    """

    name: str
    what: str
    cc: str
    flags: Sequence[str]
    sources: Sequence[Path]
    headers: Sequence[Path] = ()
    link: Sequence[str] = ()
    target: Target | None = None


def compiled_once(program: CompiledProgram, folder_name: str, cache: Path | None = None) -> Path:
    """Return the file of `program` in the folder `folder_name` of `cache`, compiled unless it is there.

    `cache` is by default the user's own.

    Raises ToolchainMissing where its compiler is missing or cannot compile it, DiskFull, and EdgetuneError where the
    cache cannot be written.
    """
    key = hashlib.sha256()
    for word in (program.cc, _version(program), *program.flags, *program.link):
        key.update(word.encode() + b"\0")
    for path in sorted({*program.sources, *program.headers}):
        key.update(path.name.encode() + b"\0" + path.read_bytes())
    folder = (cache or cache_dir()) / folder_name
    done = folder / f"{key.hexdigest()[:24]}-{program.name}"
    if done.is_file():
        return done
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as beside:
            made = Path(beside, program.name)
            command = [program.cc, *program.flags, "-o", str(made), *map(str, program.sources), *program.link]
            _compile(command, program.what)
            made.chmod(0o755)
            made.replace(done)
    except OSError as error:
        raise EdgetuneError(
            f"the cache folder {folder} cannot be written ({error.strerror}): set XDG_CACHE_HOME to a writable folder"
        ) from error
    return done


def _compile(command: list[str], what: str) -> None:
    done = run_tool(command, timeout_s=_TIMEOUT_S)
    if done.returncode != 0:
        said = done.stderr.strip()
        if _NO_SPACE in said:
            raise DiskFull(f"no space is left to build {what}: free some, or set XDG_CACHE_HOME to another folder")
        install = f": {install_command(libc_package(command[0], command))}" if lacks_libc(said) else ""
        raise ToolchainMissing(f"{command[0]} cannot compile {what} ({said[:500]}){install}")


def _version(program: CompiledProgram) -> str:
    target = program.target
    try:
        done = run_tool([program.cc, "--version"], timeout_s=_TIMEOUT_S, check=True)
    except FileNotFoundError as error:
        package = target.compiler.package if target and target.compiler.package else "gcc libc6-dev"
        board = f" (the C compiler of board '{target.name}')" if target else ""
        raise ToolchainMissing(f"{program.cc}{board} is not on PATH: sudo apt-get install {package}") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolchainMissing(f"{program.cc} does not print its version: {error}") from error
    return done.stdout
