"""Programs in process groups of their own: each group is ended as a whole, at the latest when this process ends.

A compiler driver or `make` that is killed leaves its children behind, and a program in a group of its own outlives a
parent that is killed. So a leash, one shell for all programs of this process, knows their groups. It reads a pipe whose
other end this process alone has, and kills the groups that are left when that end is closed, whatever closed it:
SIGKILL, a crash, or another program that takes the place of this process. A program that dies between its start and
the first line on that pipe (some microseconds) is not known to it, and one that starts a session of its own leaves the
group: `end_family` finds it while its parents live. Where the leash itself is killed, the next line starts another one,
which gets to know all groups.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from edgetune.errors import ToolHung

_LEASH = """trap '' HUP INT TERM
cd /
exec 3<&0 0</dev/null
{
  groups=' '
  while read -r word group; do
    case $word in
      hold) groups="$groups$group " ;;
      free) case $groups in *" $group "*) groups="${groups%% $group *} ${groups#* $group }" ;; esac ;;
    esac
  done
  for group in $groups; do kill -s KILL -- "-$group"; done
} <&3 3<&- &
"""
"""The shell that is started ends at once, so that its child, the leash, is a child of init: init reaps it."""
_ROUNDS = 20
_END_S = 30.0
_DEAD = frozenset("ZX")


class _Leash:
    """The pipe to the shell that ends the groups; it is started with the first of them."""

    lock = threading.Lock()
    end: int | None = None
    held: ClassVar[set[int]] = set()

    @classmethod
    def hold(cls, group: int) -> None:
        """Let the shell end a group with this process. Raises OSError where none can be started."""
        with cls.lock:
            cls.held.add(group)
            try:
                cls._say("hold", group)
            except OSError:
                cls.held.discard(group)
                raise

    @classmethod
    def free(cls, group: int) -> None:
        """Let a group live on."""
        with cls.lock:
            cls.held.discard(group)
            with contextlib.suppress(OSError):  # the next `hold` tells another shell what is left
                cls._say("free", group)

    @classmethod
    def _say(cls, word: str, group: int) -> None:
        """Tell the shell one word; where it was killed or never started, tell another one all groups that are held."""
        if cls.end is not None:
            try:
                os.write(cls.end, f"{word} {group}\n".encode())
            except BrokenPipeError:
                os.close(cls.end)
                cls.end = None
            else:
                return
        if cls.held:
            cls.end = _start_leash()
            for one in cls.held:
                os.write(cls.end, f"hold {one}\n".encode())

    @classmethod
    def forget(cls) -> None:
        """Close the end that a forked child has: its parent's groups are not its own."""
        cls.lock = threading.Lock()
        cls.held = set()
        if cls.end is not None:
            os.close(cls.end)
            cls.end = None


os.register_at_fork(after_in_child=_Leash.forget)


def _start_leash() -> int:
    """Start the shell, which has this end of the pipe alone; return the other one."""
    read, write = os.pipe()
    silent = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (1, 2)]
    words = ["sh", "-c", _LEASH, "edgetune-leash"]
    try:
        starter = os.posix_spawn(
            "/bin/sh", words, {}, file_actions=[(os.POSIX_SPAWN_DUP2, read, 0), *silent], setsid=True
        )
        with contextlib.suppress(ChildProcessError):  # another thread waits for all children
            os.waitpid(starter, 0)
    except OSError:
        os.close(write)
        raise
    finally:
        os.close(read)
    return write


@contextmanager
def program(command: Sequence[str], *, leave: bool = False, **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start a program in a session of its own; `options` are those of `Popen`. Nothing of its group outlives the block.

    With `leave`, what a program has left running lives on where the program had ended before the block did. Where an
    exception leaves the block, all that the program has started ends in any case, in whatever group it is. Raises
    OSError where it cannot start, ToolHung where it does not end though it was killed: it belongs to another user, or
    the kernel waits for a device.
    """
    process = subprocess.Popen(list(command), start_new_session=True, **options)
    with contextlib.ExitStack() as ends:
        ends.callback(_close_pipes, process)
        try:
            _Leash.hold(process.pid)
            ends.callback(_Leash.free, process.pid)
            yield process
        except Exception:  # it goes on, unless the program does not end: then what it says would be untrue
            end_family(process.pid)
            _end(process, command[0])
            raise
        except BaseException:  # an interrupt, which nothing replaces
            end_family(process.pid)
            with contextlib.suppress(ToolHung):
                _end(process, command[0])
            raise
        if process.poll() is None or not leave:
            _end(process, command[0])


def _end(process: subprocess.Popen[Any], name: str) -> None:
    """Kill a program and its group; raises ToolHung where it has not ended after `_END_S` seconds."""
    kill_group(process.pid)
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        raise ToolHung(
            f"{Path(name).name} could not be ended: process {process.pid} still runs {_END_S:g} s after it was "
            "killed, because it belongs to another user or waits for a device; end it by hand"
        ) from None


def _close_pipes(process: subprocess.Popen[Any]) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def kill_group(group: int) -> None:
    """Kill a process group if it is still there.

    Its leader may have ended: numbers are given out in turn, so that no other group has that one so soon.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def end_family(leader: int) -> None:
    """Kill a process, its group, its session, and all that any of them has started."""
    for _ in range(_ROUNDS):  # one that was just starting another is found again
        found = _family(leader)
        if not found:
            return
        for number in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(number, signal.SIGKILL)


def _family(leader: int) -> set[int]:
    """Processes that live, and are that one, of its group or session, or below any of these."""
    relations: dict[int, set[int]] = {}
    dead = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            number = int(stat.parent.name)
            state, *numbers = stat.read_text(errors="replace").rpartition(")")[2].split()[:4]
            relations[number] = set(map(int, numbers))  # parent, group, session
            if state in _DEAD:
                dead.add(number)
    found = {leader} & relations.keys()
    while more := {number for number, others in relations.items() if others & (found | {leader})} - found:
        found |= more
    return found - dead
