"""A compiler that hangs: a wrapper stands before the real one on PATH and waits in a child, for a given time."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.survivors import living

TOOL = "aarch64-linux-gnu-gcc"
_WRAPPER = """#!/bin/sh
if [ -e {hangs} ]; then
  case "$*" in $(cat {hangs})) sleep {seconds} ; exit 1 ;; esac
fi
exec {real} "$@"
"""


class HangingTool:
    """The compiler of counting boards; `environment` is that of hosts that get it."""

    def __init__(self, folder: Path) -> None:
        self._hangs = folder / "hangs"
        self._seconds = f"{300000 + os.getpid()}.{abs(hash(folder)) % 10**6}"
        wrapper = folder / "bin" / TOOL
        wrapper.parent.mkdir(parents=True)
        real = shutil.which(TOOL)
        wrapper.write_text(_WRAPPER.format(hangs=self._hangs, seconds=self._seconds, real=real))
        wrapper.chmod(0o755)
        self.environment = {"PATH": f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}"}

    def hang(self, words: str = "*") -> None:
        """Hang from now on where the words of a command match this pattern of the shell."""
        self._hangs.write_text(words)

    def mend(self) -> None:
        """Compile from now on."""
        self._hangs.unlink()

    def left(self) -> list[int]:
        """Processes in which it waits now."""
        return living(f"sleep\0{self._seconds}")
