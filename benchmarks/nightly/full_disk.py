"""A disk that is full on command, for what programs of this machine write below one folder."""

from __future__ import annotations

import subprocess
from pathlib import Path

_SOURCE = """\
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int fsync(int file) {
  const char *mark = getenv("TEST_FULL_MARK"), *below = getenv("TEST_FULL_BELOW");
  char name[64], path[4096];
  snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  ssize_t size = readlink(name, path, sizeof path - 1);
  path[size > 0 ? size : 0] = 0;
  if (mark && below && !access(mark, F_OK) && !strncmp(path, below, strlen(below))) {
    errno = ENOSPC;
    return -1;
  }
  return (int)syscall(SYS_fsync, file);
}
"""


class FullDisk:
    """The disk of `below`, with files of its own in `folder`."""

    def __init__(self, folder: Path, below: Path) -> None:
        folder.mkdir()
        self._mark = folder / "full"
        self._library = folder / "full.so"
        self._below = below
        (folder / "full.c").write_text(_SOURCE)
        command = ["gcc", "-O2", "-fPIC", "-shared", "-o", str(self._library), str(folder / "full.c")]
        subprocess.run(command, check=True)

    def fill(self) -> None:
        """Be full from now on: data do not reach the disk."""
        self._mark.touch()

    def free(self) -> None:
        """Have space again."""
        self._mark.unlink()

    @property
    def environment(self) -> dict[str, str]:
        """What programs must be started with."""
        return {
            "LD_PRELOAD": str(self._library),
            "TEST_FULL_MARK": str(self._mark),
            "TEST_FULL_BELOW": str(self._below),
        }
