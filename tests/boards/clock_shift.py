"""A wall clock that jumps on command, for programs of this machine that are started with `Clock.environment`."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

# Only the wall clock: what counts time from the start of the machine never jumps on real ones either.
SOURCE = """\
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static const volatile long long *shift;
__attribute__((constructor)) static void find(void) {
  const char *path = getenv("TEST_CLOCK_SHIFT");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *place = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
  if (place != MAP_FAILED) shift = place;
  close(file);
}
int clock_gettime(clockid_t id, struct timespec *t) {
  int status = (int)syscall(SYS_clock_gettime, id, t);
  if (!status && shift && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) t->tv_sec += *shift;
  return status;
}
int gettimeofday(struct timeval *restrict t, void *restrict zone) {
  int status = (int)syscall(SYS_gettimeofday, t, zone);
  if (!status && shift && t) t->tv_sec += *shift;
  return status;
}
time_t time(time_t *place) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  if (place) *place = t.tv_sec;
  return t.tv_sec;
}
"""


class Clock:
    """A clock of its own, in files of `folder`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._shift = folder / "clock"
        self._library = folder / "clock.so"
        self._shift.write_bytes(struct.pack("q", 0))
        (folder / "clock.c").write_text(SOURCE)
        command = ["gcc", "-O2", "-fPIC", "-shared", "-o", str(self._library), str(folder / "clock.c")]
        subprocess.run(command, check=True)

    def jump(self, seconds: int) -> None:
        """Be `seconds` ahead of the machine's clock from now on, for programs that run already as well."""
        with self._shift.open("r+b") as stream:
            stream.write(struct.pack("q", seconds))

    @property
    def environment(self) -> dict[str, str]:
        """What programs must be started with."""
        return {"LD_PRELOAD": str(self._library), "TEST_CLOCK_SHIFT": str(self._shift)}
