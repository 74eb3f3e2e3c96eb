"""Compiler diagnostics: reduces the output of a compiler or make to the one line that matters."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from edgetune.errors import CompileFailed, DiskFull, EdgetuneError, MemoryLimitExceeded, ToolchainMissing
from edgetune.target.libc import lacks_libc, libc_package
from edgetune.target.toolchain import install_command, lacks_program

_NO_SPACE = os.strerror(errno.ENOSPC)
_NO_ROOM_TO_MAP = "[Bus error]"  # how a linker dies that writes to a mapped file on a full disk
_NOTHING_FREE = 1 << 20
# As the linker says it, and our linker script.
_NO_ROOM_ON_BOARD = re.compile(
    r"\bregion `\w+' overflowed by \d+ bytes|\bwill not fit in region `\w+'|\bmore than is left in region \w+"
)


def compile_failure(cc: str, what: str, output: str, folder: Path, flags: Sequence[str] = ()) -> EdgetuneError:
    """Return the error for a compiler that failed at `what` in `folder` and printed `output`.

    DiskFull where the disk is full, ToolchainMissing where its C library is not installed or a program that it starts
    is not on PATH, MemoryLimitExceeded where the linker finds no room in the memory of the board, else CompileFailed
    with the first diagnostic.
    """
    full = _NO_ROOM_TO_MAP in output and shutil.disk_usage(folder).free < _NOTHING_FREE
    if full or _NO_SPACE in output:
        return DiskFull(f"no space is left in {folder} for {what}: free some, or set TMPDIR to a folder that has more")
    if lacks_libc(output):
        install = install_command(libc_package(cc, flags))
        return ToolchainMissing(f"{cc} has no C library ({first_diagnostic(output)}): {install}")
    if advice := lacks_program(output):
        return ToolchainMissing(f"{cc} could not build {what} ({first_diagnostic(output)}): {advice}")
    if _NO_ROOM_ON_BOARD.search(output):
        return MemoryLimitExceeded(f"{what} does not fit the memory_map of the board: {first_diagnostic(output)}")
    return CompileFailed(f"{cc} could not build {what}: {first_diagnostic(output)}")


_SUMMARY = re.compile(r"(collect2|\S*make(\[\d+\])?): ")  # says that a step failed, after the step has said why
_LINKER = re.compile(r"^\S*/(?=[\w.-]*ld(\.\w+)?: )")  # the folder of a linker, many times as long as what it says


def first_diagnostic(output: str) -> str:
    """Return the first line that names an error, else the last line that is not empty.

    Lines in which `collect2` or `make` sum up what failed count only where there are no others.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    lines = [line for line in lines if not _SUMMARY.match(line)] or lines
    named = r"\b(fatal error|error|undefined reference|overflowed by \d+ bytes|Error \d+)\b"
    found = next((line for line in lines if re.search(named, line)), lines[-1] if lines else "it printed nothing")
    return _LINKER.sub("", found)[:300]
