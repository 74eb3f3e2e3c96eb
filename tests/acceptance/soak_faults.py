"""What happens to boards in a soak, at random times: faults of the link, the machine, its disk and its users."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.boards.ssh_server import SshBoard

Fault = Callable[[SshBoard, float], None]
_SETTLE_S = 0.05
_PATIENCE_S = 30.0
_ASKED_S = 10.0
_HOURS_S = 3 * 3600
_DAY_S = 24 * 3600


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
    """Somebody else takes the board while it is away, and keeps it until our agent has requested it, and longer."""
    with socket.socket(socket.AF_UNIX) as lock:
        board.link.refuse()
        try:
            board.kill_programs()
            _bind(lock, f"\0edgetune-{board.mark}")
        finally:
            board.link.accept_again()
        lock.settimeout(_ASKED_S)
        with suppress(TimeoutError), lock.accept()[0]:
            time.sleep(seconds)


def _bind(lock: socket.socket, name: str) -> None:
    limit = time.monotonic() + _ASKED_S
    while True:
        try:
            lock.bind(name)
        except OSError:  # the agent that was killed has it for a moment more
            if time.monotonic() > limit:
                raise
            time.sleep(0.01)
        else:
            lock.listen(8)
            return


def _disk_full(board: SshBoard, seconds: float) -> None:
    """The disk is full when our programs have to be brought again, for they were lost."""
    with _set(board, disk_bytes=0):
        board.kill_programs()
        for folder in board.folders:
            for path in Path(folder).iterdir():
                shutil.rmtree(path, ignore_errors=True)
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


def _clock(board: SshBoard, seconds: float) -> None:
    """The board's clock jumps by hours under an agent at work, and by a day back after another one had to start."""
    assert board.clock is not None
    board.clock.jump(_HOURS_S)
    time.sleep(seconds / 2)
    board.kill_programs()
    time.sleep(seconds / 2)
    board.clock.jump(-_DAY_S)


FAULTS: dict[str, Fault] = {
    "link drops": _drop,
    "link freezes": _freeze,
    "port refuses": _refuse,
    "board reboots": _reboot,
    "agent killed": _kill,
    "programs stopped": _stop_programs,
    "second user": _second_user,
    "login refused": _while_set(kill=True, refuse_login=True),
    "disk full": _disk_full,
    "noexec": _while_set(kill=True, noexec=["shm"]),
    "no SFTP": _while_set(kill=True, sftp=False),
    "rubbish first": _while_set(kill=True, noise=b"Welcome!\nYou have mail.\n"),
    "commands hang": _while_set(kill=True, hang_commands=True),
    "no channels": _while_set(kill=True, refuse_channels=True),
    "output ends early": _while_set(kill=True, half_close_after=700),
    "dies in the answer": _while_set(kill=True, kill_after=500),
    "answer cut": _cut_answer,
    "link slow": _slow,
    "clock jumps": _clock,
}
COSTLY = frozenset(FAULTS) - {"link freezes", "link slow"}
"""Faults after which an agent is gone: its board must say so."""
SAID = {"second user": "locked"}
"""What a board must report under some faults besides its loss."""


@dataclass(frozen=True)
class Deed:
    """A fault that was done: its kind, the board's name, and when (seconds of the monotonic clock)."""

    kind: str
    board: str
    began: float
    ended: float


def do(kind: str, name: str, board: SshBoard, seconds: float) -> Deed:
    """Do one fault."""
    began = time.monotonic()
    FAULTS[kind](board, seconds)
    return Deed(kind, name, began, time.monotonic())


class Mischief:
    """Does `count` faults to `boards`, one at a time per board, until done or stopped; `deeds` lists them.

    `progress` grows with every candidate: the next fault of a board waits for it, so that faults meet work.
    """

    def __init__(
        self, boards: dict[str, SshBoard], count: int, seed: int, pause_s: float, progress: Callable[[], int]
    ) -> None:
        self.deeds: list[Deed] = []
        self.finished = threading.Event()
        self._stop = threading.Event()
        self._left = count
        self._lock = threading.Lock()
        self._pause_s = pause_s
        self._progress = progress
        self._threads = [
            threading.Thread(target=self._torment, args=(name, board, random.Random(f"{seed} {name}")), daemon=True)  # noqa: S311
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

    @property
    def done(self) -> Counter[str]:
        """How many faults of each kind were done."""
        return Counter(deed.kind for deed in self.deeds)

    def _torment(self, name: str, board: SshBoard, dice: random.Random) -> None:
        while not self._stop.wait(dice.expovariate(1 / self._pause_s) + _SETTLE_S):
            with self._lock:
                if self._left == 0:
                    self.finished.set()
                    return
                self._left -= 1
            deed = do(dice.choice(sorted(FAULTS)), name, board, dice.uniform(0.2, 4.0))
            with self._lock:
                self.deeds.append(deed)
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
  for (;;) { volatile char *more = malloc(1 << 26); *more = 1; } /* one page: filling 2 GB may outlast a deadline */
#elif SOAK_KIND == 3
  memset((char *)buffers[0] - 64, 1, 64);
#else
  for (int d = 0; d < 64; ++d) if (write(d, "ETA1rubbish", 11) < 0) { }
  exit(0);
#endif
  (void)buffers;
}
"""


KINDS = ("crashes", "hangs", "exhausts memory", "writes out of bounds", "prints rubbish")
"""What candidates do, by SOAK_KIND."""


def hostile_compiler(folder: Path, every: int) -> Path:
    """A compiler in whose hands about one candidate of `every` goes wrong; what ships is compiled as ever."""
    dice = "$(printf '%s' \"$*\" | cksum | cut -d' ' -f1)"
    return _compiler(folder, f"dice={dice}", f"$((dice % {every} ? -1 : dice / {every} % {len(KINDS)}))")


def hostile_from(folder: Path, first: int) -> Path:
    """A compiler in whose hands the candidates number `first` and following go wrong, one in each of our ways."""
    count = f"exec 9>>'{folder}/lock'; flock 9; echo >>'{folder}/built'; dice=$(wc -l <'{folder}/built'); exec 9>&-"
    return _compiler(folder, count, f"$((dice < {first} || dice >= {first + len(KINDS)} ? -1 : dice - {first}))")


def _compiler(folder: Path, before: str, kind: str) -> Path:
    """A compiler of candidates that go wrong as `kind` says, a word of shell (-1: they do not)."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hostile.c").write_text(HOSTILE)
    compiler = folder / "soak-cc"
    compiler.write_text(
        f"""#!/bin/sh
case "$*" in *shim.c*) ;; *) exec gcc "$@";; esac
{before}
kind={kind}
if [ $kind -lt 0 ]; then exec gcc "$@"; fi
for word; do
    shift
    case "$word" in *shim.c) word='{folder}/hostile.c';; esac
    set -- "$@" "$word"
done
exec gcc -DSOAK_KIND=$kind "$@"
"""
    )
    compiler.chmod(0o755)
    return compiler
