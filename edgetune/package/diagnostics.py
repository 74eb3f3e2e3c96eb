"""Compiler diagnostics: reduces the output of a compiler or make to the one line that matters."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from edgetune.errors import CompileFailed, DiskFull, EdgetuneError, ToolchainMissing
from edgetune.target.libc import lacks_libc, libc_package
from edgetune.target.toolchain import install_command

_NO_SPACE = os.strerror(errno.ENOSPC)
_NO_ROOM_TO_MAP = "[Bus error]"  # how a linker dies that writes to a mapped file on a full disk
_NOTHING_FREE = 1 << 20


def compile_failure(cc: str, what: str, output: str, folder: Path, flags: Sequence[str] = ()) -> EdgetuneError:
    """Return the error for a compiler that failed at `what` in `folder` and printed `output`.

    DiskFull where the disk is full, ToolchainMissing where its C library is not installed, else CompileFailed with
    the first diagnostic.
    """
    full = _NO_ROOM_TO_MAP in output and shutil.disk_usage(folder).free < _NOTHING_FREE
    if full or _NO_SPACE in output:
        return DiskFull(f"no space is left in {folder} for {what}: free some, or set TMPDIR to a folder that has more")
    if lacks_libc(output):
        install = install_command(libc_package(cc, flags))
        return ToolchainMissing(f"{cc} has no C library ({first_diagnostic(output)}): {install}")
    return CompileFailed(f"{cc} could not build {what}: {first_diagnostic(output)}")


def first_diagnostic(output: str) -> str:
    """Return the first line that names an error, else the last line that is not empty."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for line in lines:
        if re.search(r"\b(fatal error|error|undefined reference|Error \d+)\b", line):
            return line[:300]
    return lines[-1][:300] if lines else "it printed nothing"
