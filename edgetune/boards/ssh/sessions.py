"""Session folders on a board: each has its owner's name in it, so that those of dead sessions can be removed."""

from __future__ import annotations

import os
import secrets
import shlex
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path

from edgetune.boards.reach import ENDING

PREFIX = ".edgetune-"
_STALE_MINUTES = 60  # another machine's session is dead if its folder is unchanged for this time and no process runs
_PARTS = 6  # of a line that `scan_script` prints
_MOST_DIGITS = 10  # of a process id
_UNKNOWN = "0"

_living: set[str] = set()  # tokens of this process's live sessions


class Session:
    """A unique name for the files of one use of a board."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(8)

    @property
    def folder_name(self) -> str:
        """Name of its folder on the board."""
        return PREFIX + self.token

    @property
    def owner(self) -> str:
        """Three words: this machine with its boot and process id namespace, the process id, the process start time."""
        pid = os.getpid()
        return f"{_machine()} {pid} {_start_time(pid)}"

    def begin(self) -> None:
        """Mark the session as live, so that others keep its folder."""
        _living.add(self.token)

    def end(self) -> None:
        """Mark the session as ended, so that others may remove the rest of it."""
        _living.discard(self.token)


def scan_script(folders: Iterable[str]) -> str:
    """Return a script that prints a line "session=" for each edgetune session folder in `folders`.

    The rest of the line: alive or dead (its processes), old or new (its folder), the owner's words, and the folder.
    """
    words = " ".join(quoted(folder) for folder in folders)
    return f"""
for base in {words}; do
for d in "$base"/{PREFIX}*; do
if [ -d "$d" ] && [ ! -L "$d" ] && [ -O "$d" ]; then
state=dead
for p in $(cat "$d/pids"); do if [ -d "/proc/$p" ]; then state=alive; fi; done
age=new
if [ -n "$(find "$d" -maxdepth 0 -mmin +{_STALE_MINUTES})" ]; then age=old; fi
echo "session=$state $age $(cat "$d/owner" || echo unknown 0 0) $d"
fi; done; done
"""


def stale(output: str) -> list[str]:
    """Return the folders of dead sessions from the output lines of `scan_script`."""
    found = []
    for line in output.splitlines():
        words = line.removeprefix("session=").split(maxsplit=_PARTS - 1)
        if not line.startswith("session=") or len(words) != _PARTS or PREFIX not in words[5]:
            continue
        state, age, machine, pid, start, folder = words
        runs = _runs(pid, start, folder.rpartition(PREFIX)[2]) if machine == _machine() else None
        if runs is False or (runs is None and state == "dead" and age == "old"):
            found.append(folder)
    return found


def removal_script(words: Sequence[str]) -> str:
    """Return a script that kills the processes that run from folders, and removes the folders.

    It prints the folders that are still there, one per line, and fails if there are any. `words` are the folders as
    `quoted` writes them for a shell.
    """
    return f"""
left=0
for d in {" ".join(words)}; do
{ENDING}
rm -rf "$d"
if [ -e "$d" ]; then echo "$d"; left=1; fi
done
exit $left
"""


def quoted(folder: str) -> str:
    """Return `folder` quoted for a shell, except a leading $HOME, which the board's shell expands."""
    if folder == "$HOME" or folder.startswith("$HOME/"):
        return '"$HOME"' + shlex.quote(folder.removeprefix("$HOME")) if folder != "$HOME" else '"$HOME"'
    return shlex.quote(folder)


def _machine() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id")
    booted = boot.read_text().strip() if boot.is_file() else ""
    try:
        space = str(Path("/proc/self/ns/pid").stat().st_ino)  # each container has its own process ids
    except OSError:
        space = ""
    return f"{socket.gethostname()}-{booted}-{space}".replace(" ", "_")


def _runs(pid: str, start: str, token: str) -> bool | None:
    """Whether the process runs on this machine; None where its start time is hidden (hidepid)."""
    if not pid.isdecimal() or len(pid) > _MOST_DIGITS:
        return None
    if int(pid) == os.getpid():
        return token in _living
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    seen = _start_time(int(pid))
    return None if seen == _UNKNOWN else seen == start


def _start_time(pid: int) -> str:
    """Return the start time of a local process, in ticks since boot; "0" if it is hidden."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return _UNKNOWN
    return text.rpartition(")")[2].split()[19]
