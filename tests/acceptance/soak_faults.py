"""What happens to boards in a soak, at random times: faults of the link, the machine, its disk and its users."""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.boards.ssh_server import SshBoard

Fault = Callable[[SshBoard, float], None]
_SETTLE_S = 0.05
_PATIENCE_S = 30.0


def _drop(board: SshBoard, _: float) -> None:
    board.link.drop()


def _freeze(board: SshBoard, seconds: float) -> None:
    board.link.freeze()
    time.sleep(seconds)
    board.link.thaw()


def _refuse(board: SshBoard, seconds: float) -> None:
    board.link.refuse()
    time.sleep(seconds)
    board.link.accept_again()


def _reboot(board: SshBoard, seconds: float) -> None:
    board.reboot(seconds)


def _kill(board: SshBoard, _: float) -> None:
    board.kill_programs()


def _stop_programs(board: SshBoard, _: float) -> None:
    """Programs are stopped, and stay so."""
    for pid in board.processes():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)


def _second_user(board: SshBoard, seconds: float) -> None:
    """Somebody else takes the board while our agent is gone, as far as he is faster."""
    board.kill_programs()
    with socket.socket(socket.AF_UNIX) as lock, suppress(OSError):
        lock.bind(f"\0edgetune-{board.mark}")
        lock.listen(1)
        time.sleep(seconds)


@contextmanager
def _set(board: SshBoard, **values: object) -> Iterator[None]:
    before = {name: getattr(board.faults, name) for name in values}
    for name, value in values.items():
        setattr(board.faults, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(board.faults, name, value)


def _while_set(*, kill: bool, **values: object) -> Fault:
    """Faults that a running agent does not notice; with `kill` it has to start again under them."""

    def fault(board: SshBoard, seconds: float) -> None:
        with _set(board, **values):
            if kill:
                board.kill_programs()
            time.sleep(seconds)

    return fault


def _slow(board: SshBoard, seconds: float) -> None:
    board.link.bytes_per_s = 50_000
    time.sleep(seconds)
    board.link.bytes_per_s = None


def _cut_answer(board: SshBoard, seconds: float) -> None:
    board.link.drop_after = 2000
    board.kill_programs()
    time.sleep(seconds)
    board.link.drop_after = None


FAULTS: dict[str, Fault] = {
    "link drops": _drop,
    "link freezes": _freeze,
    "port refuses": _refuse,
    "board reboots": _reboot,
    "agent killed": _kill,
    "programs stopped": _stop_programs,
    "second user": _second_user,
    "login refused": _while_set(kill=True, refuse_login=True),
    "disk full": _while_set(kill=True, disk_bytes=0),
    "noexec": _while_set(kill=True, noexec=["shm"]),
    "no SFTP": _while_set(kill=True, sftp=False),
    "rubbish first": _while_set(kill=True, noise=b"Welcome!\nYou have mail.\n"),
    "commands hang": _while_set(kill=True, hang_commands=True),
    "no channels": _while_set(kill=True, refuse_channels=True),
    "output ends early": _while_set(kill=True, half_close_after=700),
    "dies in the answer": _while_set(kill=True, kill_after=500),
    "answer cut": _cut_answer,
    "link slow": _slow,
}


class Mischief:
    """Does `count` faults to `boards`, one at a time per board, until done or stopped; `done` counts them by kind.

    `progress` grows with every candidate: the next fault of a board waits for it, so that faults meet work.
    """

    def __init__(
        self, boards: dict[str, SshBoard], count: int, seed: int, pause_s: float, progress: Callable[[], int]
    ) -> None:
        self.done: Counter[str] = Counter()
        self.finished = threading.Event()
        self._stop = threading.Event()
        self._left = count
        self._lock = threading.Lock()
        self._pause_s = pause_s
        self._progress = progress
        self._threads = [
            threading.Thread(target=self._torment, args=(board, random.Random(f"{seed} {name}")), daemon=True)  # noqa: S311
            for name, board in boards.items()
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End after the faults that are under way."""
        self._stop.set()
        for thread in self._threads:
            thread.join(60.0)

    def _torment(self, board: SshBoard, dice: random.Random) -> None:
        while not self._stop.wait(dice.expovariate(1 / self._pause_s) + _SETTLE_S):
            with self._lock:
                if self._left == 0:
                    self.finished.set()
                    return
                self._left -= 1
            name = dice.choice(sorted(FAULTS))
            FAULTS[name](board, dice.uniform(0.2, 4.0))
            with self._lock:
                self.done[name] += 1
            before, patience = self._progress(), time.monotonic() + _PATIENCE_S
            while self._progress() <= before and time.monotonic() < patience and not self._stop.wait(_SETTLE_S):
                pass


HOSTILE = """\
/* A candidate gone wrong: what it does depends on SOAK_KIND. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
void edgetune_call(void *const *buffers);
void edgetune_call(void *const *buffers) {
#if SOAK_KIND == 0
  *(volatile int *)8 = 1;
#elif SOAK_KIND == 1
  for (volatile int i = 1; i;) { }
#elif SOAK_KIND == 2
  for (;;) { char *more = malloc(1 << 20); if (more) memset(more, 1, 1 << 20); }
#elif SOAK_KIND == 3
  memset((char *)buffers[0] - 64, 1, 64);
#else
  for (int d = 0; d < 64; ++d) if (write(d, "ETA1rubbish", 11) < 0) { }
  exit(0);
#endif
  (void)buffers;
}
"""


def hostile_compiler(folder: Path, every: int) -> Path:
    """A compiler in whose hands about one candidate of `every` goes wrong; what ships is compiled as ever."""
    (folder / "hostile.c").write_text(HOSTILE)
    compiler = folder / "soak-cc"
    compiler.write_text(
        f"""#!/bin/sh
case "$*" in *shim.c*) ;; *) exec gcc "$@";; esac
dice=$(printf '%s' "$*" | cksum | cut -d' ' -f1)
if [ $((dice % {every})) -ne 0 ]; then exec gcc "$@"; fi
for word; do
    shift
    case "$word" in *shim.c) word='{folder}/hostile.c';; esac
    set -- "$@" "$word"
done
exec gcc -DSOAK_KIND=$((dice / {every} % 5)) "$@"
"""
    )
    compiler.chmod(0o755)
    return compiler
